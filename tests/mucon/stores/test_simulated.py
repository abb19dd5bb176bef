"""`mucon store synthesize --like`: real annotations with simulated features, as a store."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucon.cli import main
from mucon.stores.simulated import Selection, selected, write_simulated
from mucon.stores.sources import read_source
from mucon.synthetic.annotations import read_annotations
from mucon.synthetic.feature_model import FeatureModel
from mucon.synthetic.features import drawn_first
from storage import StoreWriter, open_store
from storage.inspection.overview import overview
from tests.helpers.annotation_folders import ACTIONS, write_annotations
from tests.helpers.factories import write_store
from tests.helpers.refusals import refused

SMALL = FeatureModel(dim=6, latent=6, window=4, ramp=2, blur=3)


def test_a_store_has_the_annotation_of_its_folder_and_is_marked_as_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_annotations(tmp_path / "notes")
    path = tmp_path / "store"
    options = ["--like", str(folder), "--dim", "6", "--set", "offset=0.2", "--set", "dtype=float16", "--seed", "3"]
    assert main(["store", "synthesize", str(path), *options]) == 0
    assert "'SIL'" in capsys.readouterr().out
    store = open_store(path)
    annotations = {annotation.id: annotation for annotation in read_annotations(folder)}
    assert store.ids == tuple(annotations)
    for id, annotation in annotations.items():
        record = store.record(id)
        assert tuple(ACTIONS[action] for action in record.transcript or ()) == annotation.transcript
        assert record.lengths == annotation.lengths
        assert (record.group, record.activity) == (annotation.group, annotation.activity)
    assert (store.manifest.vocabulary, store.manifest.background) == (ACTIONS, ("SIL",))
    assert store.split("1", "test") == ("v00", "v03", "v06", "v09")
    assert store.split("2", "train") == ("v01", "v02")
    simulated = store.manifest.metadata["simulated"]
    assert (simulated["like"], simulated["preset"], simulated["seed"]) == ("notes", "breakfast_fv", 3)
    assert FeatureModel(**simulated["model"]) == FeatureModel(dim=6, offset=0.2, dtype="float16")
    assert main(["store", "inspect", str(path)]) == 0
    assert {"float16,", "notes,", "breakfast_fv,", "3"} <= set(capsys.readouterr().out.split())
    assert main(["store", "inspect", "--json", str(path)]) == 0
    assert {"notes,", "breakfast_fv,", "3"} <= set(json.loads(capsys.readouterr().out)["simulated"].split())
    assert overview(open_store(write_store(tmp_path / "real"))).simulated is None


def test_the_same_options_give_the_same_bytes_and_another_seed_gives_others(tmp_path: Path) -> None:
    source = read_source(write_annotations(tmp_path / "notes"))
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_simulated(tmp_path / name, source, SMALL, preset="breakfast_fv", seed=seed)
    a, b, c = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "abc")
    assert a == b
    assert a["features-00000.parquet"] != c["features-00000.parquet"]


def test_a_subset_is_nested_and_has_the_features_of_the_whole(tmp_path: Path) -> None:
    source = read_source(write_annotations(tmp_path / "notes", n=30))
    stores = []
    for name, selection in (
        ("whole", Selection()),
        ("ten", Selection(videos=10, split="1")),
        ("four", Selection(videos=4)),
        ("short", Selection(videos=4, longest=80)),
    ):
        write_simulated(tmp_path / name, source, SMALL, preset="clear", seed=5, selection=selection)
        stores.append(open_store(tmp_path / name))
    whole, ten, four, short = stores
    assert [len(store) for store in stores] == [30, 15, 6, len(short)]
    assert [len(store.split("1", part)) for store in (ten, four) for part in ("train", "test")] == [10, 5, 4, 2]
    assert set(four.ids) < set(ten.ids) < set(whole.ids)
    assert ten.manifest.splits == four.manifest.splits == ("1",)
    assert whole.manifest.splits == ("1", "2")
    for store in (ten, four, short):
        assert all(store.record(id).sha256 == whole.record(id).sha256 for id in store.ids)
    assert max(short.catalogue.frames) <= 80 < max(whole.catalogue.frames)
    assert len(short.split("1", "train")) == 4


@given(st.sets(st.text("abcxyz", min_size=1), min_size=1), st.integers(0, 20), st.integers(0, 3))
def test_the_first_ids_drawn_from_few_are_drawn_first_from_more(ids: set[str], n: int, seed: int) -> None:
    few = sorted(ids)[::2]
    drawn = drawn_first(few, n, seed)
    assert len(drawn) == min(n, len(few))
    assert set(drawn) <= set(drawn_first(few, n + 1, seed))
    assert set(drawn_first(sorted(ids), n, seed)) & set(few) <= set(drawn)


def test_a_store_can_be_the_source_and_gives_all_but_its_features(tmp_path: Path) -> None:
    real = write_store(tmp_path / "real", n_train=4, n_test=2)
    with StoreWriter(tmp_path / "timed", dim=2, dtype="float32", vocabulary=("a", "b"), fps=15.0, stride=0.5) as writer:
        writer.add("v", np.zeros((7, 2)), transcript=(1, 0, 0), lengths=(2, 4, 1), splits=("x:val",), group="P1")
    for path in (real, tmp_path / "timed"):
        source = read_source(path)
        write_simulated(tmp_path / f"{path.name} simulated", source, SMALL, preset="clear")
        store, made = open_store(path), open_store(tmp_path / f"{path.name} simulated")
        assert made.manifest.dim == 6
        for name in ("vocabulary", "background", "fps", "window", "stride", "offset", "splits"):
            assert getattr(made.manifest, name) == getattr(store.manifest, name)
        for name in ("id", "frames", "transcript", "lengths", "splits", "group", "activity"):
            assert made.catalogue.column(name) == store.catalogue.column(name)
        assert made.manifest.metadata["simulated"]["kind"] == "store"
    with refused("conflict", "--background", ["rest"], n=1):
        read_source(real, ["rest"])


def test_a_store_without_lengths_cannot_be_the_source(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "weak", dim=2, dtype="float32", vocabulary=("a", "b")) as writer:
        writer.add("v", np.zeros((7, 2)), transcript=(1, 0), lengths=None)
        writer.add("w", np.zeros((7, 2)), transcript=None, lengths=None)
    with refused("missing", n=2) as refusal:
        read_source(tmp_path / "weak")
    for problem, id, missing in zip(refusal.problems, "vw", ("lengths", "transcript"), strict=True):
        assert problem.place == f"{tmp_path / 'weak'}: {id}"
        assert f"no {missing}" in problem.message


@pytest.mark.parametrize(
    ("selection", "rule", "place", "value", "expected"),
    [
        (Selection(videos=9), "range", "--videos", 9, "8"),
        (Selection(split="7"), "unknown", "--split", "7", "1, 2"),
        (Selection(longest=3), "range", "--longest", 3, "shortest"),
    ],
)
def test_a_selection_that_the_source_cannot_satisfy_is_refused(
    tmp_path: Path, selection: Selection, rule: str, place: str, value: object, expected: str
) -> None:
    source = read_source(write_annotations(tmp_path / "notes"))
    with refused(rule, place, value, n=1) as refusal:
        selected(source, selection, seed=1)
    assert expected in str(refusal.problems[0])


def test_numbers_of_a_selection_below_one_are_refused() -> None:
    with refused("range", "--videos", 0, n=2) as refusal:
        Selection(videos=0, longest=-1)
    assert (refusal.places[1], refusal.values[1]) == ("--longest", -1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--videos", "9"], ["--videos", "9"]),
        (["--videos", "0"], ["--videos", "0"]),
        (["--split", "7"], ["--split", "'7'"]),
        (["--longest", "3"], ["--longest", "3"]),
        (["--set", "blur"], ["--set", "'blur'"]),
        (["--preset", "cleer"], ["'cleer'", "'clear'"]),
        (["--background", "sil"], ["background", "'sil'"]),
        (["--seed", "-1"], ["seed", "-1"]),
        (["--recipes", "3"], ["--recipes", "--like"]),
    ],
)
def test_a_wrong_option_gets_one_line_and_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: list[str]
) -> None:
    folder = write_annotations(tmp_path / "notes")
    assert main(["store", "synthesize", str(tmp_path / "store"), "--like", str(folder), *options]) == 2
    error = capsys.readouterr().err
    assert [word for word in words if word not in error] == []
    assert error.count("\n") == 1
    assert not (tmp_path / "store").exists()


def test_options_for_real_annotations_require_a_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "synthesize", str(tmp_path / "store"), "--preset", "clear", "--longest", "5"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert ["--preset" in lines[0], "--longest" in lines[1], *("--like" in line for line in lines)] == [True] * 4
