"""Import of splits, and the names by which files refer to videos."""

import pytest

from storage.inspection.splits import shared_groups
from tests.storage.helpers import DataSet
from tests.storage.layouts.helpers import contains, facts, facts_of, imported, noted, problems_of


@pytest.mark.parametrize("form", ["{}", "{}.txt", "{}.npy", "groundTruth/{}.txt", "./{}.txt", "a\\b\\{}.TXT"])
def test_split_files_may_name_videos_in_many_ways(tmp_path, form):
    data = DataSet.example()
    data.splits = {
        "train.split1.bundle": [form.format("v000"), form.format("v001")],
        "test.split1.bundle": [form.format("v002")],
    }
    store, notes = imported(data, tmp_path)
    assert store.split("1", "train") == ("v000", "v001")
    assert noted(notes, "no split", "(1): v003")


def test_names_with_dots_are_kept_whole(tmp_path):
    data = DataSet.example((20, 30))
    data.features = {f"P03.cam.{i}": features for i, features in enumerate(data.features.values())}
    data.labels = {f"P03.cam.{i}": labels for i, labels in enumerate(data.labels.values())}
    data.splits = {"train.split1.bundle": ["P03.cam.0"], "test.split1.bundle": ["P03.cam.1.txt"]}
    store, _ = imported(data, tmp_path)
    assert store.ids == ("P03.cam.0", "P03.cam.1")
    assert store.split("1", "test") == ("P03.cam.1",)


def nested(**splits: list[str]) -> DataSet:
    """Two videos of the same name in two folders."""
    flat = DataSet.example((20, 30))
    return DataSet(
        features={"P03/cam1": flat.features["v000"], "P04/cam1": flat.features["v001"]},
        labels={"P03/cam1": flat.labels["v000"], "P04/cam1": flat.labels["v001"]},
        splits={f"{part}.split1.bundle": names for part, names in splits.items()},
    )


def test_nested_folders_are_searched_and_are_part_of_the_names(tmp_path):
    data = nested(train=["P03/cam1.txt"], test=["x/P04/cam1"])
    store, _ = imported(data, tmp_path, group_regex=r"^P\d+", activity_regex=r"(cam)\d")
    assert contains(store, data)
    assert store.split("1", "test") == ("P04/cam1",)
    assert [store.record(video).group for video in store.ids] == ["P03", "P04"]
    assert store.record("P03/cam1").activity == "cam"


def test_labels_in_a_flat_folder_belong_to_features_in_nested_ones(tmp_path):
    flat = DataSet.example((20, 30))
    data = DataSet(
        features={"a/v000": flat.features["v000"], "b/v001": flat.features["v001"]},
        labels=flat.labels,
        splits={"train.split1.bundle": ["v000"], "test.split1.bundle": ["v001"]},
    )
    store, notes = imported(data, tmp_path)
    assert noted(notes, "labels: ", "v000 -> a/v000, v001 -> b/v001")
    assert noted(notes, "train.split1.bundle: ", "v000 -> a/v000")
    assert store.ids == ("a/v000", "b/v001")
    assert store.split("1", "train") == ("a/v000",)


def test_hidden_and_other_files_are_ignored(tmp_path):
    source = DataSet.example().write(tmp_path / "src")
    (source / "features" / "._v000.npy").write_bytes(b"\0\5")
    (source / "features" / "README.md").write_text("x")
    (source / "groundTruth" / ".DS_Store").write_bytes(b"\0")
    (source / "splits" / "notes.txt").write_text("x")
    assert len(imported(source, tmp_path)[0]) == 4


def test_splits_that_overlap_or_name_unknown_videos_are_refused(tmp_path):
    data = DataSet.example()
    data.splits["train.split1.bundle"] += ["v003.txt", "v999.txt"]
    data.splits["train.split2.bundle"] = ["nothing"]
    assert facts_of(data, tmp_path) == [
        ("unknown", "splits/train.split1.bundle", ["v999.txt"]),
        ("unknown", "splits/train.split2.bundle", ["nothing"]),
        ("conflict", "1:test, 1:train", ["v003"]),
    ]


def test_an_ambiguous_name_in_a_split_is_refused(tmp_path):
    (problem,) = problems_of(nested(train=["cam1"]), tmp_path)
    assert facts([problem], tmp_path) == [("conflict", "splits/train.split1.bundle", "cam1")]
    assert "P03/cam1, P04/cam1" in problem.message


def test_suspicious_splits_are_noted(tmp_path):
    data = DataSet.example()
    data.splits = {"train.split1.bundle": ["v000", "v000.txt", "v001"], "test.split1.bundle": ["v002"]}
    data.splits["train.split3.bundle"] = []
    _, notes = imported(data, tmp_path, background=("SIL",))
    assert noted(notes, "train.split1.bundle", "duplicate", ": v000")
    assert noted(notes, "train.split3.bundle", "no video")
    assert noted(notes, "split 3", "3:train")
    assert noted(notes, "no split", "(1): v003")
    assert len(notes) == 4


def test_a_dataset_without_split_files_gives_a_store_without_splits(tmp_path):
    data = DataSet.example()
    data.splits = {}
    store, notes = imported(data, tmp_path)
    assert store.manifest.splits == ()
    assert "no splits" in notes[-1]
    assert "not read" not in notes[-1]
    (tmp_path / "src" / "splits").mkdir()
    (tmp_path / "src" / "train.split1.bundle").write_text("v000")
    (tmp_path / "src" / "split").mkdir()
    assert noted(
        imported(tmp_path / "src", tmp_path / "again")[1], "no splits", "split, train.split1.bundle", "not read"
    )


@pytest.mark.parametrize(
    "names",
    [
        ["ego_train_annotations.bundle"],
        ["train_split1.bundle", "test_split1.bundle"],
        ["split1.train"],
        ["Split_1/train.txt"],
        ["train.split1.txt"],
        ["left_hand/train.split1.bundle"],
        ["README.md"],
    ],
)
def test_split_files_in_another_form_are_refused_if_no_file_is_understood(tmp_path, names):
    data = DataSet.example()
    data.splits = {name: ["v000"] for name in names}
    (problem,) = problems_of(data, tmp_path)
    assert facts([problem], tmp_path) == [("unknown", "splits", sorted(names))]
    assert "PART.splitK.bundle" in problem.message
    assert names[0] in problem.message


def test_split_files_in_another_form_are_noted_if_others_are_understood(tmp_path):
    data = DataSet.example()
    data.splits |= {"train_split2.bundle": ["v000"], "train.bundle": ["v000"]}
    store, notes = imported(data, tmp_path)
    assert store.manifest.splits == ("1",)
    assert noted(notes, "(2)", "train.bundle", "train_split2.bundle", "PART.splitK.bundle")


def test_the_files_of_a_single_split_need_no_number(tmp_path):
    data = DataSet.example()
    data.splits = {"train.bundle": ["v000", "v001"], "test.bundle": ["v002", "v003"]}
    store, notes = imported(data, tmp_path)
    assert store.split("1", "test") == ("v002", "v003")
    assert noted(notes, "train.bundle", "split 1")


def test_two_files_of_one_part_are_refused(tmp_path):
    data = DataSet.example()
    data.splits = {"Train.split1.bundle": ["v000"], "train.split1.bundle": ["v001"], "test.split1.bundle": ["v002"]}
    assert facts_of(data, tmp_path) == [("duplicate", "splits/train.split1.bundle", "1:train")]


def test_groups_in_several_parts_of_a_split_are_shown(tmp_path):
    data = DataSet.example()
    data.splits["train.split2.bundle"] = ["v000", "v001"]
    data.splits["test.split2.bundle"] = ["v003"]
    data.splits["train.split3.bundle"] = ["v003"]
    store, _ = imported(data, tmp_path, group_regex=r"v00([01]|.$)")
    assert [shared_groups(store, split) for split in "123"] == [()] * 3
    source = data.write(tmp_path / "other" / "src")
    store, _ = imported(source, tmp_path / "other", group_regex="v0")
    assert [shared_groups(store, split) for split in "123"] == [("v0",), ("v0",), ()]
