"""Correlation and error of log lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucon.metrics.lengths import length_correlation, log_length_error
from mucon.metrics.scores import score
from mucon.metrics.transcripts import distance_and_matches, matches
from mucon.segments import Segmentation

TRANSCRIPTS = st.lists(st.integers(0, 3), max_size=9)


@given(TRANSCRIPTS, TRANSCRIPTS)
def test_matched_segments_are_those_of_the_matching_score(a, b):
    rows, columns = matches(a, b)
    assert len(rows) == distance_and_matches(a, b)[1]
    assert [a[i] for i in rows] == [b[j] for j in columns]
    assert (np.diff(rows) > 0).all()
    assert (np.diff(columns) > 0).all()


def test_one_recording_has_the_correlation_of_its_log_lengths():
    true, predicted = [40, 5, 30, 9, 16], [10, 20, 25, 15, 30]
    found = length_correlation(Segmentation.of([0, 1, 0, 2, 1], true), Segmentation.of([0, 1, 0, 2, 1], predicted))
    assert found.value == pytest.approx(np.corrcoef(np.log(true), np.log(predicted))[0, 1])
    error = log_length_error(Segmentation.of([0, 1, 0, 2, 1], true), Segmentation.of([0, 1, 0, 2, 1], predicted))
    assert error == pytest.approx(np.abs(np.log(true) - np.log(predicted)).mean())


def test_inverted_lengths_have_a_negative_correlation_whatever_the_recordings_last():
    targets = [Segmentation.of([0, 1], [1, 9]), Segmentation.of([0, 1], [100, 900])]
    inverted = [Segmentation.of([0, 1], [9, 1]), Segmentation.of([0, 1], [900, 100])]
    scores = score(targets, inverted)
    assert scores.values["length_correlation"] == pytest.approx(-1)
    assert scores.values["log_length_error"] == pytest.approx(np.log(9))


def test_segments_that_the_other_side_lacks_do_not_count():
    target, prediction = Segmentation.of([0, 1, 2], [2, 50, 8]), Segmentation.of([0, 3, 2], [4, 40, 16])
    assert log_length_error(target, prediction) == pytest.approx(np.log(2))
    assert length_correlation(target, prediction).value == pytest.approx(1)


@pytest.mark.parametrize(
    ("transcript", "lengths", "undefined"),
    [([3], [60], {"log_length_error": 1, "length_correlation": 1}), ([0, 1, 2], [20] * 3, {"length_correlation": 1})],
)
def test_without_matches_or_with_equal_lengths_there_is_no_value(transcript, lengths, undefined):
    scores = score([Segmentation.of([0, 1, 2], [2, 50, 8])], [Segmentation.of(transcript, lengths)])
    counts = {name: scores.undefined[name] for name in ("log_length_error", "length_correlation")}
    assert {name: count for name, count in counts.items() if count} == undefined
    assert not undefined.keys() & scores.values.keys()
