from __future__ import annotations

import edit_distance as package
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.metrics.transcripts import distance_and_matches, edit_distance, edit_score, matching_score
from tests.helpers import oracles_metrics as oracle

TRANSCRIPTS = st.lists(st.integers(0, 4), max_size=12)


def test_distance_and_matches_are_those_of_the_edit_distance_package():
    rng = np.random.default_rng(0)
    for _ in range(3000):
        n_actions = rng.integers(1, 7)
        a = rng.integers(0, n_actions, rng.integers(1, 14)).tolist()
        b = rng.integers(0, n_actions, rng.integers(1, 14)).tolist()
        matcher = package.SequenceMatcher(a, b)
        assert distance_and_matches(a, b) == (matcher.distance(), matcher.matches()), (a, b)
        assert matching_score(a, b) == matcher.ratio()


@settings(max_examples=300, deadline=None)
@given(TRANSCRIPTS, TRANSCRIPTS)
def test_the_edit_distance_is_the_one_of_the_textbook_table(a, b):
    assert edit_distance(a, b) == oracle.edit_distance(a, b)


@settings(max_examples=200, deadline=None)
@given(TRANSCRIPTS, TRANSCRIPTS, st.permutations(range(5)))
def test_transcripts_are_compared_by_equality_alone(a, b, names):
    renamed = [names[action] for action in a], [names[action] for action in b]
    assert distance_and_matches(*renamed) == distance_and_matches(a, b)


@settings(max_examples=200, deadline=None)
@given(TRANSCRIPTS, TRANSCRIPTS)
def test_edit_is_symmetric_and_matches_fit_the_distance(a, b):
    distance, matches = distance_and_matches(a, b)
    assert distance == edit_distance(b, a)
    assert max(len(a), len(b)) - distance <= matches <= min(len(a), len(b))
    assert edit_score(a, b) == edit_score(b, a)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_the_same_transcript_scores_one_and_an_empty_one_zero(a):
    assert edit_score(a, a) == matching_score(a, a) == 1.0
    assert edit_score(a, []) == edit_score([], a) == matching_score(a, []) == matching_score([], a) == 0.0


def test_two_empty_transcripts_have_no_score():
    assert edit_score([], []) is None
    assert matching_score([], []) is None


def test_matches_are_on_a_path_of_fewest_edits_and_not_on_the_longest_common_subsequence():
    a, b = [0, 1], [1, 0]
    assert distance_and_matches(a, b) == (2, 0)
    assert matching_score(a, b) == 0.0


@pytest.mark.parametrize(("a", "b", "score"), [([1, 1, 2], [1, 2], 0.8), ([1, 2], [1, 1, 2], 0.8)])
def test_the_matching_score_sees_repetitions(a, b, score):
    assert matching_score(a, b) == score
