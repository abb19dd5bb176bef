"""The metrics by index, against sets of frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.metrics.alignment import BY_INDEX, alignment_scores
from mucon.metrics.scores import METRICS, score
from mucon.segments import Segmentation
from tests.helpers import oracles_metrics as oracle

W = "_without_background"
BACKGROUND = (0,)


@st.composite
def alignments(draw):
    """Transcript and two lists of lengths of one sum."""
    T = draw(st.integers(1, 25))
    M = draw(st.integers(1, min(T, 6)))
    transcript = draw(st.lists(st.integers(0, 2), min_size=M, max_size=M))
    cuts = st.lists(st.integers(0, T), min_size=M - 1, max_size=M - 1)
    sides = [np.diff([0, *sorted(draw(cuts)), T]).tolist() for _ in range(2)]
    return transcript, *sides


def scored(corpus, background=BACKGROUND, fps=None):
    true = [Segmentation.of(transcript, lengths) for transcript, lengths, _ in corpus]
    predicted = [Segmentation.of(transcript, lengths) for transcript, _, lengths in corpus]
    return alignment_scores(true, predicted, background, fps=fps)


@settings(max_examples=60, deadline=None)
@given(st.lists(alignments(), min_size=1, max_size=4))
def test_iod_and_iou_by_index_are_means_over_segments_and_then_over_recordings(corpus):
    scores = scored(corpus)
    for base, over in (("iod", "detection"), ("iou", "union")):
        for suffix, ignored in (("", ()), (W, BACKGROUND)):
            name = f"{base}_by_index{suffix}"
            expected = [oracle.by_index(*one, ignored, over) for one in corpus]
            assert [video[name] for video in scores.per_video] == pytest.approx(expected)
            defined = [value for value in expected if value is not None]
            assert scores.values.get(name) == (pytest.approx(oracle.mean(defined)) if defined else None)
            assert scores.undefined[name] == expected.count(None)


@settings(max_examples=60, deadline=None)
@given(st.lists(alignments(), min_size=1, max_size=4))
def test_boundary_errors_by_index_are_over_all_boundaries_of_all_recordings(corpus):
    scores = scored(corpus, fps=2.0)
    errors = [error for _, true, predicted in corpus for error in oracle.boundary_errors_by_index(true, predicted)]
    names = [f"boundary_error_by_index{middle}_{unit}" for unit in ("frames", "seconds") for middle in ("", "_median")]
    expected: list = [None] * 4
    if errors:
        mean, median = oracle.mean(errors), oracle.median(errors)
        expected = [mean, median, mean / 2, median / 2]
    assert [scores.values.get(name) for name in names] == pytest.approx(expected)
    assert {scores.undefined[name] for name in names} == {sum(len(one[0]) < 2 for one in corpus)}


@settings(max_examples=30, deadline=None)
@given(st.lists(alignments(), min_size=1, max_size=3))
def test_a_perfect_alignment_has_everything_at_one_and_no_boundary_off(corpus):
    perfect = [(transcript, [length + 1 for length in true], None) for transcript, true, _ in corpus]
    scores = scored([(transcript, true, true) for transcript, true, _ in perfect], fps=25.0)
    assert {value for name, value in scores.values.items() if name in BY_INDEX} <= {1.0}
    assert {value for name, value in scores.values.items() if name not in BY_INDEX} <= {0.0}


def test_a_prediction_of_another_transcript_defines_nothing_and_is_counted():
    true = [Segmentation.of([0, 1], [4, 4]), Segmentation.of([0, 1], [4, 4])]
    predicted = [Segmentation.of([0, 1], [2, 6]), Segmentation.of([1, 0], [4, 4])]
    scores = alignment_scores(true, predicted, BACKGROUND)
    assert set(scores.undefined.values()) == {1}
    assert set(scores.per_video[1].values()) == {None}
    assert scores.values["iod_by_index"] == pytest.approx((1 + 4 / 6) / 2)
    assert scores.values["boundary_error_by_index_frames"] == 2.0


def test_metrics_of_two_functions_are_put_together_and_none_changes():
    true, predicted = [Segmentation.of([0, 1], [4, 4])], [Segmentation.of([0, 1], [2, 6])]
    plain, by_index = score(true, predicted, BACKGROUND), alignment_scores(true, predicted, BACKGROUND)
    both = plain | by_index
    assert not set(METRICS) & set(by_index.undefined)
    assert both.values == {**plain.values, **by_index.values}
    assert both.per_video == [{**plain.per_video[0], **by_index.per_video[0]}]
    assert both.undefined == {**plain.undefined, **by_index.undefined}
