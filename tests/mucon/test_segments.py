"""A segmentation and its frame labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucon.segments import Segmentation

LABELS = st.lists(st.integers(0, 4), max_size=60)
SEGMENTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=8)


@given(LABELS)
def test_frame_labels_come_back_from_their_runs(labels):
    segmentation = Segmentation.from_frame_labels(labels)
    assert segmentation.to_frame_labels().tolist() == labels
    assert segmentation.n_frames == len(labels)
    assert (segmentation.lengths > 0).all()
    assert (np.diff(segmentation.transcript) != 0).all()


@given(SEGMENTS)
def test_spans_follow_each_other_without_a_gap(segments):
    segmentation = Segmentation.of([a for a, _ in segments], [n for _, n in segments])
    labels, position = segmentation.to_frame_labels(), 0
    assert segmentation.n_segments == len(segments)
    for (action, start, stop), (expected, length) in zip(segmentation.spans(), segments, strict=True):
        assert (action, start, stop) == (expected, position, position + length)
        assert (labels[start:stop] == action).all()
        position = stop
    assert position == segmentation.n_frames == len(labels)


@given(SEGMENTS)
def test_runs_are_the_segments_without_empty_ones_and_repetitions(segments):
    segmentation = Segmentation.of([a for a, _ in segments], [n for _, n in segments])
    expected: list[tuple[int, int]] = []
    for action, length in segments:
        if length and expected and expected[-1][0] == action:
            expected[-1] = (action, expected[-1][1] + length)
        elif length:
            expected.append((action, length))
    again = Segmentation.from_frame_labels(segmentation.to_frame_labels())
    assert list(zip(again.transcript.tolist(), again.lengths.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("transcript", "lengths", "message"),
    [([1, 2], [3], "1 lengths for 2 actions"), ([1, 2], [3, -1], "segment 1 .* -1")],
)
def test_lengths_that_do_not_fit_are_refused(transcript, lengths, message):
    with pytest.raises(ValueError, match=message):
        Segmentation.of(transcript, lengths)


def test_arrays_are_int64_for_any_input():
    segmentation = Segmentation.of(np.array([1, 2], dtype=np.uint8), (3, 4))
    assert {segmentation.transcript.dtype, segmentation.lengths.dtype} == {np.dtype(np.int64)}
    assert Segmentation.of([], []).n_frames == 0
