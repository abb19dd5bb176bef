from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.metrics.segments import (
    Counts,
    best_iod,
    best_iou,
    f1_counts,
    iod_by_index,
    iou_by_index,
    overlaps,
    runs,
)
from mucon.segments import Segmentation

SEGMENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=8)


@settings(max_examples=200, deadline=None)
@given(SEGMENTS)
def test_runs_are_the_segments_that_the_frame_labels_show(pairs):
    segmentation = Segmentation.of([a for a, _ in pairs], [length for _, length in pairs])
    expected = Segmentation.from_frame_labels(segmentation.to_frame_labels())
    found = runs(segmentation)
    assert found.transcript.tolist() == expected.transcript.tolist()
    assert found.lengths.tolist() == expected.lengths.tolist()


def test_overlaps_are_the_pairs_of_one_action_that_share_frames():
    overlap = overlaps(Segmentation.of([0, 1, 0], [4, 4, 2]), Segmentation.of([0, 1], [6, 4]))
    assert (overlap.n_true, overlap.n_predicted) == (3, 2)
    assert list(zip(overlap.true, overlap.predicted, overlap.frames, strict=True)) == [(0, 0, 4), (1, 1, 2)]
    assert overlap.over_union.tolist() == [4 / 6, 2 / 6]
    assert overlap.over_detection.tolist() == [4 / 6, 2 / 4]
    ignoring = overlaps(Segmentation.of([0, 1, 0], [4, 4, 2]), Segmentation.of([0, 1], [6, 4]), ignored=(0,))
    assert (ignoring.n_true, ignoring.n_predicted, ignoring.frames.tolist()) == (1, 1, [2])


def test_a_true_segment_is_found_once_and_the_rest_are_false_positives():
    overlap = overlaps(Segmentation.of([1], [10]), Segmentation.of([1, 0, 1], [5, 1, 4]))
    assert f1_counts(overlap, (0.1, 0.4, 0.5)) == (Counts(1, 2, 0), Counts(1, 2, 0), Counts(1, 2, 0))
    assert f1_counts(overlap, (0.51,)) == (Counts(0, 3, 1),)


def test_a_predicted_segment_finds_only_the_true_segment_that_it_overlaps_best():
    overlap = overlaps(Segmentation.of([1, 0, 1, 0], [3, 1, 5, 1]), Segmentation.of([1], [10]), ignored=(0,))
    assert f1_counts(overlap, (0.3,)) == (Counts(1, 0, 1),)
    assert f1_counts(overlap, (0.5, 0.51)) == (Counts(1, 0, 1), Counts(0, 1, 2))


def test_an_overlap_of_exactly_the_threshold_counts():
    overlap = overlaps(Segmentation.of([1, 0], [1, 9]), Segmentation.of([1], [10]))
    assert f1_counts(overlap, (0.1, 0.1001)) == (Counts(1, 0, 1), Counts(0, 1, 2))


def test_iod_and_iou_by_index_compare_segment_m_with_segment_m():
    target = Segmentation.of([0, 1, 0], [4, 4, 2])
    prediction = Segmentation.of([0, 1, 0], [2, 6, 2])
    assert iod_by_index(target, prediction) == pytest.approx((1 + 4 / 6 + 1) / 3)
    assert iou_by_index(target, prediction) == pytest.approx((2 / 4 + 4 / 6 + 1) / 3)
    assert iod_by_index(target, prediction, ignored=(0,)) == pytest.approx(4 / 6)
    assert iou_by_index(target, target) == iod_by_index(target, target) == 1.0
    assert iod_by_index(target, prediction, ignored=(0, 1)) is None


def test_a_segment_predicted_without_frames_has_no_detection_and_counts_as_zero():
    target, prediction = Segmentation.of([0, 1], [5, 5]), Segmentation.of([0, 1], [10, 0])
    assert iod_by_index(target, prediction) == 0.25
    assert iou_by_index(target, prediction) == 0.25


def test_segments_of_different_transcripts_are_not_paired_by_index():
    with pytest.raises(ValueError, match="transcripts"):
        iod_by_index(Segmentation.of([0], [3]), Segmentation.of([1], [3]))


def test_class_matched_iod_may_be_high_where_iod_by_index_is_low():
    target = Segmentation.of([1, 0, 1], [4, 2, 4])
    prediction = Segmentation.of([1, 0, 1], [1, 1, 8])
    by_class = best_iod(overlaps(target, prediction))
    assert by_class == pytest.approx((1 + 0 + 4 / 8) / 3)
    assert best_iou(overlaps(target, prediction)) == pytest.approx((1 / 4 + 0 + 4 / 8) / 3)
    assert by_class >= iod_by_index(target, prediction)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 30), st.data())
def test_iou_by_index_is_symmetric_and_below_iod(T, data):
    M = data.draw(st.integers(1, T))
    transcript = data.draw(st.lists(st.integers(0, 3), min_size=M, max_size=M))
    cuts = st.lists(st.integers(1, T - 1), min_size=M - 1, max_size=M - 1, unique=True) if M > 1 else st.just([])
    a, b = (
        Segmentation.of(transcript, np.diff([0, *sorted(data.draw(cuts)), T]))
        for _ in range(2)
    )  # fmt: skip
    assert iou_by_index(a, b) == pytest.approx(iou_by_index(b, a))
    assert iou_by_index(a, b) <= iod_by_index(a, b) + 1e-12
