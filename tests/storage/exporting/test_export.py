"""Stores written as datasets of other programs, and read again."""

from __future__ import annotations

import shutil
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import Store, StoreError, StoreWriter, open_store
from storage.cli import main
from storage.exporting import ms_tcn
from storage.exporting.description import FILE
from storage.exporting.file_names import bundle_name, id_file_problems
from storage.exporting.ms_tcn import export_store
from storage.format.rules import id_problems
from storage.importing import import_data
from storage.layouts import ImportOptions
from storage.layouts.ms_tcn import MsTcn
from storage.layouts.table import layout_of
from storage.names import normal
from storage.verify import verify_store
from tests.helpers.refusals import refused
from tests.storage.helpers import VOCABULARY, DataSet, clips_of, files_of, flip, write_store


def imported(source: Path, target: Path) -> Store:
    dataset, _ = layout_of(source, None, ImportOptions())
    import_data(dataset, target)
    return open_store(target)


LETTERS = st.sampled_from("aB1 .-_=é中ß" + string.ascii_letters)
NAMES = st.text(LETTERS, min_size=1, max_size=6).map(lambda text: normal(text).strip()).filter(bool)
IDS = st.lists(NAMES, min_size=1, max_size=3).map("/".join).filter(lambda id: not id_problems(id, ()))
PARTS = ("1:train", "1:test", "1:Train", "2:test", "x.y:val", "a/b:train")


@st.composite
def stores(draw: st.DrawFn) -> dict[str, Any]:
    vocabulary = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    clips = {}
    for id in draw(st.lists(IDS, min_size=1, max_size=4, unique_by=str.casefold)):
        frames = draw(st.integers(1, 6))
        cuts = sorted(draw(st.sets(st.integers(1, frames - 1), max_size=3))) if frames > 1 else []
        lengths = [b - a for a, b in zip([0, *cuts], [*cuts, frames], strict=True)]
        known = draw(st.sampled_from(("labels", "transcript", "nothing")))
        actions = [draw(st.integers(0, len(vocabulary) - 1)) for _ in lengths]
        clips[id] = {
            "frames": frames,
            "transcript": None if known == "nothing" else actions,
            "lengths": lengths if known == "labels" else None,
            "splits": draw(st.lists(st.sampled_from(PARTS), max_size=2, unique_by=lambda part: part.split(":")[0])),
            "group": draw(st.none() | NAMES),
            "activity": draw(st.none() | NAMES),
        }
    return {
        "vocabulary": vocabulary,
        "background": vocabulary[: draw(st.integers(0, 1))],
        "dtype": draw(st.sampled_from(("float16", "float32", "float64"))),
        "dim": draw(st.integers(1, 6)),
        "fps": draw(st.none() | st.sampled_from((15.0, 29.97))),
        "offset": draw(st.none() | st.just(-0.1)),
        "metadata": draw(st.sampled_from(({}, {"simulated": {"seed": 1}, "note": ["é"]}))),
        "clips": clips,
    }


def written(path: Path, facts: dict[str, Any]) -> Store:
    header = {name: value for name, value in facts.items() if name != "clips"}
    random = np.random.default_rng(0)
    with StoreWriter(path, **header) as writer:
        for id, clip in sorted(facts["clips"].items()):  # as importers write them
            features = random.normal(size=(clip["frames"], facts["dim"]))
            writer.add(id, features, **{name: value for name, value in clip.items() if name != "frames"})
    return open_store(path)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(facts=stores())
def test_an_export_is_imported_as_the_same_store_and_exported_as_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, facts: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("export")
    store = written(folder / "a", facts)
    if id_file_problems(store.ids, folder / "x"):
        with pytest.raises(StoreError):
            export_store(store, folder / "x")
        assert not (folder / "x").exists()
        return
    export_store(store, folder / "x")
    again = imported(folder / "x", folder / "b")
    assert again.manifest == store.manifest
    assert again.catalogue.records() == store.catalogue.records()
    export_store(again, folder / "y")
    assert files_of(folder / "x") == files_of(folder / "y")
    shutil.rmtree(folder)


def test_a_dataset_that_is_imported_and_exported_has_the_same_files(tmp_path):
    data = DataSet.example()
    data.features = {f"P0/{video}": values for video, values in data.features.items()}
    data.labels = {f"P0/{video}": names for video, names in data.labels.items()}
    data.splits = {name: [f"P0/{line}" for line in lines] for name, lines in data.splits.items()}
    source = data.write(tmp_path / "src")
    import_data(MsTcn(source, ImportOptions(background=("SIL",))), tmp_path / "s", times={"fps": 15.0})
    export_store(open_store(tmp_path / "s"), tmp_path / "x")
    files = files_of(tmp_path / "x")
    assert files.pop(FILE)
    assert files == files_of(source)


def test_options_of_an_import_take_precedence_over_the_file(tmp_path):
    path = write_store(tmp_path / "s", clips_of([8, 9, 10]), fps=10.0)
    assert main(["export", str(path), str(tmp_path / "x")]) == 0
    assert main(["import", str(tmp_path / "x"), str(tmp_path / "t"), "--fps", "12", "--dtype", "float64"]) == 0
    manifest = open_store(tmp_path / "t").manifest
    assert (manifest.fps, manifest.dtype, manifest.background) == (12.0, "float64", ("SIL",))
    assert main(["import", str(tmp_path / "x"), str(tmp_path / "u"), "--layout", "ms-tcn"]) == 0
    assert open_store(tmp_path / "u").manifest.fps is None


@pytest.mark.parametrize(
    ("ids", "rule", "value"),
    [
        (["a/../../b", "c"], "unsupported", "a/../../b"),
        (["/etc/a"], "unsupported", "/etc/a"),
        (["a//b"], "unsupported", "a//b"),
        (["./a"], "unsupported", "./a"),
        (["a/.b"], "unsupported", "a/.b"),
        (["a\\b"], "unsupported", "a\\b"),
        (["a.txt"], "unsupported", "a.txt"),
        (["é" * 126 + "a"], "unsupported", "é" * 126 + "a"),
        (["/".join(["a" * 250] * 16)], "unsupported", "/".join(["a" * 250] * 16)),
        (["Clip", "clip"], "conflict", "clip"),
        (["Day/a", "day/b"], "conflict", "day/b"),
        (["a", "a.npy/b"], "conflict", "a.npy/b"),
    ],
)
def test_ids_that_are_no_names_of_files_are_refused_before_anything_is_written(tmp_path, ids, rule, value):
    path = tmp_path / "s"
    with StoreWriter(path, dim=2, dtype="float32", vocabulary=VOCABULARY) as writer:
        for id in ids:
            writer.add(id, np.ones((2, 2)), transcript=(0,))
    with refused(rule, place="id", value=value, n=1, error=StoreError):
        export_store(open_store(path), tmp_path / "x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["s"]


def test_names_of_parts_that_a_file_cannot_keep():
    assert bundle_name("10:train") == "train.split10.bundle"
    assert [bundle_name(part) for part in ("1:Train", "a/b:train", "1:a.b", f"{'a' * 250}:x")] == [None] * 4


def test_an_export_replaces_an_earlier_one_only_and_only_when_asked(tmp_path):
    store, target = open_store(write_store(tmp_path / "s", clips_of([4, 5]))), tmp_path / "x"
    export_store(store, target)
    with refused("exists", place=str(target), value=FILE, error=StoreError):
        export_store(store, target)
    before = files_of(target)
    export_store(store, target, replace=True)
    assert files_of(target) == before
    (target / "features" / "thesis.tex").write_text("years of work")
    with refused("exists", place=str(target), value=["features/thesis.tex"], n=1, error=StoreError):
        export_store(store, target, replace=True)
    for other in (tmp_path / "s" / "x", tmp_path):
        with pytest.raises(StoreError):
            export_store(store, other, replace=True)


def test_a_full_disk_is_noticed_before_anything_is_written(tmp_path, monkeypatch):
    store = open_store(write_store(tmp_path / "s", clips_of([4, 5])))
    monkeypatch.setattr(ms_tcn, "_size", lambda *_, **__: 2**60)
    with refused("unwritable", place=str(tmp_path / "x"), n=1, error=StoreError):
        export_store(store, tmp_path / "x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["s"]


def test_damaged_features_are_not_exported(tmp_path):
    path = write_store(tmp_path / "s", {"v": np.full((4, 4), 0.1, np.float32)})
    data = (path / "features-00000.parquet").read_bytes()
    flip(path / "features-00000.parquet", data.index(np.float32(0.1).tobytes()) + 8)
    with refused("damaged", place="v", n=1, error=StoreError):
        export_store(open_store(path), tmp_path / "x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize(
    ("name", "old", "new", "rule", "place"),
    [
        ("groundTruth/v.txt", "stir", "pour", "mismatch", "lengths"),
        (FILE, '"v": "g"', '"w": "g"', "unknown", FILE),
        (FILE, '"format_version": 1', '"format_version": 2', "version", FILE),
        (FILE, '"fps": null', '"fps": "fast"', "type", "fps"),
        (FILE, '"background": [],', "", "missing", "background"),
        (FILE, "1,", "1", "unreadable", FILE),
    ],
)
def test_a_changed_export_that_contradicts_itself_is_refused(tmp_path, name, old, new, rule, place):
    with StoreWriter(tmp_path / "s", dim=2, dtype="float32", vocabulary=VOCABULARY) as writer:
        writer.add("v", np.ones((6, 2)), transcript=(1, 1, 2), lengths=(1, 2, 3), group="g")
    export_store(open_store(tmp_path / "s"), tmp_path / "x")
    path = tmp_path / "x" / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with refused(rule, place=place, n=1, error=StoreError):
        imported(tmp_path / "x", tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"", 2), (bytes(300), 2), (b"{", 2), (b"[" * 10**5, 2), (b'{"name": "x"}', 0)],
    ids=["empty", "zeros", "open", "depth", "other"],
)
def test_a_damaged_description_is_not_taken_for_a_folder_without_one(tmp_path, content, status):
    export_store(open_store(write_store(tmp_path / "s", clips_of([8, 9]))), tmp_path / "x")
    (tmp_path / "x" / FILE).write_bytes(content)
    assert main(["import", str(tmp_path / "x"), str(tmp_path / "t")]) == status


def test_changed_lengths_need_the_option_that_allows_them(tmp_path):
    export_store(open_store(write_store(tmp_path / "s", clips_of([8, 9]), metadata={"k": 1})), tmp_path / "x")
    np.save(tmp_path / "x" / "features" / "v000.npy", np.zeros((7, 4), np.float32))
    with refused("mismatch", place="v000", value=8, n=1, error=StoreError):
        imported(tmp_path / "x", tmp_path / "t")
    assert main(["import", str(tmp_path / "x"), str(tmp_path / "t"), "--length-tolerance", "1"]) == 0
    store = open_store(tmp_path / "t")
    assert store.record("v000").lengths == (1, 6)
    assert store.manifest.metadata == {"k": 1, "length_tolerance": 1}


def test_a_changed_label_and_a_new_clip_are_imported(tmp_path):
    export_store(open_store(write_store(tmp_path / "s", clips_of([8, 9]))), tmp_path / "x")
    np.save(tmp_path / "x" / "features" / "new.npy", np.zeros((3, 4), np.float32))
    (tmp_path / "x" / "groundTruth" / "new.txt").write_text("SIL\n" * 3)
    (tmp_path / "x" / "groundTruth" / "v000.txt").write_text("stir\n" * 8)
    store = imported(tmp_path / "x", tmp_path / "t")
    assert [store.record(id).transcript for id in store.ids] == [(0,), (2,), (1, 2)]
    assert not verify_store(tmp_path / "t").problems
