"""The losses of one video put together, and the optimiser against torch's own."""

from __future__ import annotations

import itertools

import pytest
import torch

from mucon import losses
from mucon.losses import LossConfig
from mucon.masks import MaskConfig, absolute_lengths, frames_per_latent, segment_masks
from mucon.model import TeacherForced, build_model
from mucon.model.backbone import latent_index
from mucon.model.network import NetworkSize
from mucon.optimiser import Optimiser, parameter_groups
from mucon.schedule import TrainingConfig
from mucon.step import TERMS, loss_vector, video_losses
from tests.factories import small_config

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
def test_logits_are_averaged_over_what_the_setting_says(normalise):
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


def test_every_parameter_is_in_one_of_the_two_groups():
    model = small_model()
    groups = parameter_groups(model)
    ids = [id(p) for group in groups.values() for p in group]
    assert len(ids) == len(set(ids))
    assert set(ids) == {id(p) for p in model.parameters()}
    encoder = {id(p) for p in groups["encoder"]}
    prefixes = ("backbone.", "segment_branch.encoder.", "segment_branch.initial_")
    for name, parameter in model.named_parameters():
        assert (id(parameter) in encoder) == name.startswith(prefixes), name


@pytest.mark.parametrize("clip_norm", [0.05, 100.0])
def test_the_optimiser_does_what_torch_does_with_two_clipped_groups(clip_norm):
    config = TrainingConfig(weight_decay=0.3, clip_norm=clip_norm)
    ours, theirs = small_model().double().eval(), small_model().double().eval()  # without dropout
    optimiser = Optimiser(ours, config)
    reference = torch.optim.SGD(theirs.parameters(), lr=1.0, weight_decay=config.weight_decay)
    features = torch.randn(20, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for rate in (0.5, 0.05, 0.005):
        for model in (ours, theirs):
            video_losses(model(features, TRANSCRIPT), TRANSCRIPT, MaskConfig(), LossConfig())["total"].backward()
        norms = optimiser.step(rate)
        groups = parameter_groups(theirs).values()
        expected = [torch.nn.utils.clip_grad_norm_(group, clip_norm) for group in groups]
        torch.testing.assert_close(norms, torch.stack(expected), rtol=1e-10, atol=0)
        reference.param_groups[0]["lr"] = rate
        reference.step()
        reference.zero_grad()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)


def test_gradients_are_cleared_and_parameters_stay_views_of_the_flat_weights():
    model = small_model()
    optimiser = Optimiser(model, TrainingConfig())
    total = video_losses(model(torch.randn(9, 5), TRANSCRIPT), TRANSCRIPT, MaskConfig(), LossConfig())["total"]
    total.backward()
    assert optimiser.gradients.any()
    optimiser.step(0.1)
    assert not optimiser.gradients.any()
    flat = optimiser.weights.data_ptr(), optimiser.gradients.data_ptr()
    ends = [pointer + optimiser.weights.numel() * 4 for pointer in flat]
    for parameter in model.parameters():
        assert flat[0] <= parameter.data_ptr() < ends[0]
        assert flat[1] <= parameter.grad.data_ptr() < ends[1]
    spans = sorted((p.data_ptr(), p.numel() * 4) for p in model.parameters())
    assert all(start + size == after for (start, size), (after, _) in itertools.pairwise(spans))
