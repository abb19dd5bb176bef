"""Boundary errors, against a search over all pairs of boundaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.metrics.boundaries import boundary_errors_by_index, boundary_scores, nearest_boundary_errors
from mucon.segments import Segmentation
from tests.helpers import oracles_metrics as oracle
from tests.helpers.refusals import refused

NAMES = [f"boundary_error{middle}_{unit}" for unit in ("frames", "seconds") for middle in ("", "_median")]


@st.composite
def pairs(draw):
    T = draw(st.integers(0, 25))
    side = st.lists(st.integers(0, 2), min_size=T, max_size=T)
    return draw(side), draw(st.one_of(side, st.just([])))


def of(labels) -> Segmentation:
    return Segmentation.from_frame_labels(np.array(labels, dtype=np.int64))


def as_list(errors):
    return None if errors is None else errors.tolist()


@settings(max_examples=125, deadline=None)
@given(pairs())
def test_each_true_boundary_is_compared_with_the_nearest_predicted_one(pair):
    target, prediction = pair
    assert as_list(nearest_boundary_errors(of(target), of(prediction))) == oracle.nearest_boundary_errors(*pair)


@settings(max_examples=50, deadline=None)
@given(st.lists(pairs(), max_size=5))
def test_means_and_medians_are_over_all_boundaries_and_what_has_none_is_counted(corpus):
    scores = boundary_scores([of(a) for a, _ in corpus], [of(b) for _, b in corpus], fps=4.0)
    each = [oracle.nearest_boundary_errors(*pair) for pair in corpus]
    everything = [error for errors in each if errors is not None for error in errors]
    assert scores.undefined == dict.fromkeys(NAMES, each.count(None))
    assert set(scores.values) == (set(NAMES) if everything else set())
    for errors, row in zip([everything or None, *each], [scores.values, *scores.per_video], strict=True):
        expected = [None] * 4
        if errors is not None:
            mean, median = oracle.mean(errors), oracle.median(errors)
            expected = [mean, median, mean / 4, median / 4]
        assert [row.get(name) for name in NAMES] == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(pairs())
def test_stretching_every_frame_stretches_the_errors(pair):
    before = nearest_boundary_errors(*map(of, pair))
    after = nearest_boundary_errors(*(of(np.repeat(side, 3)) for side in pair))
    assert as_list(after) == (None if before is None else (3 * before).tolist())


@settings(max_examples=50, deadline=None)
@given(pairs())
def test_a_perfect_prediction_has_no_error(pair):
    errors = nearest_boundary_errors(of(pair[0]), of(pair[0]))
    assert errors is None or not errors.any()


@settings(max_examples=75, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 6)), max_size=7))
def test_boundaries_by_index_are_compared_in_their_order(segments):
    transcript, true, predicted = ([segment[k] for segment in segments] for k in range(3))
    found = boundary_errors_by_index(Segmentation.of(transcript, true), Segmentation.of(transcript, predicted))
    expected = oracle.boundary_errors_by_index(true, predicted)
    assert as_list(found) == (expected if len(transcript) > 1 else None)


def test_by_index_the_border_of_two_repetitions_counts_and_for_the_nearest_it_does_not():
    target, prediction = Segmentation.of([1, 1, 2], [3, 5, 4]), Segmentation.of([1, 1, 2], [6, 1, 5])
    assert as_list(boundary_errors_by_index(target, prediction)) == [3, 1]
    assert as_list(nearest_boundary_errors(target, prediction)) == [1]


def test_different_transcripts_have_no_boundaries_by_index():
    assert boundary_errors_by_index(Segmentation.of([0, 1], [3, 3]), Segmentation.of([0, 2], [3, 3])) is None


def test_without_fps_there_are_no_seconds():
    scores = boundary_scores([Segmentation.of([0, 1], [3, 3])], [Segmentation.of([0, 1], [1, 5])])
    assert scores.values == {"boundary_error_frames": 2.0, "boundary_error_median_frames": 2.0}
    assert list(scores.undefined) == list(scores.values)


@pytest.mark.parametrize("fps", [0.0, -15.0, float("nan"), float("inf")])
def test_an_invalid_fps_is_refused_with_its_value(fps: float):
    with refused("range", "fps", n=1) as refusal:
        boundary_scores([], [], fps=fps)
    assert refusal.problems[0].value is fps
