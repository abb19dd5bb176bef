from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.decoding.rounding import largest_remainder
from tests.helpers.refusals import ANY, refused

LENGTHS = st.lists(st.one_of(st.just(0.0), st.floats(1e-300, 1e300), st.floats(0.01, 50.0)), min_size=1, max_size=12)


@settings(max_examples=400, deadline=None)
@given(LENGTHS, st.integers(0, 3000))
def test_rounded_lengths_fill_the_recording_and_none_is_empty(lengths, extra):
    lengths[0] = max(lengths[0], 0.5)
    T = len(lengths) + extra
    result = largest_remainder(lengths, T)
    assert result.dtype == np.int64
    assert result.sum() == T
    assert result.min() >= 1


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(1.0, 500.0), min_size=1, max_size=12))
def test_lengths_of_at_least_a_frame_move_by_less_than_a_frame(lengths):
    T = int(np.ceil(sum(lengths)))
    quotas = np.array(lengths) * T / sum(lengths)
    assert np.abs(largest_remainder(lengths, T) - quotas).max() < 1 + 1e-9


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(1, 900), min_size=1, max_size=20), st.floats(0.001, 1000.0))
def test_whole_lengths_in_any_unit_come_back_unchanged(lengths, unit):
    assert largest_remainder(np.array(lengths) * unit, sum(lengths)).tolist() == lengths


@settings(max_examples=200, deadline=None)
@given(LENGTHS, st.integers(0, 500))
def test_a_longer_segment_never_gets_fewer_frames(lengths, extra):
    lengths[0] = max(lengths[0], 0.5)
    result = largest_remainder(lengths, len(lengths) + extra)
    order = np.lexsort((-np.arange(len(lengths)), lengths))
    assert (np.diff(result[order]) >= 0).all()


def test_frames_left_over_go_to_the_largest_remainders_and_the_earlier_of_equals():
    assert largest_remainder([2.5, 3.2, 4.3], 10).tolist() == [3, 3, 4]
    assert largest_remainder([1.0, 1.0, 1.0], 8).tolist() == [3, 3, 2]


def test_segments_under_a_frame_get_one_and_the_others_share_the_rest():
    assert largest_remainder([0.0, 1e-9, 30.0, 70.0], 102).tolist() == [1, 1, 30, 70]


def test_as_many_segments_as_frames_get_one_frame_each():
    assert largest_remainder([5000.0, 0.001, 0.0], 3).tolist() == [1, 1, 1]
    assert largest_remainder([0.1] * 7, 7).tolist() == [1] * 7


@pytest.mark.parametrize(
    ("lengths", "T", "rule", "place", "value"),
    [
        ([1.0, 2.0, 3.0], 2, "mismatch", "n_frames", 2),
        ([], 5, "missing", "lengths", None),
        ([0.0, 0.0], 5, "range", "sum", 0),
        ([1.0, np.nan], 5, "range", "lengths[1]", ANY),
        ([np.inf, 1.0], 5, "range", "lengths[0]", np.inf),
        ([1.0, -2.0], 5, "range", "lengths[1]", -2.0),
    ],
)
def test_lengths_that_cannot_fill_the_recording_are_refused(lengths, T, rule, place, value):
    with refused(rule, place, value, n=1):
        largest_remainder(lengths, T)
