"""What the parts of splits share: groups, transcripts, actions, features."""

from __future__ import annotations

import numpy as np

from storage import StoreWriter, open_store
from storage.inspection.findings import inspect_store
from storage.inspection.splits import PartFacts

ACTIONS = ("SIL", "pour", "stir", "cut")


def written(path, clips):
    """A store of (id, transcript, split parts, group, first value)."""
    with StoreWriter(path, dim=2, dtype="float32", vocabulary=ACTIONS) as writer:
        for id, transcript, splits, group, first in clips:
            frames = np.arange(first, first + 12, dtype=np.float32).reshape(6, 2)
            writer.add(id, frames, transcript=transcript, splits=splits, group=group)
    return open_store(path)


def warned(store):
    return [(one.rule, one.place, one.value) for one in inspect_store(store).warnings]


def test_transcripts_of_the_test_part_that_training_has_are_a_fact_and_no_warning(tmp_path):
    store = written(
        tmp_path / "s",
        [
            ("a", (0, 1), ("1:train",), None, 0),
            ("b", (0, 1, 2), ("1:train",), None, 100),
            ("c", (0, 1), ("1:test",), None, 200),
            ("d", (1, 0), ("1:test",), None, 300),
            ("e", None, ("1:test",), None, 400),
        ],
    )
    found = inspect_store(store)
    assert found.sharing["1"].parts == {"test": PartFacts(transcripts=2, seen_transcripts=1, unseen_actions={})}
    assert found.sharing["1"].unlearned_actions == ("cut",)
    assert found.warnings == ()
    (text,) = (text for name, text in found.rows() if name == "split 1")
    assert "1 of 2 test videos (50 %)" in text
    assert text.endswith("cut")


def test_an_action_of_the_test_part_that_no_training_video_contains_is_a_warning(tmp_path):
    store = written(
        tmp_path / "s",
        [
            ("a", (0, 1), ("1:train", "2:test"), None, 0),
            ("b", (0, 1, 2), ("1:test", "2:train"), None, 100),
            ("c", (2, 2, 3), ("1:test",), None, 200),
        ],
    )
    assert warned(store) == [("missing", "split 1, test", ["stir", "cut"])]
    assert inspect_store(store).sharing["1"].parts["test"].unseen_actions == {"stir": 2, "cut": 1}


def test_groups_in_several_parts_are_a_warning(tmp_path):
    parts = ("1:train", "1:test", "1:train")
    clips = [(f"v{i}", (0,), (part,), "p", 100 * i) for i, part in enumerate(parts)]
    assert warned(written(tmp_path / "s", clips)) == [("conflict", "split 1", ["p"])]


def test_the_same_features_under_two_ids_are_a_warning_which_names_the_split_that_they_spoil(tmp_path):
    store = written(
        tmp_path / "s",
        [
            ("a", (0,), ("1:train", "2:train"), None, 0),
            ("b", (0,), ("1:test", "2:train"), None, 0),
            ("c", (0,), ("1:train",), None, 50),
            ("d", (0,), ("1:train",), None, 50),
            ("e", (0,), ("2:test",), None, 100),
        ],
    )
    assert inspect_store(store).duplicates == [("a", "b"), ("c", "d")]
    assert warned(store) == [("duplicate", "split 1", [["a", "b"]]), ("duplicate", "videos", [["c", "d"]])]
