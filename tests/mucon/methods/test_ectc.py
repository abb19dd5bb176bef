"""ECTC: its loss against the sum over all alignments, and its gradient against finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from mucon.commands.context import backbones_of
from mucon.methods import method_named
from mucon.methods.ectc.config import EctcConfig
from mucon.methods.ectc.loss import alignment_loss, similarity_gains
from mucon.recipes import small
from tests.helpers.refusals import refused


def problem(seed: int, T: int, M: int, N: int = 4) -> tuple[torch.Tensor, np.ndarray, torch.Tensor]:
    """Logits `[T, N]`, transcript `[M]` with possible repetitions, gains `[T]`."""
    random = np.random.default_rng(seed)
    logits = torch.tensor(2 * random.normal(size=(T, N)))
    return logits, random.integers(0, N, M), torch.tensor(1 + 3 * random.random(T))


def loss_of_all_alignments(log_probs: np.ndarray, transcript: np.ndarray, gains: np.ndarray) -> float:
    """Every alignment's probability is written out as in the paper, with q and r = (1 - q) / (N - 1), and added."""
    probs, (T, N) = np.exp(log_probs), log_probs.shape
    q = gains / (gains + N - 1)
    r = (1 - q) / (N - 1)
    total = 0.0
    for starts in itertools.combinations(range(1, T), len(transcript) - 1):
        segment_of_frame = np.searchsorted(starts, np.arange(T), side="right")
        labels = transcript[segment_of_frame]
        product = probs[0, labels[0]]
        for t in range(1, T):
            a, b = labels[t], labels[t - 1]
            stays = segment_of_frame[t] == segment_of_frame[t - 1]
            weight = q[t] if stays else r[t]
            product *= probs[t, a] * weight / (probs[t, b] * q[t] + (1 - probs[t, b]) * r[t])
        total += product
    return -np.log(total)


@pytest.mark.parametrize(("T", "M"), [(T, M) for T in (1, 2, 4, 7) for M in (1, 2, 3) if M <= T])
def test_the_loss_is_the_sum_over_all_alignments(T: int, M: int):
    logits, transcript, gains = problem(10 * T + M, T, M)
    log_probs = logits.log_softmax(1)
    expected = loss_of_all_alignments(log_probs.numpy(), transcript, gains.numpy())
    assert alignment_loss(log_probs, transcript, gains).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("T", "M"), [(1, 1), (3, 3), (7, 3)])
def test_the_gradient_is_that_of_finite_differences(T: int, M: int):
    logits, transcript, gains = problem(T + M, T, M)
    torch.autograd.gradcheck(
        lambda x: alignment_loss(x.log_softmax(1), transcript, gains), logits.requires_grad_(), eps=1e-6, atol=1e-8
    )


def test_without_gains_the_gradient_is_the_difference_of_prediction_and_posterior_as_in_plain_ctc():
    logits, transcript, _ = problem(5, 7, 3)
    alignment_loss(logits.requires_grad_().log_softmax(1), transcript, torch.ones(7)).backward()
    posterior = logits.softmax(1) - logits.grad
    np.testing.assert_allclose(posterior.detach().sum(1), np.ones(7), rtol=1e-12)
    assert posterior[0].argmax() == transcript[0]
    assert posterior.min() > -1e-12


def test_frames_that_contradict_the_transcript_confidently_keep_the_sums_of_all_paths():
    """Rescaled products would underflow: each path has a probability of about exp(-4000)."""
    logits = torch.zeros(200, 2, dtype=torch.float64)
    logits[:100, 1] = logits[100:, 0] = 40.0
    logits.requires_grad_()
    loss = alignment_loss(logits.log_softmax(1), np.array([0, 1]), torch.ones(200))
    loss.backward()
    posterior = (logits.softmax(1) - logits.grad).detach()
    assert loss.item() == pytest.approx(4040.0 - np.log(2), rel=1e-9)
    np.testing.assert_allclose(posterior[[50, 150]], 0.5 * np.ones((2, 2)), atol=1e-6)


def test_gains_are_one_for_unlike_frames_and_grow_with_the_cosine():
    features = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0], [0.0, -1.0], [1.0, -1.0]])
    gains = similarity_gains(features, 0.4)
    diagonal = (1 + 0.5**0.5) / 2
    np.testing.assert_allclose(gains, [1.0, 1 / 0.4, 0.5 / 0.4, 1.0, diagonal / 0.4], rtol=1e-6)
    assert similarity_gains(features, 1.0).tolist() == [1.0] * 5
    assert similarity_gains(features[:1], 0.4).tolist() == [1.0]


def test_the_likeliest_boundary_of_frames_without_evidence_is_where_their_features_change():
    features = torch.tensor([[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 4)
    gains = similarity_gains(features, 0.05)
    losses = []
    for first in range(1, 6):
        log_probs = torch.full((6, 2), -40.0, dtype=torch.float64)
        log_probs[:first, 0] = log_probs[first:, 1] = np.log(0.5)
        losses.append(alignment_loss(log_probs, np.array([0, 1]), gains).item())
    assert 1 + int(np.argmin(losses)) == 2


def test_the_context_of_the_backbone_is_shown_as_that_of_mucon():
    ours, of_mucon = backbones_of([method_named("ectc").recipes["small"]()]), backbones_of([small()])
    assert [one.receptive_field for one in ours.values()] == [one.receptive_field for one in of_mucon.values()]
    assert ours


def test_the_released_program_has_no_schedule():
    with refused("range", "training.schedule", "published", n=1):
        EctcConfig().override("training.schedule", "published")
    with refused("range", "network.channels", n=1):
        EctcConfig().override("network.channels", 0)
