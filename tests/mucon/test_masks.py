"""Masks against equation (9) and what must hold for any of them."""

from __future__ import annotations

import dataclasses
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.masks import (
    MaskConfig,
    MaskShape,
    _gathered_per_latent,
    absolute_lengths,
    frames_per_latent,
    segment_masks,
    stretched,
    template,
)
from mucon.model.backbone import latent_index
from mucon.segments import SHORTEST
from tests.helpers import oracles_core as oracles
from tests.helpers.refusals import refused

SHAPES = get_args(MaskShape)
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
    ("name", "value"),
    [
        ("overlap", 1.0),
        ("overlap", -0.1),
        ("overlap", float("nan")),
        ("n_samples", 3),
        ("min_ramp_frames", -1.0),
        ("min_ramp_frames", float("nan")),
    ],
)
def test_a_mask_setting_out_of_range_is_refused_with_its_value(name, value):
    with refused("range", f"mask.{name}", n=1) as refusal:
        MaskConfig(**{name: value})
    assert refusal.values[0] is value


WIDE = st.sampled_from([0.5, 2.0, 8.0, 31.0])


def ramps(config: MaskConfig, **values: object) -> MaskConfig:
    return dataclasses.replace(config, **values)


@given(RELATIVE, st.integers(1, 400), CONFIGS)
@settings(max_examples=40, deadline=None)
def test_ramps_narrower_than_they_are_anyway_change_nothing(relative, T, config):
    lengths = float64(relative, T)
    narrow = segment_masks(lengths, T, ramps(config, min_ramp_frames=1e-9))
    torch.testing.assert_close(narrow, segment_masks(lengths, T, config), rtol=0, atol=1e-9)


@given(RELATIVE, st.integers(1, 400), CONFIGS, WIDE)
@settings(max_examples=40, deadline=None)
def test_wide_ramps_stay_between_zero_and_the_template(relative, T, config, width):
    """With the ramps' ends where they are, a mask is at most the template, held constant outside the segment."""
    lengths = float64(relative, T)
    masks = segment_masks(lengths, T, ramps(config, min_ramp_frames=width))
    assert masks.shape == (len(relative), T)
    assert (masks >= 0).all()
    assert (masks <= 1 + 1e-9).all()
    starts, grown = stretched(torch.cumsum(lengths, 0) - lengths, lengths, config)
    middles = torch.arange(T) + 0.5
    cell = grown / config.n_samples  # the corner-aligned ramps are centred half a cell outside
    reach = torch.maximum(torch.tensor(width / 2), cell)[:, None] + cell[:, None] + 1
    outside = (middles < starts[:, None] - reach) | (middles > (starts + grown)[:, None] + reach)
    assert not masks[outside].any()


@given(RELATIVE, st.integers(20, 400), CONFIGS, WIDE)
@settings(max_examples=40, deadline=None)
def test_frames_far_inside_a_segment_keep_the_templates_value(relative, T, config, width):
    lengths = float64(relative, T)
    starts, grown = stretched(torch.cumsum(lengths, 0) - lengths, lengths, config)
    middles = torch.arange(T) + 0.5
    reach = (width / 2 + grown / (config.n_samples - 1) + 1)[:, None]
    inside = (middles > starts[:, None] + reach) & (middles < (starts + grown)[:, None] - reach)
    wide = segment_masks(lengths, T, ramps(config, min_ramp_frames=width))
    torch.testing.assert_close(wide[inside], segment_masks(lengths, T, config)[inside], rtol=0, atol=1e-9)


@given(RELATIVE, st.integers(1, 500), WIDE, st.sampled_from([0.0, 0.1]))
@settings(max_examples=40, deadline=None)
def test_the_sum_of_a_box_with_wide_ramps_differs_from_its_part_in_the_video_by_a_bound(relative, T, width, overlap):
    """A ramp cut at the video's end loses an eighth of its width; two ramps that meet add a sixth at most."""
    lengths = float64(relative, T)
    sums = segment_masks(lengths, T, MaskConfig(overlap=overlap, min_ramp_frames=width)).sum(1).tolist()
    for total, (start, length) in zip(sums, oracles.spans(lengths.tolist(), overlap, "symmetric"), strict=True):
        part = min(start + length, T) - max(start, 0)
        ramp = max(width, length / 100)
        assert abs(total - part) <= 1 + ramp / 4 + 1e-6


@given(RELATIVE, st.integers(2, 200), CONFIGS, WIDE)
@settings(max_examples=40, deadline=None)
def test_a_ramp_rises_in_a_straight_line_over_so_many_frames_about_the_segments_end(relative, T, config, width):
    lengths, J = float64(relative, T), config.n_samples
    U = oracles.template(config.shape, J)
    expected = []
    for start, length in oracles.spans(lengths.tolist(), config.overlap, config.overlap_rule):
        if config.corner_aligned:  # sample j is at j / (J - 1) of the segment, ramps half a cell outside
            cell, place = length / (J - 1), np.arange(T) * T / (T - 1) - start
            samples, left, right = np.arange(J) * cell, -cell / 2, length + cell / 2
        else:
            cell, place = length / J, np.arange(T) + 0.5 - start
            samples, left, right = (np.arange(J) + 0.5) * cell, 0.0, length
        ramp = max(width, cell)
        rise, fall = (np.clip(distance / ramp + 0.5, 0, 1) for distance in (place - left, right - place))
        expected.append(np.interp(place, samples, U) * rise * fall)
    masks = segment_masks(lengths, T, ramps(config, min_ramp_frames=width))
    np.testing.assert_allclose(masks.numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("corner_aligned", [False, True])
def test_wide_ramps_give_the_border_of_a_short_segment_a_gradient_that_it_does_not_have_otherwise(
    corner_aligned,
):
    def gradient(width: float) -> torch.Tensor:
        lengths = torch.tensor([20.2, 30.1, 9.7], dtype=torch.float64, requires_grad=True)
        config = MaskConfig(shape="box", corner_aligned=corner_aligned, min_ramp_frames=width)
        weights = torch.linspace(0, 1, 60, dtype=torch.float64)
        (segment_masks(lengths, 60, config)[1] * weights).sum().backward()
        return lengths.grad

    assert not gradient(0.0).any()
    assert gradient(4.0)[:2].all()


@pytest.mark.parametrize("corner_aligned", [False, True])
@pytest.mark.parametrize("width", [0.7, 5.0, 60.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_with_wide_ramps_are_those_of_finite_differences(shape, width, corner_aligned):
    config = MaskConfig(shape=shape, overlap=0.1, corner_aligned=corner_aligned, min_ramp_frames=width)
    for relative, T in (([0.31], 1), ([0.2, -0.7, 0.41], 40), ([0.1, 0.23, -0.3, 0.37], 3)):
        log_lengths = torch.tensor(relative, dtype=torch.float64, requires_grad=True)
        weights = torch.randn(len(relative), T, generator=torch.Generator().manual_seed(T), dtype=torch.float64)
        assert torch.autograd.gradcheck(
            lambda x, T=T, weights=weights: (segment_masks(absolute_lengths(x, T), T, config) * weights).sum(),
            log_lengths,
        )


def test_vanishing_segments_have_finite_gradients_with_wide_ramps():
    log_lengths = torch.tensor([0.0, 90.0, 0.0], requires_grad=True)
    lengths = absolute_lengths(log_lengths, 10)
    masks = segment_masks(lengths, 10, MaskConfig(shape="bell", min_ramp_frames=3.0))
    (masks.sum(1) / lengths).sum().backward()
    assert torch.isfinite(masks).all()
    assert torch.isfinite(log_lengths.grad).all()


@pytest.mark.parametrize("stride", [None, 4])
@pytest.mark.parametrize(("T", "n_latent"), [(1, 1), (3, 1), (7, 1), (16, 4), (19, 4), (23, 5)])
def test_the_sums_in_a_fixed_order_that_a_gpu_makes_are_the_same(T, n_latent, stride):
    masks = torch.rand(3, T, dtype=torch.float64, generator=torch.Generator().manual_seed(T), requires_grad=True)
    index = latent_index(T, n_latent, stride=stride)
    sums = [made(masks, index, n_latent) for made in (frames_per_latent, _gathered_per_latent)]
    torch.testing.assert_close(*sums)
    torch.testing.assert_close(*(torch.autograd.grad(made.square().sum(), masks)[0] for made in sums))
