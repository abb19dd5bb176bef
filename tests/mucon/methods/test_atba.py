"""ATBA: boundaries, their candidates and their assignment."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.arrays import Floats, Ints
from mucon.methods.atba.alignment import (
    AlignmentConfig,
    best_assignment,
    boundary_lengths,
    boundary_scores,
    candidate_frames,
    pseudo_labels,
    transition_scores,
)
from tests.helpers.refusals import refused

SMALL_WINDOWS = AlignmentConfig(boundary_window=3, transition_window=5)


def posteriors(T: int, N: int, seed: int = 0, sharpness: float = 3.0) -> Floats:
    values = np.exp(sharpness * np.random.default_rng(seed).normal(size=(T, N)))
    return values / values.sum(axis=1, keepdims=True)


def steps(transcript: tuple[int, ...], lengths: tuple[int, ...], N: int, share: float = 0.9) -> Floats:
    """Posteriors that give the true action `share`."""
    labels = np.repeat(transcript, lengths)
    return np.where(labels[:, None] == np.arange(N), share, (1 - share) / (N - 1))


def restated_boundary_scores(p: Floats, window: int) -> Floats:
    """Cell by cell, with both divergences written out."""

    def divergence(a: Floats, b: Floats) -> float:
        m = (a + b) / 2
        return 0.5 * sum(float(x[x > 0] @ np.log(x[x > 0] / m[x > 0])) for x in (a, b))

    half = window // 2
    padded = np.vstack((np.zeros((half, p.shape[1])), p, np.zeros((half, p.shape[1]))))
    scores = np.zeros(len(p))
    for t, i, j in itertools.product(range(len(p)), range(window), range(window)):
        if i == j == half:
            continue
        sign = 1 if (i < half) == (j < half) else -1
        scores[t] += sign * (1 - 2 * divergence(padded[t + i], padded[t + j]) / np.log(2)) / window**2
    return np.concatenate(([-np.inf], scores[1:]))


@pytest.mark.parametrize("window", [3, 7])
@pytest.mark.parametrize("T", [1, 2, 5, 19])
def test_the_boundary_score_is_that_of_the_definition(T: int, window: int):
    p = posteriors(T, 4, seed=T)
    np.testing.assert_allclose(boundary_scores(p, window), restated_boundary_scores(p, window), atol=1e-12)


@pytest.mark.parametrize("first", [7, 20, 31])
def test_the_boundary_score_of_a_step_peaks_at_the_first_frame_of_the_new_segment(first: int):
    scores = boundary_scores(steps((0, 2), (first, 40 - first), 3, share=1.0), 7)
    assert np.argmax(scores) == first
    assert scores[first] == pytest.approx(48 / 49)
    assert scores[first] - np.sort(scores)[-2] > 0.2


def test_frames_of_equal_posteriors_have_no_boundary_inside():
    scores = boundary_scores(np.full((30, 5), 0.2), 7)
    np.testing.assert_allclose(scores[3:-3], 0, atol=1e-12)
    assert scores[0] == -np.inf


def test_the_transition_score_is_that_of_the_definition():
    p, transcript = posteriors(20, 3), np.array([2, 0, 0, 1])
    padded = np.vstack((np.zeros((15, 3)), p, np.zeros((15, 3))))
    signs = np.where(np.arange(31) < 15, 1, -1)
    expected = [
        [signs @ (padded[t : t + 31, a] - padded[t : t + 31, b]) / 62 for t in range(20)]
        for a, b in itertools.pairwise(transcript)
    ]
    np.testing.assert_allclose(transition_scores(p, transcript, 31), expected, atol=1e-12)


def test_the_transition_score_of_a_step_peaks_at_the_first_frame_of_the_new_segment():
    scores = transition_scores(steps((1, 0, 2), (30, 40, 30), 3), np.array([1, 0, 2]), 31)
    assert np.argmax(scores, axis=1).tolist() == [30, 70]


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 3), st.integers(1, 6), st.integers(0, 99))
def test_there_are_always_enough_candidates(T: int, M: int, suppression: float, number: int, seed: int):
    T = max(T, M)
    scores = np.random.default_rng(seed).integers(0, 3, size=T).astype(np.float64)
    scores[0] = -np.inf
    config = AlignmentConfig(candidates=number, suppression=suppression)
    found = candidate_frames(scores, M, config)
    assert M - 1 <= len(found) <= number * (M - 1)
    assert (np.diff(found) > 0).all()
    assert not len(found) or found[0] >= 1


def test_candidates_keep_their_distance_where_there_are_enough():
    scores = np.concatenate(([-np.inf], np.linspace(1, 2, 99)))
    assert candidate_frames(scores, 5, AlignmentConfig()).tolist() == [
        1,
        8,
        15,
        22,
        29,
        36,
        43,
        50,
        57,
        64,
        71,
        78,
        85,
        92,
        99,
    ]
    assert candidate_frames(scores, 5, AlignmentConfig(candidates=1)).tolist() == [78, 85, 92, 99]


def brute_force(gains: Floats) -> tuple[float, Ints]:
    R, C = gains.shape
    subsets = [np.array(subset, dtype=np.int64) for subset in itertools.combinations(range(C), R)]
    sums = [float(gains[np.arange(R), subset].sum()) for subset in subsets]
    return max(sums), subsets[int(np.argmax(sums))]


@settings(max_examples=60)
@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 10**6))
def test_the_assignment_is_the_best_of_all_subsets(R: int, C: int, seed: int):
    C = max(R, C)
    gains = np.random.default_rng(seed).normal(size=(R, C))
    chosen = best_assignment(gains)
    best, expected = brute_force(gains)
    assert chosen.tolist() == expected.tolist()
    assert float(gains[np.arange(R), chosen].sum()) == pytest.approx(best)


def test_of_equal_assignments_the_earlier_one_counts():
    assert best_assignment(np.zeros((2, 5))).tolist() == [0, 1]


def test_clear_steps_are_found_to_the_frame():
    transcript, lengths = (0, 3, 1, 3, 0), (40, 25, 90, 30, 55)
    found = boundary_lengths(steps(transcript, lengths, 4), np.array(transcript), AlignmentConfig())
    assert found.tolist() == list(lengths)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 99))
def test_every_recording_has_labels_in_the_order_of_its_transcript(T: int, M: int, seed: int):
    transcript = np.random.default_rng(seed).integers(0, 4, size=M).tolist()
    config = AlignmentConfig()
    labels, lengths = pseudo_labels(posteriors(T, 4, seed), transcript, lambda p, a: boundary_lengths(p, a, config))
    assert labels.shape == (T,)
    assert lengths.shape == (M,)
    assert lengths.sum() == pytest.approx(T)
    assert lengths.min() > 0
    if M <= T:
        assert np.array_equal(labels, np.repeat(transcript, lengths.astype(np.int64)))


@pytest.mark.parametrize("p", [np.full((6, 3), 1 / 3), np.full((6, 3), np.nan), np.eye(3)[[0] * 6]])
def test_posteriors_without_a_boundary_have_labels(p: Floats):
    labels, lengths = pseudo_labels(p, [0, 1, 2], lambda q, a: boundary_lengths(q, a, SMALL_WINDOWS))
    assert np.array_equal(labels, np.repeat([0, 1, 2], lengths.astype(np.int64)))


def test_a_long_recording_with_many_segments_is_aligned():
    transcript, lengths = (0, 1, 2, 3) * 50, (97, 101, 100, 102) * 50
    found = boundary_lengths(steps(transcript, lengths, 4), np.array(transcript), AlignmentConfig())
    assert found.tolist() == list(lengths)


@pytest.mark.parametrize(
    ("name", "value"),
    [("boundary_window", 6), ("transition_window", 1), ("candidates", 0), ("suppression", -0.1)],
)
def test_windows_and_numbers_of_candidates_are_checked(name: str, value: float):
    with refused("range", f"alignment.{name}", value, n=1):
        AlignmentConfig(**{name: value})
