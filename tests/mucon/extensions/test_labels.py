"""The network's own labels: the alignments with the best score under their rule."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mucon.decoding.length_priors import Flat, PoissonPerClass
from mucon.decoding.spread_priors import NegativeBinomial
from mucon.extensions.labels import Labeller, first_labeller
from tests.helpers.refusals import refused

N = 4
SEGMENTS = [(np.array([0, 1, 0]), np.array([2, 6, 4])), (np.array([2, 1]), np.array([1, 7]))]
MEANS = np.array([3.0, 6.5, 1.0, 4.0])
"""Of the segments of each action; the absent action has that of all segments."""
SHARES = np.array([6 / 20, 13 / 20, 1 / 20, 1e-6])


def frames(T: int, seed: int = 0) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(size=(T, N)) * 2
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def brute_force(values: np.ndarray, transcript: np.ndarray, prior) -> list[int]:
    """The best of all lengths of 1 to T frames."""
    T, M = len(values), len(transcript)
    table = prior.terms(transcript, T).table()

    def score(lengths: tuple[int, ...]) -> float:
        labels = np.repeat(transcript, lengths)
        return values[np.arange(T), labels].sum() + table[np.arange(M), list(lengths)].sum()

    ends = itertools.combinations(range(1, T), M - 1)
    return list(max((tuple(np.diff([0, *end, T]).tolist()) for end in ends), key=score))


@pytest.mark.parametrize("prior", ["none", "poisson", "negative_binomial"])
@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_labels_have_the_best_score_of_all_alignments(prior: str, divided: bool, seed: int):
    values, transcript = frames(12, seed), np.array([2, 0, 1, 3])
    labeller = Labeller.of(SEGMENTS, N, prior, divided=divided)
    priors = {
        "none": Flat(),
        "poisson": PoissonPerClass(MEANS),
        "negative_binomial": NegativeBinomial(MEANS[transcript], 1),
    }
    expected = brute_force(values - np.log(SHARES) if divided else values, transcript, priors[prior])
    assert labeller.lengths(values.astype(np.float32), transcript).tolist() == expected


def test_the_first_labels_fit_the_frames_alone():
    values, transcript = frames(9), np.array([1, 0, 1])
    assert first_labeller(N).lengths(values, transcript).tolist() == brute_force(values, transcript, Flat())


@pytest.mark.parametrize("prior", ["none", "poisson", "negative_binomial"])
def test_one_segment_takes_all_frames_and_as_many_segments_as_frames_take_one_each(prior: str):
    labeller = Labeller.of(SEGMENTS, N, prior, divided=True)
    assert labeller.lengths(frames(1), np.array([3])).tolist() == [1]
    assert labeller.lengths(frames(30), np.array([3])).tolist() == [30]
    assert labeller.lengths(frames(5), np.array([0, 3, 0, 0, 2])).tolist() == [1] * 5


def test_an_action_that_claims_too_many_frames_gives_them_back_when_its_share_is_divided_out():
    values = np.log(np.where(np.arange(20)[:, None] < 10, [0.30, 0.70, 0, 0], [0.55, 0.45, 0, 0]) + 1e-9)
    over = [(np.array([0, 1]), np.array([19, 1]))]
    found = [
        Labeller.of(over, N, "none", divided=divided).lengths(values, np.array([1, 0])) for divided in (False, True)
    ]
    assert found[0].tolist() == [10, 10]
    assert found[1].tolist() == [19, 1]


def test_frames_without_probabilities_have_no_labels():
    with refused("range", "frame_log_probs[2, 1]", n=1):
        first_labeller(N).lengths(np.where(np.arange(5)[:, None] == 2, np.nan, frames(5)), np.array([1, 0]))
