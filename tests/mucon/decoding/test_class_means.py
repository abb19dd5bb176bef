from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucon.decoding.class_means import class_mean_lengths
from tests.helpers.refusals import ANY, refused

VIDEOS = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500)), max_size=6), max_size=5)


@given(VIDEOS)
def test_the_mean_of_an_action_is_that_of_its_segments_and_of_all_where_it_has_none(videos):
    pairs = [([action for action, _ in video], [length for _, length in video]) for video in videos]
    segments = [segment for video in videos for segment in video]
    if not segments:
        assert class_mean_lengths(pairs, 4, fallback=12.5).tolist() == [12.5] * 4
        return
    overall = np.mean([length for _, length in segments])
    for action, mean in enumerate(class_mean_lengths(pairs, 4)):
        own = [length for one, length in segments if one == action]
        assert mean == pytest.approx(np.mean(own) if own else overall, rel=1e-12)


def test_a_fallback_replaces_only_the_mean_of_actions_without_a_segment():
    assert class_mean_lengths([([0, 2], [3.5, 1.0])], 4, fallback=9.0).tolist() == [3.5, 9.0, 1.0, 9.0]


@pytest.mark.parametrize(
    ("segments", "fallback", "rule", "place", "value"),
    [
        ([], None, "missing", "segments", None),
        ([([], [])], None, "missing", "segments", None),
        ([], -1.0, "range", "fallback", -1.0),
        ([], np.inf, "range", "fallback", np.inf),
        ([([0], [1]), ([0, 1], [1])], None, "shape", "recording 1", 1),
        ([([0, 3], [1, 1])], None, "range", "recording 0, segment 1", 3),
        ([([0], [np.nan])], None, "range", "recording 0, segment 0", ANY),
    ],
)
def test_segments_without_a_mean_are_refused_by_name(segments, fallback, rule, place, value):
    with refused(rule, place, value, n=1):
        class_mean_lengths(segments, 3, fallback=fallback)
