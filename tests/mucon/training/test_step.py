"""The losses of one video put together."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from mucon import losses
from mucon.config import LossConfig, MaskConfig
from mucon.masks import absolute_lengths, frames_per_latent, segment_masks
from mucon.model import TeacherForced, build_model
from mucon.model.backbone import latent_index
from mucon.model.network import NetworkSize
from mucon.training.step import TERMS, loss_vector, video_losses
from tests.helpers.factories import small_config

SIZE = NetworkSize(dim=5, n_actions=4, max_segments=9)
TRANSCRIPT = torch.tensor([0, 2, 1])


def small_model(seed: int = 0):
    config = small_config()
    return build_model(SIZE, config.backbone, config.segment_branch, seed=seed)


def outputs(dtype: torch.dtype = torch.float64, T: int = 11, n_latent: int = 4) -> TeacherForced:
    generator = torch.Generator().manual_seed(0)
    random = [torch.randn(*shape, generator=generator) for shape in ((n_latent, 4), (4, 5), (3,))]
    logits, transcript_logits, log_lengths = (x.to(dtype).requires_grad_() for x in random)
    return TeacherForced(logits, latent_index(T, n_latent), transcript_logits, log_lengths)


def test_the_total_is_the_weighted_sum_of_the_terms():
    config = LossConfig(mutual_consistency=0.7, transcript=1.3, length=0.2, smoothing=0.4)
    terms = video_losses(outputs(), TRANSCRIPT, MaskConfig(), config)
    assert list(terms) == list(TERMS)
    expected = sum(getattr(config, name) * terms[name] for name in TERMS[1:])
    torch.testing.assert_close(terms["total"], expected)
    assert loss_vector(terms).tolist() == [terms[name].item() for name in TERMS]


def test_a_term_of_weight_zero_is_reported_and_moves_nothing():
    given = outputs()
    terms = video_losses(given, TRANSCRIPT, MaskConfig(), LossConfig(mutual_consistency=0, length=0, smoothing=0))
    terms["total"].backward()
    assert terms["mutual_consistency"] > 0
    assert not given.latent_logits.grad.any()
    assert not given.log_lengths.grad.any()
    assert given.transcript_logits.grad.any()


@pytest.mark.parametrize("normalise", ["length", "stretched_length", "mask_sum"])
def test_the_setting_decides_what_logits_are_averaged_over(normalise):
    given, mask = outputs(), MaskConfig(overlap=0.1)
    lengths = absolute_lengths(given.log_lengths, 11)
    masks = frames_per_latent(segment_masks(lengths, 11, mask), given.latent_of_frame, 4)
    divisors = {"length": lengths, "stretched_length": 1.2 * lengths, "mask_sum": masks.sum(1)}[normalise]
    expected = losses.segment_consistency(given.latent_logits, masks, TRANSCRIPT, divisors)
    terms = video_losses(given, TRANSCRIPT, mask, LossConfig(normalise=normalise))
    torch.testing.assert_close(terms["mutual_consistency"], expected)
    fixed = video_losses(given, TRANSCRIPT, mask, LossConfig(normalise=normalise, detach_length=True))
    with_fixed = losses.segment_consistency(given.latent_logits, masks, TRANSCRIPT, divisors.detach())
    gradients = [
        torch.autograd.grad(value, given.log_lengths, retain_graph=True)[0]
        for value in (fixed["mutual_consistency"], with_fixed)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("consistency", ["segment", "frame"])
@pytest.mark.parametrize("shape", ["box", "bell", "trapezoid"])
def test_the_gradient_of_the_total_is_that_of_finite_differences(shape, consistency):
    config = LossConfig(consistency=consistency, smoothing=0, length=0.3)
    given = outputs()

    def total(logits, transcript_logits, log_lengths):
        made = TeacherForced(logits, given.latent_of_frame, transcript_logits, log_lengths)
        return video_losses(made, TRANSCRIPT, MaskConfig(shape=shape, overlap=0.1), config)["total"]

    assert torch.autograd.gradcheck(total, (given.latent_logits, given.transcript_logits, given.log_lengths))


def test_losses_of_half_precision_outputs_are_float32():
    terms = video_losses(outputs(torch.bfloat16), TRANSCRIPT, MaskConfig(), LossConfig())
    assert {term.dtype for term in terms.values()} == {torch.float32}
    exact = video_losses(outputs(), TRANSCRIPT, MaskConfig(), LossConfig())
    assert terms["total"].item() == pytest.approx(exact["total"].item(), rel=2e-2)


def test_the_weight_of_the_background_is_that_of_its_segments():
    given, weights = outputs(), torch.tensor([0.3, 1.0, 1.0, 1.0])
    lengths = absolute_lengths(given.log_lengths, 11)
    masks = frames_per_latent(segment_masks(lengths, 11, MaskConfig()), given.latent_of_frame, 4)
    costs = functional.cross_entropy((masks @ given.latent_logits) / lengths[:, None], TRANSCRIPT, reduction="none")
    for reduction, expected in (
        ("mean", (0.3 * costs[0] + costs[1] + costs[2]) / 2.3),
        ("sum", 0.3 * costs[0] + costs[1] + costs[2]),
    ):
        config = LossConfig(over_segments=reduction)
        terms = video_losses(given, TRANSCRIPT, MaskConfig(), config, class_weights=weights)
        torch.testing.assert_close(terms["mutual_consistency"], expected)
    frame = LossConfig(consistency="frame")
    by_frame, plain = (
        video_losses(given, TRANSCRIPT, MaskConfig(), frame, class_weights=one)["mutual_consistency"]
        for one in (weights, None)
    )
    log_probs = torch.log_softmax(given.latent_logits, dim=1)
    torch.testing.assert_close(plain - by_frame, -0.7 * (masks[0] @ log_probs[:, 0]) / 11)


def test_segments_can_be_weighted_by_their_lengths_within_a_factor():
    log_lengths = torch.tensor([0.0, 1.0, 9.0], dtype=torch.float64, requires_grad=True)
    given = outputs()._replace(log_lengths=log_lengths)
    lengths = absolute_lengths(log_lengths, 11)
    masks = frames_per_latent(segment_masks(lengths, 11, MaskConfig()), given.latent_of_frame, 4)
    weights = (3 * lengths.detach() / 11).clamp(0.25, 4)
    assert weights.tolist()[:2] == [0.25, 0.25]
    expected = losses.segment_consistency(given.latent_logits, masks, TRANSCRIPT, lengths, weights=weights)
    terms = video_losses(given, TRANSCRIPT, MaskConfig(), LossConfig(over_segments="length"))
    torch.testing.assert_close(terms["mutual_consistency"], expected)


@pytest.mark.parametrize("sharpness", [(1.0, 2.0), (2.0, 2.0)])
def test_weights_by_length_turn_inverted_lengths_round(sharpness):
    """Long actions between short ones that are predicted to be long; the plain mean pulls them further apart."""
    true, predicted = (torch.tensor(x, dtype=torch.float64) for x in ([100, 20, 100, 20, 100], [40, 110, 40, 110, 40]))
    transcript = torch.tensor([0, 1, 2, 1, 3])
    labels = torch.repeat_interleave(transcript, true.long())
    logits = functional.one_hot(labels, 4).double()
    logits *= torch.where(labels == 1, *sharpness)[:, None]
    direction = (true / predicted).log()
    direction -= direction.mean()

    def cosine(reduction: str) -> float:
        log_lengths = predicted.log().requires_grad_()
        made = TeacherForced(logits, torch.arange(340), torch.zeros(6, 5, dtype=torch.float64), log_lengths)
        terms = video_losses(made, transcript, MaskConfig(), LossConfig(over_segments=reduction))
        (gradient,) = torch.autograd.grad(terms["mutual_consistency"], log_lengths)
        return functional.cosine_similarity(-gradient, direction, dim=0).item()

    assert cosine("mean") < -0.5
    assert cosine("length") > 0.5
