"""Stores that are edited: what each command changes, what it refuses, and what readers and other editors see."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage import Store, StoreError, StoreWriter, open_store
from storage.cli import main
from storage.editing import edit
from storage.editing.edit import edit_in_place
from storage.editing.merging import merge_stores
from storage.editing.removal import without
from storage.editing.renaming import parse_renames, renamed
from storage.failpoints import VARIABLE
from storage.folders import link_file, locked
from storage.layouts import no_progress
from storage.verify import verify_store
from tests.helpers.refusals import refused
from tests.storage.helpers import DataSet, change_manifest, clips_of, files_of, flip, rewrite_shards, write_store

LENGTHS = (40, 30, 60, 200, 20, 90, 100, 8)
PLACES = ("shard", "row_group", "first_row")


def content(store: Store, *ids: str) -> list[Any]:
    """What a store says of its clips, with names of actions instead of ids, and their features."""
    names = store.manifest.vocabulary
    found = []
    for id in ids or store.ids:
        record = store.record(id)
        facts = {name: getattr(record, name) for name in record.__dataclass_fields__ if name not in PLACES}
        facts["transcript"] = record.transcript and tuple(names[action] for action in record.transcript)
        found.append((facts, store.features(id).tobytes()))
    return found


def inodes(path: Path) -> set[int]:
    return {file.stat().st_ino for file in path.glob("features-*")}


def intact(path: Path) -> Store:
    assert not verify_store(path).problems
    return open_store(path)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_removed_clips_are_gone_and_only_their_files_are_rewritten(tmp_path):
    path = write_store(tmp_path / "s", clips_of(LENGTHS))
    before, old = inodes(path), open_store(path)
    everything, removed = content(old), old.ids[1]
    assert main(["remove", str(path), removed, "--dry-run"]) == 0
    assert inodes(path) == before
    assert main(["remove", str(path), removed]) == 0
    store = intact(path)
    kept = [id for id in old.ids if id != removed]
    assert list(store.ids) == kept
    assert content(store) == content(old, *kept)
    assert content(old) == everything  # an open store stays readable
    assert len(inodes(path) & before) == len(before) - 1
    assert left(tmp_path) == ["s"]
    for unknown in (["v000", "v9", "v8"], []):
        with pytest.raises(StoreError) as refusal:
            without(store, unknown)
        assert len(refusal.value.problems) == max(1, len(unknown) - 1)
    with refused("range", place=str(path), value=7, n=1, error=StoreError):
        without(store, store.ids)
    (tmp_path / "list").write_text("v000\n\nv002\n")
    assert main(["remove", str(path), "v003", "--from", str(tmp_path / "list")]) == 0
    assert intact(path).ids == ("v004", "v005", "v006", "v007")


def test_a_damaged_clip_is_not_rewritten_with_a_new_checksum(tmp_path):
    path = write_store(tmp_path / "s", {"a": np.ones((4, 4)), "b": np.full((4, 4), 0.1)}, dtype="float64")
    (file,) = path.glob("features-*")
    flip(file, file.read_bytes().index(np.float64(0.1).tobytes()) + 16)
    before = files_of(path)
    with refused("damaged", place="b", n=1, error=StoreError):
        edit_in_place(path, lambda store: without(store, ["a"]), dry_run=False, progress=no_progress)
    assert files_of(tmp_path) == {f"s/{name}": data for name, data in before.items()}


def rename(path: Path, *texts: str, merge: bool = False) -> Store:
    def change(store: Store) -> edit.Edit:
        return renamed(store, parse_renames(texts, store.manifest.vocabulary), merge=merge)

    edit_in_place(path, change, dry_run=False, progress=no_progress)
    return intact(path)


def test_actions_are_renamed_exchanged_and_merged_without_touching_features(tmp_path):
    path = write_store(tmp_path / "s", clips_of(LENGTHS))
    before = inodes(path)
    assert rename(path, "pour=stir", "stir=pour").manifest.vocabulary == ("SIL", "stir", "pour")
    store = rename(path, "stir=a = b", "SIL=BG")
    assert (store.manifest.vocabulary, store.manifest.background) == (("BG", "a = b", "pour"), ("BG",))
    assert rename(path, "a = b=stir").manifest.vocabulary == ("BG", "stir", "pour")
    with refused("conflict", place="BG", value=["BG", "pour"], n=1, error=StoreError):
        rename(path, "pour=BG")
    with refused("conflict", place="x", value=["BG", "pour"], n=1, error=StoreError):
        rename(path, "pour=x", "BG=x", merge=True)
    with refused("unknown", value="nothing", error=StoreError) as refusal:
        rename(path, "nothing=x", "pour", "stir=a", "stir=b")
    assert refusal.rules == ["unknown", "type", "duplicate"]
    with refused("range", place="vocabulary", value="", error=StoreError):
        rename(path, "pour=")
    store = rename(path, "stir=pour", merge=True)
    assert store.manifest.vocabulary == ("BG", "pour")
    assert {store.record(id).transcript for id in store.ids} == {(1, 1)}
    assert rename(path, "pour=BG", merge=True).manifest.background == ("BG",)
    assert inodes(path) == before
    assert left(tmp_path) == ["s"]


def test_a_store_is_appended_by_name_of_its_actions_and_without_rewriting_features(tmp_path):
    path = write_store(tmp_path / "s", clips_of(LENGTHS), fps=10.0)
    more = write_store(tmp_path / "t", {"w": np.ones((9, 4))}, vocabulary=("pour", "SIL", "x"), dtype="float32")
    both = [*content(open_store(path)), *content(open_store(more))]
    kept = inodes(path) | inodes(more)
    assert main(["append", str(path), str(more)]) == 2
    assert main(["append", str(path), str(more), "--new-actions", "--dry-run"]) == 0
    assert main(["append", str(path), str(more), "--new-actions"]) == 0
    store = intact(path)
    assert store.manifest.vocabulary == ("SIL", "pour", "stir", "x")
    assert content(store) == both
    assert inodes(path) == kept
    assert main(["append", str(path), str(more), "--new-actions"]) == 2


def test_a_dataset_is_appended_as_an_import_of_both_would_contain_it(tmp_path):
    whole = DataSet.example((30, 41, 25, 52, 33))
    whole.write(tmp_path / "whole")
    ids = list(whole.features)
    for name, part in (("first", ids[:3]), ("second", ids[3:])):
        data = DataSet(
            {id: whole.features[id] for id in part},
            {id: whole.labels[id] for id in part},
            splits={file: [line for line in lines if line[:-4] in part] for file, lines in whole.splits.items()},
        )
        data.write(tmp_path / name)
    options = ["--background", "SIL", "--fps", "15"]
    assert main(["import", str(tmp_path / "whole"), str(tmp_path / "w"), *options]) == 0
    assert main(["import", str(tmp_path / "first"), str(tmp_path / "s"), *options]) == 0
    assert main(["append", str(tmp_path / "s"), str(tmp_path / "second"), "--fps", "30"]) == 2
    assert main(["append", str(tmp_path / "s"), str(tmp_path / "second"), "--dtype", "float16"]) == 2
    assert main(["append", str(tmp_path / "s"), str(tmp_path / "second"), "--dry-run"]) == 0
    assert main(["append", str(tmp_path / "s"), str(tmp_path / "second")]) == 0
    store, expected = intact(tmp_path / "s"), open_store(tmp_path / "w")
    assert content(store) == content(expected)
    assert (store.manifest.background, store.parts) == (expected.manifest.background, expected.parts)
    assert main(["append", str(tmp_path / "s"), str(tmp_path / "second")]) == 2


def test_stores_are_merged_and_what_they_share_is_kept_once(tmp_path):
    clips = clips_of(LENGTHS)
    first = write_store(tmp_path / "a", {id: clips[id] for id in list(clips)[:5]}, fps=10.0)
    second = write_store(tmp_path / "b", {id: clips[id] for id in list(clips)[3:]}, metadata={"simulated": {"seed": 1}})
    with refused("conflict", place="v003: group", value="g0", n=2, error=StoreError):
        merge_stores([first, second], tmp_path / "m")
    with StoreWriter(second, dim=4, dtype="float32", vocabulary=("stir",), replace=True) as writer:
        writer.add("v003", clips["v003"], transcript=(0,), splits=("1:test",))
    with refused("conflict", place="v003: splits", value=["1:test", "1:train"], error=StoreError) as refusal:
        merge_stores([first, second], tmp_path / "m")
    assert ["stir"] in refusal.values
    with StoreWriter(second, dim=4, dtype="float32", vocabulary=("stir", "new"), replace=True) as writer:
        for id in ("v003", "v007"):
            writer.add(id, clips[id], transcript=None, activity="tea", splits=("2:test",))
    lines = merge_stores([first, second], tmp_path / "m")
    store = intact(tmp_path / "m")
    assert store.ids == ("v000", "v001", "v002", "v003", "v004", "v007")
    assert store.manifest.vocabulary == ("SIL", "pour", "stir", "new")
    assert store.record("v003").splits == (*open_store(first).record("v003").splits, "2:test")
    assert (store.record("v003").activity, store.record("v003").group) == ("tea", "g1")
    assert store.manifest.fps == 10.0
    assert any("fps" in line for line in lines)
    assert inodes(first) < inodes(tmp_path / "m")
    with refused("exists", error=StoreError):
        merge_stores([first, second], tmp_path / "m")
    assert left(tmp_path) == ["a", "b", "m"]


def test_stores_that_contradict_each_other_are_not_merged(tmp_path):
    first = write_store(tmp_path / "a", clips_of([4, 5]), fps=10.0)
    other = write_store(tmp_path / "b", clips_of([4, 5], seed=1), fps=20.0, background=("pour",))
    third = write_store(tmp_path / "c", clips_of([4], dim=3, dtype="float64"))
    with refused("mismatch", place="fps", value=20.0, error=StoreError) as refusal:
        merge_stores([first, other, third], tmp_path / "m")
    assert refusal.rules.count("mismatch") == 5  # fps, and D and dtype of the third against each other one
    assert {"SIL", "pour"} <= {value for value in refusal.values if isinstance(value, str)}
    assert refusal.rules.count("duplicate") == 3
    for target in (first, first / "m", tmp_path):
        with refused("conflict", place=str(target), n=1, error=StoreError):
            merge_stores([first, other], target, replace=True)
    with refused("duplicate", place=str(first), n=1, error=StoreError):
        merge_stores([first, first], tmp_path / "m")
    with refused("missing", value=1, n=1, error=StoreError):
        merge_stores([first], tmp_path / "m")


def test_simulated_features_stay_marked_in_a_mixture(tmp_path):
    paths = [
        write_store(tmp_path / name, {name: np.ones((4, 4), np.float32)}, metadata=metadata)
        for name, metadata in (("a", {"layout": "x", "k": 1}), ("b", {"layout": "x", "simulated": {"seed": 1}}))
    ]
    merge_stores(paths, tmp_path / "m")
    metadata = open_store(tmp_path / "m").manifest.metadata
    assert metadata["layout"] == "x"
    assert metadata["simulated"]
    assert [one["metadata"] for one in metadata["united"]] == [open_store(path).manifest.metadata for path in paths]
    paths.append(write_store(tmp_path / "c", {"c": np.ones((4, 4), np.float32)}))
    merge_stores([tmp_path / "m", paths[-1]], tmp_path / "n")
    metadata = open_store(tmp_path / "n").manifest.metadata
    assert [one["name"] for one in metadata["united"]] == ["a", "b", "c"]
    assert metadata["simulated"]


def test_of_two_editors_the_second_is_refused_and_the_first_is_not_disturbed(tmp_path):
    path = write_store(tmp_path / "s", clips_of(LENGTHS))
    code = "import sys; from storage.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "rename-actions", str(path), "pour=fill"]
    first = subprocess.Popen(command, env={**os.environ, VARIABLE: "storage.writer.publish:1:stop"})
    try:
        os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
        with refused("busy", place=str(path), n=1, error=StoreError) as refusal:
            rename(path, "stir=turn")
        assert str(first.pid) in refusal.problems[0].message
        assert main(["append", str(path), str(write_store(tmp_path / "t", {"w": np.ones((9, 4))}))]) == 2
        assert open_store(path).manifest.vocabulary[1] == "pour"  # readers need no lock
    finally:
        first.send_signal(18)
    assert first.wait(60) == 0
    assert rename(path, "stir=turn").manifest.vocabulary == ("SIL", "fill", "turn")
    assert main(["append", str(path), str(path)]) == 2
    assert left(tmp_path) == ["s", "t"]


def test_a_store_that_is_exchanged_under_an_editor_without_a_lock_is_not_overwritten(tmp_path):
    path = write_store(tmp_path / "s", clips_of(LENGTHS))

    def change(store: Store) -> edit.Edit:
        path.rename(tmp_path / "aside")
        write_store(path, clips_of([5, 6]))
        return without(store, ["v000"])

    with refused("state", place=str(path), n=1, error=StoreError):
        edit_in_place(path, change, dry_run=False, progress=no_progress)
    assert len(intact(path)) == 2
    assert left(tmp_path) == ["aside", "s"]


def test_a_replacement_waits_for_an_editor(tmp_path):
    path = write_store(tmp_path / "s", clips_of([5, 6]))
    code = (
        "import sys; from pathlib import Path; from tests.storage.helpers import clips_of, write_store\n"
        "print('begins', flush=True); write_store(Path(sys.argv[1]), clips_of([7, 8, 9]), replace=True)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with locked(path):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)], env=environment, **pipes)
        writer.stdout.readline()
        until = time.monotonic() + 60
        while not re.search(rf"-> FLOCK .* {writer.pid} ", Path("/proc/locks").read_text()):
            assert writer.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        assert len(open_store(path)) == 2
    _, errors = writer.communicate(timeout=60)
    assert writer.returncode == 0
    assert (errors.count(str(path)), str(os.getpid()) in errors) == (1, True)
    assert len(intact(path)) == 3


def test_merges_that_replace_stores_of_each_other_do_not_wait_for_each_other(tmp_path):
    first, second, third = (write_store(tmp_path / name, clips_of([5, 6])) for name in "abc")
    with (
        locked(third, shared=True),  # of a merge that reads it and replaces the first
        refused("busy", place=str(third), n=1, error=StoreError),
    ):
        merge_stores([first, second], third, replace=True)


def test_files_are_copied_where_they_cannot_be_linked(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = write_store(tmp_path / "s", clips_of(LENGTHS))
    before = {name: data for name, data in files_of(path).items() if name.startswith("features")}
    rename(path, "pour=fill")
    assert {name: data for name, data in files_of(path).items() if name.startswith("features")} == before
    (tmp_path / "x").write_bytes(b"x" * 5)
    link_file(tmp_path / "x", tmp_path / "y")
    assert (tmp_path / "y").read_bytes() == b"x" * 5
    with pytest.raises(FileExistsError):
        link_file(tmp_path / "x", tmp_path / "y")


def test_too_little_space_is_noticed_before_anything_is_written(tmp_path, monkeypatch):
    path = write_store(tmp_path / "s", clips_of(LENGTHS))
    before = files_of(tmp_path)
    monkeypatch.setattr(edit.Piece, "n_bytes", lambda *_: 2**60)
    for dry_run in (True, False):
        with refused("unwritable", place=str(path), n=1, error=StoreError):
            edit_in_place(path, lambda store: without(store, ["v000"]), dry_run=dry_run, progress=no_progress)
    assert files_of(tmp_path) == before


def test_shards_that_another_tool_has_rewritten_are_kept(tmp_path):
    path = write_store(tmp_path / "s", clips_of(LENGTHS), metadata={"note": "é"})
    rewrite_shards(path, compression="zstd", row_group_size=37)
    before, features = inodes(path), [open_store(path).features(id).tobytes() for id in open_store(path).ids]
    edit_in_place(
        path, lambda store: renamed(store, {"pour": "fill"}, merge=False), dry_run=False, progress=no_progress
    )
    store = open_store(path)
    assert store.manifest.metadata == {"note": "é"}
    assert [store.features(id).tobytes() for id in store.ids] == features
    assert inodes(path) == before


def test_additions_of_other_programs_that_an_edit_drops_are_noted(tmp_path):
    path = write_store(tmp_path / "s", clips_of([4, 5]))
    change_manifest(path, lambda value: value.update(colour="red"))
    lines = edit_in_place(path, lambda store: without(store, ["v000"]), dry_run=True, progress=no_progress)
    assert sum("colour" in line for line in lines) == 1
    assert not any("columns" in line for line in lines)
