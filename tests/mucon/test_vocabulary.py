"""Action names, their ids, and what a vocabulary refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucon.errors import InputError, nearest
from mucon.vocabulary import Vocabulary

NAMES = st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True)


@given(NAMES, st.data())
def test_names_and_ids_are_each_others_inverse(names, data):
    vocabulary = Vocabulary(tuple(names), tuple(data.draw(st.lists(st.sampled_from(names), unique=True))))
    spoken = data.draw(st.lists(st.sampled_from(names)))
    assert vocabulary.names(vocabulary.ids(spoken)) == tuple(spoken)
    assert vocabulary.ids(names) == tuple(range(vocabulary.n_actions))
    assert vocabulary.names(vocabulary.background_ids) == vocabulary.background
    assert Vocabulary.from_dict(json.loads(json.dumps(vocabulary.to_dict()))) == vocabulary


def test_end_and_start_symbol_are_no_actions():
    vocabulary = Vocabulary(("a", "b"))
    assert (vocabulary.n_actions, vocabulary.end_symbol, vocabulary.start_symbol) == (2, 2, 3)
    assert vocabulary.background_ids == ()


def test_unknown_names_are_all_told_with_the_nearest_ones():
    with pytest.raises(InputError) as caught:
        Vocabulary(("pour_milk", "stir")).ids(["stir", "pour_mlik", "xyz", "pour_mlik"])
    assert len(caught.value.problems) == 2
    assert caught.value.problems[0].startswith("'pour_mlik' is not an action of the vocabulary (did you mean 'pour_m")
    assert caught.value.problems[1].startswith("'xyz' is not an action of the vocabulary: ")


def test_everything_wrong_with_a_vocabulary_is_told_together():
    with pytest.raises(InputError) as caught:
        Vocabulary(("a", "", "a"), background=("SIL",))
    assert [word for problem in caught.value.problems for word in ("empty", "twice", "SIL") if word in problem] == [
        "empty",
        "twice",
        "SIL",
    ]
    with pytest.raises(InputError, match="at least one action"):
        Vocabulary(())


def test_nothing_is_offered_where_nothing_is_near():
    assert nearest("zzz", ["length", "mutual"]) == ""
