"""Masks against equation (9) and what must hold for any of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.errors import InputError
from mucon.masks import (
    SHAPES,
    SHORTEST,
    MaskConfig,
    absolute_lengths,
    frames_per_latent,
    segment_masks,
    stretched,
    template,
)
from mucon.model.backbone import latent_index
from tests import oracles_core as oracles

RELATIVE = st.lists(st.floats(-3, 3), min_size=1, max_size=6)
CONFIGS = st.builds(
    MaskConfig,
    shape=st.sampled_from(SHAPES),
    overlap=st.sampled_from([0.0, 0.1, 0.35]),
    overlap_rule=st.sampled_from(["symmetric", "published"]),
    corner_aligned=st.booleans(),
    n_samples=st.sampled_from([4, 37, 100]),
)


def float64(relative: list[float], T: int) -> torch.Tensor:
    return absolute_lengths(torch.tensor(relative, dtype=torch.float64), T)


@given(RELATIVE, st.integers(1, 60), CONFIGS)
@settings(max_examples=60, deadline=None)
def test_a_mask_is_the_template_through_triangular_kernels(relative, T, config):
    lengths = float64(relative, T)
    expected = oracles.masks(
        lengths.tolist(),
        T,
        shape=config.shape,
        overlap=config.overlap,
        rule=config.overlap_rule,
        corner_aligned=config.corner_aligned,
        J=config.n_samples,
    )
    np.testing.assert_allclose(segment_masks(lengths, T, config).numpy(), expected, rtol=0, atol=1e-6)


@given(RELATIVE, st.integers(1, 3000), CONFIGS)
@settings(max_examples=60, deadline=None)
def test_values_stay_between_zero_and_one(relative, T, config):
    masks = segment_masks(absolute_lengths(torch.tensor(relative), T), T, config)
    assert masks.shape == (len(relative), T)
    assert masks.dtype == torch.float32
    assert masks.min() >= 0
    assert masks.max() <= 1 + 1e-6


@given(RELATIVE, st.integers(1, 500), st.sampled_from(SHAPES), st.sampled_from([0.0, 0.1]))
@settings(max_examples=60, deadline=None)
def test_the_sum_over_frames_differs_from_the_integral_by_at_most_one_frame(relative, T, shape, overlap):
    lengths = float64(relative, T)
    sums = segment_masks(lengths, T, MaskConfig(shape=shape, overlap=overlap)).sum(1).tolist()
    for total, (start, length) in zip(sums, oracles.spans(lengths.tolist(), overlap, "symmetric"), strict=True):
        assert abs(total - oracles.mask_integral(start, length, T, shape)) <= 1 + 1e-6


@given(RELATIVE, st.integers(1, 200), st.sampled_from(["box", "bell"]), st.sampled_from([0.0, 0.1, 0.5]))
@settings(max_examples=60, deadline=None)
def test_reversed_segments_have_mirrored_masks(relative, T, shape, overlap):
    config = MaskConfig(shape=shape, overlap=overlap)
    lengths = float64(relative, T)
    mirrored = segment_masks(lengths.flip(0), T, config).flip(0, 1)
    torch.testing.assert_close(mirrored, segment_masks(lengths, T, config), rtol=0, atol=1e-6)


def test_an_overlap_reaches_equally_far_over_both_ends():
    masks = segment_masks(torch.tensor([100.0, 200.0, 100.0]), 400, MaskConfig(overlap=0.1))
    covered = [torch.nonzero(row > 0.5).flatten() for row in masks]
    assert [(int(c[0]), int(c[-1]) + 1) for c in covered] == [(0, 110), (80, 320), (290, 400)]


def test_the_published_overlap_reaches_six_percent_left_and_fourteen_percent_right():
    config = MaskConfig(overlap=0.1, overlap_rule="published")
    starts, lengths = stretched(torch.tensor([50.0]), torch.tensor([100.0]), config)
    assert starts.item() == pytest.approx(44, abs=1e-4)
    assert (starts + lengths).item() == pytest.approx(164, abs=1e-4)


@pytest.mark.parametrize(("length", "n_segments"), [(7, 4), (100, 3), (450, 3)])
def test_equal_boxes_share_every_frame_between_them(length, n_segments):
    T = length * n_segments
    masks = segment_masks(torch.full((n_segments,), float(length)), T, MaskConfig())
    ramp = length // 100 + 1
    torch.testing.assert_close(masks.sum(0)[ramp : T - ramp], torch.ones(T - 2 * ramp), rtol=0, atol=1e-4)


def test_float32_places_the_borders_of_a_long_recording_as_exactly_as_float64():
    T, lengths = 71_000, absolute_lengths(torch.linspace(-2, 2, 25), 71_000)
    for shape in SHAPES:
        config = MaskConfig(shape=shape, overlap=0.1)
        exact = segment_masks(lengths.double(), T, config)
        assert (segment_masks(lengths, T, config) - exact).abs().max() < 1e-3


@pytest.mark.parametrize("T", [1, 2, 50])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_segment_covers_the_whole_recording(shape, T):
    masks = segment_masks(torch.tensor([float(T)]), T, MaskConfig(shape=shape))
    expected = oracles.masks([float(T)], T, shape=shape)
    np.testing.assert_allclose(masks.numpy(), expected, atol=1e-5)
    assert masks.min() > 0.04


@pytest.mark.parametrize("corner_aligned", [False, True])
@pytest.mark.parametrize("overlap", [0.0, 0.1])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_finite_differences(shape, overlap, corner_aligned):
    config = MaskConfig(shape=shape, overlap=overlap, corner_aligned=corner_aligned)
    for relative, T in (([0.31], 1), ([0.2, -0.7, 0.41], 40), ([0.1, 0.23, -0.3, 0.37], 3), ([0.2, -0.31], 450)):
        log_lengths = torch.tensor(relative, dtype=torch.float64, requires_grad=True)
        weights = torch.randn(len(relative), T, generator=torch.Generator().manual_seed(T), dtype=torch.float64)
        assert torch.autograd.gradcheck(
            lambda x, T=T, weights=weights: (segment_masks(absolute_lengths(x, T), T, config) * weights).sum(),
            log_lengths,
        )


def test_lengths_are_not_changed_in_place():
    lengths = torch.tensor([3.0, 4.0, 5.0])
    segment_masks(lengths, 12, MaskConfig(overlap=0.1, overlap_rule="published"))
    assert lengths.tolist() == [3.0, 4.0, 5.0]


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=8), st.integers(1, 10_000))
@settings(max_examples=60, deadline=None)
def test_absolute_lengths_sum_to_the_recording_in_the_given_proportions(relative, T):
    lengths = float64(relative, T)
    assert lengths.sum().item() == pytest.approx(T, rel=1e-6, abs=1e-4)
    np.testing.assert_allclose(lengths, np.maximum(T * np.array(oracles.softmax(relative)), SHORTEST), rtol=1e-9)


@pytest.mark.parametrize("corner_aligned", [False, True])
@pytest.mark.parametrize("gap", [30.0, 90.0, 1000.0])
def test_a_segment_that_vanishes_leaves_finite_masks_and_gradients(gap, corner_aligned):
    log_lengths = torch.tensor([0.0, gap, 0.0], requires_grad=True)
    config = MaskConfig(shape="bell", overlap=0.1, corner_aligned=corner_aligned)
    lengths = absolute_lengths(log_lengths, 10)
    masks = segment_masks(lengths, 10, config)
    (masks.sum(1) / lengths).sum().backward()
    assert torch.isfinite(masks).all()
    assert torch.isfinite(log_lengths.grad).all()


def test_a_length_that_is_nan_gives_a_mask_that_is_nan():
    masks = segment_masks(torch.tensor([2.0, float("nan")]), 4, MaskConfig())
    assert torch.isnan(masks[1]).all()
    assert not torch.isnan(masks[0]).any()


@given(st.integers(1, 80), st.integers(1, 5), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_masks_summed_over_latent_frames_do_what_masks_of_upsampled_logits_do(T, n_latent, seed):
    generator = torch.Generator().manual_seed(seed)
    n_latent = min(n_latent, T)
    masks = torch.rand(3, T, generator=generator, dtype=torch.float64)
    logits = torch.randn(n_latent, 4, generator=generator, dtype=torch.float64)
    index = latent_index(T, n_latent)
    torch.testing.assert_close(frames_per_latent(masks, index, n_latent) @ logits, masks @ logits[index])


@pytest.mark.parametrize(("shape", "n"), [(shape, n) for shape in SHAPES for n in (4, 8, 99, 100)])
def test_templates_are_the_shapes_of_the_figure(shape, n):
    np.testing.assert_allclose(template(shape, n).numpy(), oracles.template(shape, n), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"), [("overlap", 1.0), ("overlap", -0.1), ("overlap", float("nan")), ("n_samples", 3)]
)
def test_a_mask_setting_out_of_range_is_refused_with_its_value(name, value):
    with pytest.raises(InputError, match=rf"mask\.{name} .*{value}"):
        MaskConfig(**{name: value})
