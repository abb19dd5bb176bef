"""The loss of soft alignments: brute force over all of them, its gradient, and its temperature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from mucon.extensions.config import SoftAlignmentConfig
from mucon.extensions.soft_alignment import candidates, soft_alignment_loss

N = 4
CASES = [[30], [14, 20], [20, 3, 17], [2, 2, 2], [1, 1, 1], [12, 1, 1, 13]]


def log_probs(n_frames: int, seed: int = 0) -> Tensor:
    values = torch.randn(n_frames, N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.log_softmax(values, dim=1)


def loss(values: Tensor, transcript: list[int], lengths: list[int], window: int, temperature: float = 1.0) -> Tensor:
    places, exist = (torch.from_numpy(one) for one in candidates(np.array(lengths), window=2 * window, step=window))
    return soft_alignment_loss(values, torch.tensor(transcript), places, exist, temperature)


def energies(values: Tensor, transcript: list[int], lengths: list[int], window: int) -> list[tuple[float, list[int]]]:
    """Energy and labels of every alignment near the given one, from the definition."""
    T, M, ends = sum(lengths), len(lengths), np.cumsum(lengths).tolist()
    inner = [
        sorted({min(max(end + shift, m), T - (M - m)) for shift in (-window, 0, window)})
        for m, end in enumerate(ends[:-1], 1)
    ]
    found = []
    for path in itertools.product([0], *inner, [T]):
        if all(s < t for s, t in itertools.pairwise(path)):
            labels = np.repeat(transcript, np.diff(path)).tolist()
            found.append((-float(values[torch.arange(T), labels].sum()), labels))
    return found


@pytest.mark.parametrize("temperature", [1.0, 4.0])
@pytest.mark.parametrize("window", [1, 5])
@pytest.mark.parametrize("lengths", CASES)
def test_the_loss_is_the_soft_minimum_over_all_alignments_per_frame(
    lengths: list[int], window: int, temperature: float
):
    transcript, values = [0, 2, 2, 1][: len(lengths)], log_probs(sum(lengths))
    all_energies = [energy for energy, _ in energies(values, transcript, lengths, window)]
    expected = -temperature * math.log(math.fsum(math.exp(-energy / temperature) for energy in all_energies))
    found = loss(values, transcript, lengths, window, temperature).item()
    assert found == pytest.approx(expected / sum(lengths), rel=1e-12)


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_its_gradient_is_that_of_finite_differences(temperature: float):
    logits = log_probs(19, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda values: loss(torch.log_softmax(values, dim=1), [0, 2, 1], [6, 4, 9], 3, temperature), logits
    )


def test_its_gradient_is_the_share_of_the_alignments_that_label_a_frame_so():
    transcript, lengths, temperature = [0, 2, 1], [6, 4, 9], 2.0
    values = log_probs(19, seed=3).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(values, transcript, lengths, 2, temperature), values)
    weights = np.zeros((19, N))
    for energy, labels in energies(values.detach(), transcript, lengths, 2):
        weights[np.arange(19), labels] += math.exp(-energy / temperature)
    np.testing.assert_allclose(-19 * gradient.numpy(), weights / weights.sum(axis=1, keepdims=True), atol=1e-12)


def test_a_low_temperature_follows_the_best_alignment():
    transcript, lengths, values = [0, 2, 1], [6, 4, 9], log_probs(19, seed=4)
    best = min(energy for energy, _ in energies(values, transcript, lengths, 2))
    assert loss(values, transcript, lengths, 2, 1e-3).item() == pytest.approx(best / 19, rel=1e-4)


def test_long_recordings_in_float32_keep_their_digits():
    values = log_probs(30_000, seed=5)
    lengths = [10_000, 12_000, 8_000]
    found = loss(values.float(), [0, 2, 1], lengths, 100)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(loss(values, [0, 2, 1], lengths, 100).item(), rel=1e-6)


def test_the_window_is_a_share_of_the_segments_or_so_many_frames_and_the_temperature_falls_to_one():
    assert SoftAlignmentConfig().frames(3300, 22) == 7
    assert SoftAlignmentConfig().frames(10, 5) == 1
    assert SoftAlignmentConfig(window=12).frames(3300, 22) == 12
    config = SoftAlignmentConfig(temperature=8.0)
    assert [config.temperature_of(epoch, 2, 6) for epoch in range(2, 6)] == pytest.approx([8, 4, 2, 1])
    assert config.temperature_of(3, 3, 4) == 8.0
