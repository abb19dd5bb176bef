"""The directions of the length gradient that `benchmarks/length_gradient.py` compares."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.length_gradient import cosine, downhill, mean_and_error
from mucon.config import LossConfig, MaskConfig
from mucon.model.network import TeacherForced


def outputs(lengths: list[int], predicted: list[float], n_actions: int = 3) -> TeacherForced:
    """Frame logits that know actions 0, 1, 2, … of some lengths, and other predicted lengths."""
    labels = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    logits = 4.0 * torch.nn.functional.one_hot(labels, n_actions).float()
    named = torch.zeros(len(lengths) + 1, n_actions + 1)
    return TeacherForced(logits, torch.arange(len(labels)), named, torch.tensor(predicted).log())


@pytest.mark.parametrize("detach", [True, False])
def test_perfect_frames_move_equal_lengths_towards_the_true_ones(detach: bool) -> None:
    true = [20, 60, 40]
    given = outputs(true, [40.3, 40.1, 39.6])  # a ramp between two frames has no gradient
    moved = downhill(given, torch.arange(3), MaskConfig(), LossConfig(detach_length=detach))
    wanted = torch.tensor(true).log() - given.log_lengths
    assert cosine(moved, wanted) > 0.8
    assert abs(float(moved.sum())) < 1e-6 * float(moved.abs().sum())  # a common factor changes nothing


def test_a_cosine_is_one_of_directions_without_their_means() -> None:
    one = torch.tensor([1.0, 2.0, 6.0])
    assert cosine(one, 3 * one + 5) == pytest.approx(1)
    assert cosine(one, -one) == pytest.approx(-1)
    assert math.isnan(cosine(one, torch.ones(3)))


def test_a_standard_error_needs_two_recordings() -> None:
    assert mean_and_error([1.0, math.nan, 3.0]) == [2.0, 1.0]
    assert mean_and_error([1.0, math.nan]) == [1.0, None]
    assert mean_and_error([math.nan]) == [None, None]
