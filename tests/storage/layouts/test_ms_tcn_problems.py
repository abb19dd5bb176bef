"""Problems of a whole import: options, missing folders, and problems of several kinds at once."""

import os

import numpy as np
import pytest

from storage import StoreError
from storage.layouts.ms_tcn import MsTcn
from tests.helpers.refusals import refused
from tests.storage.helpers import DataSet, files_of, write_store
from tests.storage.layouts.helpers import facts_of, imported, problems_of


def test_videos_that_a_regular_expression_does_not_match_are_reported(tmp_path):
    (problem,) = problems_of(DataSet.example(), tmp_path, group_regex=r"v00[012]")
    assert (problem.rule, problem.place, problem.value) == ("mismatch", "--group-regex", ["v003"])
    assert "v00[012]" in problem.message
    (problem,) = problems_of(tmp_path / "src", tmp_path, activity_regex="(")
    assert (problem.rule, problem.place, problem.value) == ("type", "--activity-regex", "(")


@pytest.mark.parametrize("missing", ["features", "groundTruth"])
def test_a_missing_folder_is_reported(tmp_path, missing):
    source = DataSet.example().write(tmp_path / "src")
    (source / missing).rename(source / "elsewhere")
    (problem,) = problems_of(source, tmp_path)
    assert (problem.rule, problem.place) == ("missing", str(source / missing))
    assert "features/" in problem.hint
    assert "groundTruth/" in problem.hint


def test_a_missing_source_is_reported(tmp_path):
    (tmp_path / "src").mkdir()
    with refused("missing", place=str(tmp_path / "nowhere"), n=1, error=StoreError):
        imported(tmp_path / "nowhere", tmp_path)
    assert facts_of(tmp_path / "src", tmp_path) == [("missing", "features", None), ("missing", "groundTruth", None)]


def test_problems_of_every_kind_are_reported_together(tmp_path):
    data = DataSet.example((30, 41, 25, 52, 33, 44))
    data.features["v000"][0, 0] = np.nan
    data.features["v001"] = data.features["v001"][:, :4]
    data.labels["v002"] = data.labels["v002"][:-1]
    data.labels["v003"][0] = "pur"
    data.splits["train.split1.bundle"].append("gone")
    source = data.write(tmp_path / "src")
    os.truncate(source / "features" / "v004.npy", 300)
    assert facts_of(source, tmp_path, background=("none",)) == [
        ("unreadable", "features/v004.npy", None),
        ("unknown", "groundTruth/v003.txt:1", "pur"),
        ("unknown", "background", "none"),
        ("shape", "features/v001.npy", [41, 4]),
        ("mismatch", "v002", 24),
        ("range", "v000, row 0", 1),
        ("unknown", "splits/train.split1.bundle", ["gone"]),
    ]


def test_one_wrong_label_among_many_is_reported_before_anything_is_written(tmp_path):
    data = DataSet.example([12, 13] * 100, dim=2)
    data.labels["v150"][5] = "oops"
    assert facts_of(data, tmp_path) == [("unknown", "groundTruth/v150.txt:6", "oops")]


def test_an_existing_store_is_refused_before_the_dataset_is_read(tmp_path):
    before = files_of(write_store(tmp_path / "store", DataSet.example().features))
    with refused("exists", place=str(tmp_path / "store"), n=1, error=StoreError):
        imported(tmp_path / "nowhere", tmp_path)
    assert files_of(tmp_path / "store") == before


@pytest.mark.parametrize("change", [lambda a: a[:-3], lambda a: np.vstack([a, a]), lambda a: a[:, :-1]])
@pytest.mark.parametrize("values", [True, False])
def test_a_file_that_changes_during_the_import_is_named(tmp_path, change, values):
    data = DataSet.example()
    dataset = MsTcn(data.write(tmp_path / "src"))
    dataset.survey(values=values)
    path = tmp_path / "src" / "features" / "v002.npy"
    features = change(data.features["v002"])
    np.save(path, features)
    with refused("state", place=str(path), value=list(features.shape), n=1, error=StoreError):
        list(dataset.clips())


def test_invalid_options_are_reported_first(tmp_path):
    source = DataSet.example().write(tmp_path / "src")
    (source / "mapping.txt").write_text("x")
    assert facts_of(source, tmp_path, dtype="int8", length_tolerance=-1) == [
        ("unknown", "--dtype", "int8"),
        ("range", "--length-tolerance", -1),
    ]


def test_names_with_invisible_characters_are_refused_by_their_file(tmp_path):
    data = DataSet.example((30, 41))
    data.splits, data.mapping = {}, None
    data.labels["v001"][5:9] = ["st\x1bir"] * 4
    data.features["a\nb"], data.labels["a\nb"] = data.features.pop("v000"), data.labels.pop("v000")
    assert facts_of(data, tmp_path) == [
        ("range", "groundTruth/v001.txt:6", "st\x1bir"),
        ("range", "features/a\nb.npy", "a\nb"),
    ]
