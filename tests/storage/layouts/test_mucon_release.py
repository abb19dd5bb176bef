"""The release of the authors of MuCon: labels, transcripts and lengths that do not agree, and their files."""

import shutil

import numpy as np
import pytest

from storage.layouts import ImportOptions
from storage.layouts.mucon_release import MuConRelease
from tests.helpers.refusals import matching
from tests.storage.helpers import DataSet
from tests.storage.layouts.helpers import noted
from tests.storage.layouts.test_layouts import TestMuCon as Release

SUITE = Release()


@pytest.fixture
def source(tmp_path):
    return SUITE.write(DataSet.example(), tmp_path / "src")


def change(source, kind, video="v001", **items):
    """Changes numbers of an array by their index, such as `at3=0`."""
    path = source / kind / f"{video}.npy"
    array = np.load(path)
    for index, value in items.items():
        array[int(index.removeprefix("at"))] = value
    np.save(path, array)
    return path


@pytest.mark.parametrize(
    ("kind", "change_of", "rule", "place", "value"),
    [
        ("labels", {"at12": 0}, "mismatch", "labels/v001.npy[12]", 0),
        ("transcripts", {"at1": 2}, "mismatch", "labels/v001.npy[10]", 1),
        ("lengths", {"at1": 0}, "range", "lengths/v001.npy[1]", 0),
        ("lengths", {"at1": -4}, "range", "lengths/v001.npy[1]", -4),
        ("lengths", {"at1": 90}, "mismatch", "lengths/v001.npy", 121),
    ],
)
def test_labels_transcripts_and_lengths_must_agree(source, tmp_path, kind, change_of, rule, place, value):
    change(source, kind, **change_of)
    problems = SUITE.problems(source, tmp_path)
    assert len(problems) == 1
    assert matching(problems, rule, str(source / place), value)


def test_contradictions_of_several_videos_are_reported_together(source, tmp_path):
    np.save(source / "lengths" / "v000.npy", np.array([10, 20]))
    np.save(source / "lengths" / "v001.npy", np.array([4] * 4))
    (source / "lengths" / "v002.npy").unlink()
    change(source, "transcripts", "v002", at3=2)
    problems = SUITE.problems(source, tmp_path)
    assert [(problem.place.removeprefix(f"{source}/"), problem.value) for problem in problems] == [
        ("lengths/v000.npy", 2),
        ("lengths/v001.npy", 16),
        ("transcripts/v002.npy[3]", 2),
    ]


def test_a_transcript_of_another_length_than_the_labels_is_refused(source, tmp_path):
    shutil.rmtree(source / "lengths")
    np.save(source / "transcripts" / "v003.npy", np.array([0, 1]))
    problems = SUITE.problems(source, tmp_path)
    assert len(problems) == 1
    assert matching(problems, "mismatch", str(source / "transcripts" / "v003.npy"), 2)


def test_transcripts_among_the_labels_are_refused_with_the_folders_of_the_layout(source, tmp_path):
    shutil.rmtree(source / "labels")
    shutil.rmtree(source / "lengths")
    (source / "transcripts").rename(source / "labels")
    problems = SUITE.problems(source, tmp_path, length_policy="resample")
    assert len(problems) == 1
    assert matching(problems, "mismatch", "v000", 4)
    assert "labels/" in problems[0].hint


def test_lengths_need_a_transcript(source, tmp_path):
    (source / "transcripts" / "v001.npy").unlink()
    problems = SUITE.problems(source, tmp_path)
    assert len(problems) == 1
    assert matching(problems, "missing", str(source / "transcripts" / "v001.npy"))


@pytest.mark.parametrize("kept", [("labels",), ("transcripts",), ("transcripts", "lengths")])
def test_each_kind_of_annotation_is_enough(source, tmp_path, kept):
    for kind in {"labels", "transcripts", "lengths"} - set(kept):
        shutil.rmtree(source / kind)
    store, _ = SUITE.store(source, tmp_path / "store")
    assert {store.record(video).transcript for video in store.ids} == {(0, 1, 2, 0)}
    assert store.record("v000").lengths == (None if kept == ("transcripts",) else (7, 8, 7, 8))


@pytest.mark.parametrize("dtype", ["int32", "uint8", ">i8", "float32", "float64"])
def test_whole_numbers_of_every_dtype_are_read(source, tmp_path, dtype):
    for path in source.rglob("v*.npy"):
        if path.parent.name != "features":
            np.save(path, np.load(path).astype(dtype))
    assert SUITE.same(SUITE.store(source, tmp_path / "store")[0], DataSet.example(), tmp_path)


@pytest.mark.parametrize(
    ("array", "rule", "value"),
    [
        (np.array([0.5, 1.0]), "type", "float64"),
        (np.array([np.inf, 1.0]), "type", "float64"),
        (np.array([np.nan]), "type", "float64"),
        (np.array(["SIL"]), "type", "str96"),
        (np.zeros((4, 1), int), "shape", [4, 1]),
        (np.zeros(0, int), "shape", [0]),
        (np.array([{}]), "type", "object"),
    ],
    ids=["fractions", "inf", "nan", "names", "matrix", "empty", "object"],
)
def test_arrays_of_something_else_are_refused(source, tmp_path, array, rule, value):
    np.save(source / "transcripts" / "v001.npy", array, allow_pickle=True)
    problems = SUITE.problems(source, tmp_path)
    assert len(problems) == 1
    assert matching(problems, rule, str(source / "transcripts" / "v001.npy"), value)


def test_an_id_is_not_confused_with_a_name_that_is_a_number(tmp_path):
    data = DataSet.example()
    data.mapping = ["0 SIL", "1 pour", "2 stir", "3 99"]
    data.labels["v001"] = [name.replace("stir", "poor") for name in data.labels["v001"]]
    problems = SUITE.refused(data, tmp_path)
    assert len(problems) == 1
    assert matching(problems, "unknown", "labels/v001.npy[20]", "id 99")


def test_split_files_in_another_form_are_noted(source, tmp_path):
    (source / "train.txt").write_text("v000\n")
    assert noted(SUITE.store(source, tmp_path / "store")[1], "train.txt", "splitK.train")
    for path in source.glob("split1.*"):
        path.unlink()
    store, notes = SUITE.store(source, tmp_path / "again" / "store")
    assert store.manifest.splits == ()
    assert noted(notes, "no splits")


def test_missing_files_of_the_layout_are_named_if_it_is_chosen(source, tmp_path):
    (source / "mapping.txt").unlink()
    shutil.rmtree(source / "features")
    with pytest.raises(ValueError, match="features") as caught:
        MuConRelease(source, ImportOptions()).survey()
    assert [problem.place for problem in caught.value.problems] == [f"{source}/features", f"{source}/mapping.txt"]
