"""The validation part of a split: whole groups, about a fifth, the same on every machine."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from storage import StoreError, StoreWriter, open_store
from storage.held_out import Clip, HeldOut, held_out, hold_out
from tests.helpers.refusals import refused

BOTH = frozenset({0, 1})


def clips_of(sizes: dict[str, int]) -> list[Clip]:
    return [Clip(f"{who}_{take}", who, BOTH) for who, size in sizes.items() for take in range(size)]


def write_store(path: Path, clips: list[tuple[str, str | None, str]]) -> Path:
    """A store of clips with id, group and split part."""
    with StoreWriter(path, dim=2, dtype="float32", vocabulary=("rest", "pour")) as writer:
        for id, group, part in clips:
            features = np.zeros((4, 2), np.float32)
            writer.add(id, features, transcript=[0, 1], lengths=[2, 2], splits=(part,), group=group)
    return path


def test_the_choice_depends_on_names_alone():
    clips = clips_of({f"subject{i}": 4 for i in range(10)})
    expected = hold_out(clips)
    for seed in range(5):
        shuffled = random.Random(seed).sample(clips, len(clips))
        assert hold_out(shuffled) == expected
    assert expected.groups == ("subject1", "subject7")  # on every machine, in every version


@pytest.mark.parametrize(
    ("sizes", "held"),
    [
        ({f"s{i}": 1 for i in range(40)}, 8),  # recordings without groups are groups of one
        ({f"s{i}": 5 for i in range(8)}, 10),  # 10 is closer to 8 than 5
        ({"big": 30, "a": 3, "b": 3, "c": 3}, 9),
        ({"big": 39, "small": 1}, 1),
        ({"a": 20, "b": 21}, 20),  # every group is too large: the smallest
        ({"a": 1, "b": 1}, 1),
    ],
)
def test_about_a_fifth_in_whole_groups(sizes, held):
    clips = clips_of(sizes)
    found = hold_out(clips)
    assert len(found.validation) == held
    assert sorted((*found.validation, *found.rest)) == sorted(clip.id for clip in clips)
    assert not set(found.groups) & {clip.group for clip in clips if clip.id in found.rest}


def test_every_action_remains_in_the_rest_where_that_is_possible():
    common = [Clip(f"common{i}", None, BOTH) for i in range(8)]
    rare = [Clip("rare1", None, frozenset({0, 2})), Clip("rare2", None, frozenset({0, 3}))]
    assert hold_out([*common, *rare]).only_here == ()
    alone = hold_out([Clip(f"own{i}", None, frozenset({i})) for i in range(5)])
    assert len(alone.only_here) == len(alone.validation) == 1


def test_two_rare_clips_of_an_action_are_not_both_held_out():
    clips = [Clip(f"common{i}", None, BOTH) for i in range(3)] + [
        Clip(f"rare{i}", None, frozenset({2})) for i in (1, 2)
    ]
    for names in (("rare1", "rare2"), ("rarex", "rarey")):
        renamed = [clip._replace(id=clip.id.replace("rare1", names[0]).replace("rare2", names[1])) for clip in clips]
        assert hold_out(renamed).only_here == ()


def test_of_a_store(tmp_path):
    train = [(f"{who}{take}", who, "1:train") for who in "abcde" for take in (1, 2)]
    store = open_store(write_store(tmp_path / "store", [*train, ("x1", "x", "1:test")]))
    found = held_out(store, "1")
    assert (len(found.validation), len(found.rest), len(found.groups)) == (2, 8, 1)
    assert "x1" not in (*found.validation, *found.rest)


def test_a_part_that_the_store_has_itself_is_used(tmp_path):
    clips = [("a1", "a", "1:train"), ("b1", "b", "1:validation"), ("c1", None, "1:test")]
    store = open_store(write_store(tmp_path / "store", clips))
    assert held_out(store, "1") == HeldOut(validation=("b1",), rest=("a1",), groups=("b",), only_here=())


@pytest.mark.parametrize(
    ("train", "group"), [([("a1", "a", "1:train"), ("a2", "a", "1:train")], "a"), ([("a1", None, "1:train")], None)]
)
def test_one_group_cannot_be_divided(tmp_path, train, group):
    store = open_store(write_store(tmp_path / "store", [*train, ("t", "t", "1:test")]))
    with refused("missing", "split 1", group, n=1, error=StoreError):
        held_out(store, "1")
    with refused("unknown", value="2:train", error=StoreError):
        held_out(store, "2")
