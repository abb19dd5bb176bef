"""Losses against loops over frames and segments, and what must hold for any logits."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from mucon import losses
from mucon.config import LossConfig
from mucon.masks import frames_per_latent
from mucon.model.backbone import latent_index
from tests.helpers import oracles_core as oracles
from tests.helpers.refusals import refused

N = 4


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def small(seed: int, T: int = 12, n_latent: int = 5, M: int = 3):
    """Latent logits, latent frame of each frame, masks over frames, transcript and divisors."""
    generator = torch.Generator().manual_seed(seed)
    masks = torch.rand(M, T, generator=generator, dtype=torch.float64)
    transcript = torch.randint(N, (M,), generator=generator)
    divisors = 1 + 5 * torch.rand(M, generator=generator, dtype=torch.float64)
    return draw(seed, n_latent, N), latent_index(T, n_latent), masks, transcript, divisors


@pytest.mark.parametrize("over_segments", ["mean", "sum"])
@pytest.mark.parametrize(("T", "n_latent", "M"), [(12, 5, 3), (1, 1, 1), (7, 7, 1), (5, 1, 5)])
def test_segment_consistency_is_the_cross_entropy_of_logits_averaged_over_frames(T, n_latent, M, over_segments):
    logits, index, masks, transcript, divisors = small(T, T, n_latent, M)
    ours = losses.segment_consistency(
        logits, frames_per_latent(masks, index, n_latent), transcript, divisors, over_segments
    )
    expected = oracles.segment_consistency(
        logits[index].tolist(), masks.tolist(), transcript.tolist(), divisors.tolist(), over_segments
    )
    assert ours.item() == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 10_000), st.lists(st.floats(-5, 5), min_size=5, max_size=5))
@settings(max_examples=30, deadline=None)
def test_segment_consistency_does_not_see_what_all_classes_of_a_frame_share(seed, shifts):
    logits, index, masks, transcript, divisors = small(seed)
    latent_masks = frames_per_latent(masks, index, 5)
    shifted = logits + torch.tensor(shifts, dtype=torch.float64)[:, None]
    before = losses.segment_consistency(logits, latent_masks, transcript, divisors)
    torch.testing.assert_close(losses.segment_consistency(shifted, latent_masks, transcript, divisors), before)


@pytest.mark.parametrize(("T", "n_latent", "M"), [(12, 5, 3), (1, 1, 1), (5, 1, 5)])
def test_frame_consistency_is_the_masked_cross_entropy_of_every_frame(T, n_latent, M):
    logits, index, masks, transcript, _ = small(T, T, n_latent, M)
    ours = losses.frame_consistency(logits, frames_per_latent(masks, index, n_latent), transcript, T)
    expected = oracles.frame_consistency(logits[index].tolist(), masks.tolist(), transcript.tolist())
    assert ours.item() == pytest.approx(expected, rel=1e-12)


def test_transcript_loss_sums_over_the_actions_and_the_end():
    logits = draw(3, 4, N + 1)
    targets = [2, 0, 2, N]
    expected = sum(-math.log(oracles.softmax(row)[n]) for row, n in zip(logits.tolist(), targets, strict=True))
    assert losses.transcript_loss(logits, torch.tensor(targets)).item() == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=8), st.floats(0, 5))
@settings(max_examples=60, deadline=None)
def test_length_loss_is_the_distance_to_the_allowed_range(log_lengths, width):
    ours = losses.length_loss(torch.tensor(log_lengths, dtype=torch.float64), width).item()
    assert ours == pytest.approx(oracles.length_regulariser(log_lengths, width), abs=1e-12)
    assert (ours == 0) == all(abs(length) <= width for length in log_lengths)


@pytest.mark.parametrize("rule", ["per_term", "after_mean"])
@pytest.mark.parametrize("scale", [0.5, 6.0, 60.0])
@pytest.mark.parametrize(("T", "n_latent"), [(12, 5), (7, 7), (1, 1), (9, 1)])
def test_smoothing_compares_neighbouring_frames(T, n_latent, scale, rule):
    logits = scale * draw(5, n_latent, N)
    ours = losses.smoothing_loss(logits, T, 4.0, rule)
    expected = oracles.smoothing(logits[latent_index(T, n_latent)].tolist(), 4.0, rule)
    assert ours.item() == pytest.approx(expected, rel=1e-12, abs=1e-15)


@given(st.integers(0, 10_000), st.floats(0.1, 6))
@settings(max_examples=30, deadline=None)
def test_smoothing_is_bounded_by_its_threshold_and_grows_with_it(seed, threshold):
    logits = 8 * draw(seed, 6, N)
    for rule in ("per_term", "after_mean"):
        values = [losses.smoothing_loss(logits, 6, tau, rule).item() for tau in (threshold, 2 * threshold)]
        assert 0 <= values[0] <= threshold**2 + 1e-12
        assert values[0] <= values[1] + 1e-12


@pytest.mark.parametrize("rule", ["per_term", "after_mean"])
def test_smoothing_has_no_gradient_through_the_earlier_frame(rule):
    scale = {"per_term": 3.0, "after_mean": 1.0}[rule]  # some terms are cut, the mean is not
    logits = (scale * draw(7, 6, N)).requires_grad_()
    losses.smoothing_loss(logits, 6, 4.0, rule).backward()
    earlier = torch.log_softmax(logits.detach(), 1)[:-1]

    def with_fixed_earlier(x: Tensor) -> Tensor:
        differences = torch.log_softmax(x, 1)[1:] - earlier
        terms = differences.abs().clamp(max=4.0) if rule == "per_term" else differences
        return terms.square().mean()

    x = logits.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(with_fixed_earlier, x)
    torch.testing.assert_close(logits.grad, torch.autograd.grad(with_fixed_earlier(x), x)[0])
    assert not logits.grad[0].any()


def test_frame_cross_entropy_is_the_mean_over_frames():
    logits, index = draw(9, 3, N), latent_index(8, 3)
    labels = [0, 1, 1, 3, 2, 2, 2, 0]
    costs = [-math.log(oracles.softmax(row)[label]) for row, label in zip(logits[index].tolist(), labels, strict=True)]
    ours = losses.frame_cross_entropy(logits, index, torch.tensor(labels))
    assert ours.item() == pytest.approx(np.mean(costs), rel=1e-12)


def test_supervised_length_loss_compares_shares_of_the_recording():
    log_lengths, true = [0.3, -1.0, 2.0], [10, 30, 20]
    shares = oracles.softmax(log_lengths)
    expected = np.mean([(share - length / 60) ** 2 for share, length in zip(shares, true, strict=True)])
    ours = losses.supervised_length_loss(torch.tensor(log_lengths, dtype=torch.float64), torch.tensor(true), "share")
    assert ours.item() == pytest.approx(expected, rel=1e-6)


def test_supervised_length_loss_compares_centred_log_lengths():
    log_lengths, true = [0.3, -1.0, 2.0], [10, 0, 20]
    true_logs = [math.log(max(length, 1)) for length in true]
    expected = np.mean(
        [(p - np.mean(log_lengths) - q + np.mean(true_logs)) ** 2 for p, q in zip(log_lengths, true_logs, strict=True)]
    )
    given = torch.tensor(log_lengths, dtype=torch.float64, requires_grad=True)
    ours = losses.supervised_length_loss(given, torch.tensor(true))
    assert ours.item() == pytest.approx(expected, rel=1e-12)
    assert losses.supervised_length_loss(given + 7, torch.tensor(true)).item() == pytest.approx(expected, rel=1e-12)
    assert torch.autograd.gradcheck(lambda x: losses.supervised_length_loss(x, torch.tensor(true)), given)


@pytest.mark.parametrize(("T", "n_latent", "M"), [(12, 5, 3), (1, 1, 1), (9, 1, 4)])
def test_gradients_of_the_consistency_losses_are_those_of_finite_differences(T, n_latent, M):
    logits, index, masks, transcript, divisors = small(T, T, n_latent, M)
    latent_masks = frames_per_latent(masks, index, n_latent)
    inputs = tuple(x.clone().requires_grad_() for x in (logits, latent_masks, divisors))
    for over in ("mean", "sum"):
        assert torch.autograd.gradcheck(
            lambda x, w, d, over=over: losses.segment_consistency(x, w, transcript, d, over), inputs
        )
    assert torch.autograd.gradcheck(lambda x, w: losses.frame_consistency(x, w, transcript, T), inputs[:2])


def test_gradients_of_the_other_losses_are_those_of_finite_differences():
    logits = draw(1, 4, N).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: losses.transcript_loss(x, torch.tensor([0, 3, 1, 2])), logits)
    assert torch.autograd.gradcheck(
        lambda x: losses.frame_cross_entropy(x, latent_index(9, 4), torch.tensor([0, 3, 1, 2, 0, 0, 0, 1, 3])), logits
    )
    log_lengths = torch.tensor([-3.0, 0.5, 2.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(losses.length_loss, log_lengths)
    assert torch.autograd.gradcheck(
        lambda x: losses.supervised_length_loss(x, torch.tensor([4, 9, 2], dtype=torch.float64)), log_lengths
    )


def test_the_length_loss_pulls_back_only_what_left_the_range():
    log_lengths = torch.tensor([-3.0, 1.9, 2.5], requires_grad=True)
    functional.relu(losses.length_loss(log_lengths)).backward()
    assert log_lengths.grad.tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.parametrize("name", [f.name for f in fields(LossConfig) if f.type == "float"])
@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_a_loss_setting_out_of_range_is_refused_with_its_value(name, value):
    with refused("range", f"loss.{name}", n=1) as refusal:
        LossConfig(**{name: value})
    assert refusal.values[0] is value


@pytest.mark.parametrize("rule", ["per_term", "after_mean"])
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_smoothing_that_is_not_detached_has_the_same_value_and_the_gradient_of_both_frames(scale: float, rule: str):
    """Against the whole expression over all T frames under autograd."""
    T, index = 9, latent_index(9, 4)
    logits = (scale * draw(11, 4, N)).requires_grad_()
    ours = losses.smoothing_loss(logits, T, 4.0, rule, detached=False)
    logs = torch.log_softmax(logits, 1)[index]
    differences = logs[1:] - logs[:-1]
    whole = (
        differences.abs().clamp(max=4.0).square().mean()
        if rule == "per_term"
        else differences.square().mean().clamp(max=16.0)
    )
    torch.testing.assert_close(ours, whole)
    torch.testing.assert_close(ours, losses.smoothing_loss(logits, T, 4.0, rule))
    gradients = [torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (ours, whole)]
    torch.testing.assert_close(*gradients)
    if rule == "per_term" or scale == 1.0:
        assert gradients[0][0].any()
    if scale == 1.0:
        assert torch.autograd.gradcheck(lambda x: losses.smoothing_loss(x, T, 4.0, rule, False), logits)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=8), st.floats(-3, 3))
@settings(max_examples=40, deadline=None)
def test_true_lengths_cost_nothing_by_either_rule(true: list[int], shift: float):
    lengths = torch.tensor(true)
    log_lengths = lengths.double().log() + shift
    for rule in ("log", "share"):
        assert losses.supervised_length_loss(log_lengths, lengths, rule).item() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("rule", ["log", "share"])
def test_the_gradient_of_the_supervised_length_loss_is_that_of_finite_differences(rule: str):
    log_lengths = torch.tensor([-3.0, 0.5, 2.5], dtype=torch.float64, requires_grad=True)
    true = torch.tensor([4, 0, 20])
    assert torch.autograd.gradcheck(lambda x: losses.supervised_length_loss(x, true, rule), log_lengths)
    (gradient,) = torch.autograd.grad(losses.supervised_length_loss(log_lengths, true, rule), log_lengths)
    assert gradient.sum().item() == pytest.approx(0, abs=1e-12)


def test_one_segment_has_no_supervised_length_loss():
    log_lengths = torch.tensor([2.5], dtype=torch.float64, requires_grad=True)
    for rule in ("log", "share"):
        value = losses.supervised_length_loss(log_lengths, torch.tensor([20]), rule)
        assert (value.item(), torch.autograd.grad(value, log_lengths)[0].item()) == (0.0, 0.0)
