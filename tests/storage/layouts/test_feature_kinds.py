"""Import of datasets whose features are in other files than `.npy`."""

import numpy as np
import pytest

from storage.feature_files import PICKLES
from tests.storage.feature_files.test_files import write
from tests.storage.helpers import DataSet
from tests.storage.layouts.helpers import contains, facts_of, imported, noted


def with_features(folder, write_one):
    """Writes a dataset, and its features by a function of the path without suffix and the array."""
    data = DataSet.example()
    source = data.write(folder / "src")
    for path in sorted((source / "features").iterdir()):
        array = np.load(path)
        path.unlink()
        write_one(path.with_suffix(""), array)
    return data, source


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".csv", ".h5", ".mat"])
def test_every_kind_is_imported(tmp_path, suffix):
    data, source = with_features(tmp_path, lambda path, array: write(path.with_suffix(suffix), x=array))
    store, _ = imported(source, tmp_path)
    assert contains(store, data)
    assert store.manifest.dtype == ("float64" if suffix == ".csv" else "float32")


def test_mixed_kinds_are_imported_with_a_note(tmp_path):
    suffixes = iter((".npy", ".csv", ".npy", ".h5"))
    data, source = with_features(tmp_path, lambda path, array: write(path.with_suffix(next(suffixes)), x=array))
    store, notes = imported(source, tmp_path)
    assert contains(store, data)
    assert noted(notes, "several kinds", "2 .npy", "1 .csv", "1 .h5")


def test_two_kinds_of_one_video_are_a_problem(tmp_path):
    source = DataSet.example().write(tmp_path / "src")
    write(source / "features" / "v001.npz", x=np.zeros((3, 6)))
    assert facts_of(source, tmp_path) == [("duplicate", "features/v001.npz", "v001")]


def test_one_of_several_arrays_is_chosen_for_all_videos(tmp_path):
    data, source = with_features(
        tmp_path, lambda path, array: write(path.with_suffix(".npz"), rgb=array, flow=array[:, :2])
    )
    assert facts_of(source, tmp_path) == [("missing", "features/v000.npz", ["rgb", "flow"])]
    store, _ = imported(source, tmp_path, key="rgb")
    assert contains(store, data)
    assert store.manifest.metadata["key"] == "rgb"


def test_damage_behind_a_good_header_is_reported_with_all_other_problems(tmp_path):
    _, source = with_features(tmp_path, lambda path, array: write(path.with_suffix(".npz"), x=array))
    for video in ("v001", "v002"):
        path = source / "features" / f"{video}.npz"
        content = bytearray(path.read_bytes())
        content[300] ^= 1
        path.write_bytes(content)
    (source / "splits" / "test.split1.bundle").write_text("gone\n")
    assert [fact[:2] for fact in facts_of(source, tmp_path)] == [
        ("unreadable", "features/v001.npz"),
        ("unreadable", "features/v002.npz"),
        ("unknown", "splits/test.split1.bundle"),
    ]


def test_damage_that_the_import_meets_is_reported_with_that_in_later_files(tmp_path):
    def damaged(path, array):
        array[2, 0] = np.nan if path.stem == "v002" else 0
        write(path.with_suffix(".npz"), x=array)

    _, source = with_features(tmp_path, damaged)
    for video in ("v000", "v001"):
        path = source / "features" / f"{video}.npz"
        content = bytearray(path.read_bytes())
        content[300] ^= 1
        path.write_bytes(content)
    assert [fact[:2] for fact in facts_of(source, tmp_path)] == [
        ("unreadable", "features/v000.npz"),
        ("unreadable", "features/v001.npz"),
        ("range", "v002, row 2"),
    ]


def test_a_key_without_files_that_have_names_is_refused(tmp_path):
    assert facts_of(DataSet.example(), tmp_path, key="rgb") == [("conflict", "--key", "rgb")]


@pytest.mark.parametrize("suffix", PICKLES)
def test_a_pickle_among_the_features_is_refused(tmp_path, suffix):
    source = DataSet.example().write(tmp_path / "src")
    (source / "features" / "v001.npy").rename(source / "features" / f"v001{suffix}")
    assert facts_of(source, tmp_path) == [("type", f"features/v001{suffix}", suffix)]


def test_a_flood_of_bad_files_of_one_kind_is_one_problem(tmp_path):
    data = DataSet.example([30] * 10)
    source = data.write(tmp_path / "src")
    for path in (source / "features").iterdir():
        path.rename(path.with_suffix(".h5"))
    assert facts_of(source, tmp_path) == [("type", "features/v000.h5", b"\x93NUMPY")]


def test_a_video_may_be_named_like_a_file_of_another_kind(tmp_path):
    data = DataSet.example()
    for values in (data.features, data.labels):
        values["skeleton.csv"] = values.pop("v000")
    data.splits["train.split1.bundle"] = ["skeleton.csv", "v001"]
    store, notes = imported(data, tmp_path, background=("SIL",))
    assert contains(store, data)
    assert store.split("1", "train") == ("skeleton.csv", "v001")
    assert not notes
