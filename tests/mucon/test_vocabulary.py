"""Action names, their ids, and what a vocabulary refuses."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from mucon.errors import nearest
from mucon.vocabulary import Vocabulary
from tests.helpers.refusals import refused

NAMES = st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True)


@given(NAMES, st.data())
def test_names_and_ids_are_each_others_inverse(names, data):
    vocabulary = Vocabulary(tuple(names), tuple(data.draw(st.lists(st.sampled_from(names), unique=True))))
    spoken = data.draw(st.lists(st.sampled_from(names)))
    assert vocabulary.names(vocabulary.ids(spoken)) == tuple(spoken)
    assert vocabulary.ids(names) == tuple(range(vocabulary.n_actions))
    assert vocabulary.names(vocabulary.background_ids) == vocabulary.background
    assert Vocabulary.from_dict(json.loads(json.dumps(vocabulary.to_dict()))) == vocabulary


def test_the_background_may_be_empty():
    vocabulary = Vocabulary(("a", "b"))
    assert (vocabulary.n_actions, vocabulary.background_ids) == (2, ())


def test_unknown_names_are_all_reported_with_the_nearest_ones():
    with refused("unknown", "action", "pour_mlik", n=2) as refusal:
        Vocabulary(("pour_milk", "stir")).ids(["stir", "pour_mlik", "xyz", "pour_mlik"])
    assert refusal.values == ["pour_mlik", "xyz"]
    assert ["'pour_milk'" in str(problem) for problem in refusal.problems] == [True, False]


def test_everything_wrong_with_a_vocabulary_is_reported_together():
    with refused("duplicate", "action 2", "a", n=3) as refusal:
        Vocabulary(("a", "", "a"), background=("SIL",))
    assert refusal.rules == ["missing", "duplicate", "unknown"]
    assert refusal.places == ["action 1", "action 2", "background"]
    assert refusal.values[2] == "SIL"
    with refused("missing", "actions", n=1):
        Vocabulary(())


def test_nothing_is_offered_where_nothing_is_near():
    assert nearest("zzz", ["length", "mutual"]) == ""
