"""Import of feature files: orientation, dtypes, and invalid files."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from storage.verify import verify_store
from tests.helpers.refusals import matching
from tests.storage.helpers import DataSet
from tests.storage.layouts.helpers import contains, facts, facts_of, imported, noted, problems_of


@pytest.mark.parametrize("transposed", [False, True])
def test_both_orientations_are_read_and_the_transposed_one_is_noted(tmp_path, transposed):
    data = DataSet.example()
    data.transposed = transposed
    store, notes = imported(data, tmp_path, background=("SIL",))
    assert contains(store, data)
    assert len(notes) == transposed
    assert noted(notes, "transposed", "[D T]") == transposed
    assert store.manifest.metadata["orientation"] == ("DxT" if transposed else "TxD")
    assert store.manifest.vocabulary == ("SIL", "pour", "stir")
    assert store.manifest.background == ("SIL",)
    assert store.split("1", "train") == ("v000", "v001")
    assert store.split("1", "test") == ("v002", "v003")
    assert verify_store(store.path).problems == ()


def test_the_facts_about_an_import_that_the_store_keeps(tmp_path):
    """A new option must not change them where it is not used: the checksum of the manifest would change."""
    facts_kept = {"layout": "ms-tcn", "orientation": "TxD", "length_policy": "error", "length_tolerance": 0}
    assert imported(DataSet.example(), tmp_path)[0].manifest.metadata == facts_kept


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lengths", [(300,), (300, 300, 300), (2, 5)], ids=str)
def test_the_orientation_is_inferred_from_labels_if_the_shapes_do_not_decide(tmp_path, transposed, lengths):
    data = DataSet.example(lengths)
    data.splits = {}
    data.transposed = transposed
    assert contains(imported(data, tmp_path)[0], data)


def test_the_orientation_is_inferred_from_shapes_even_if_the_number_of_labels_is_misleading(tmp_path):
    data = DataSet.example((30, 41, 25, 52), dim=110)
    data.labels = {video: [name for name in names for _ in range(3)] for video, names in data.labels.items()}
    store, notes = imported(data, tmp_path, length_policy="resample")
    assert store.manifest.dim == 110
    assert store.record("v001").lengths == (10, 10, 10, 11)
    assert noted(notes, "v003: 52 ", "156 labels", "resampled", "1 more")


def sampled(lengths, dim, rate) -> DataSet:
    """Videos with `rate` labels per frame."""
    data = DataSet.example(lengths, dim)
    data.labels = {
        video: [names[int(n / rate)] for n in range(int(len(names) * rate))] for video, names in data.labels.items()
    }
    return data


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("lengths", "dim", "rate"),
    [((16,) * 4, 32, 2), ((500,), 1024, 2), ((500,), 1000, 2), ((30, 30), 60, 1), ((64,), 128, 1), ((90, 90), 7, 0.5)],
)
def test_an_orientation_that_another_frame_rate_would_explain_is_asked(tmp_path, lengths, dim, rate, transposed):
    data = sampled(lengths, dim, rate)
    data.transposed = transposed
    assert facts_of(data, tmp_path, length_policy="resample") == [("missing", "--orientation", None)]
    orientation = "DxT" if transposed else "TxD"
    store, _ = imported(tmp_path / "src", tmp_path, length_policy="resample", orientation=orientation)
    assert (store.manifest.dim, store.record("v000").frames) == (dim, lengths[0])


@pytest.mark.parametrize("transposed", [False, True])
def test_one_file_with_another_number_of_features_is_named_alone(tmp_path, transposed):
    data = DataSet.example([24] * 4, dim=8)
    data.transposed = transposed
    data.features["v001"] = data.features["v001"][:, :7]
    shape = [7, 24] if transposed else [24, 7]
    assert facts_of(data, tmp_path) == [("shape", "features/v001.npy", shape)]


def test_without_labels_videos_of_one_length_leave_the_orientation_open(tmp_path):
    data = DataSet.example([24] * 4, dim=8)
    data.features["v001"] = data.features["v001"][:, :7]
    data.labels = {}
    source = data.write(tmp_path / "src")
    (source / "transcripts.csv").write_text("video,transcript\n" + "".join(f"v00{i},SIL pour\n" for i in range(4)))
    assert facts_of(source, tmp_path) == [("missing", "--orientation", None)]


@pytest.mark.parametrize("transposed", [False, True])
def test_one_constant_axis_and_one_of_several_lengths_decide_without_labels(tmp_path, transposed):
    data = DataSet.example((30, 30, 30, 25, 52))
    data.labels = {}
    data.transposed = transposed
    source = data.write(tmp_path / "src")
    (source / "transcripts.csv").write_text("video,transcript\n" + "".join(f"v00{i},SIL pour\n" for i in range(5)))
    assert imported(source, tmp_path)[0].manifest.dim == 6


def test_a_file_of_another_shape_is_named_beside_the_question_about_the_orientation(tmp_path):
    data = DataSet.example([24] * 4, dim=8)
    data.features["v001"] = data.features["v001"][None]
    assert facts_of(data, tmp_path) == [("missing", "--orientation", None), ("shape", "v001", [1, 24, 8])]


def test_square_features_are_ambiguous_until_the_orientation_is_chosen(tmp_path):
    data = DataSet.example((6,), dim=6)
    data.splits = {}
    data.transposed = True
    (problem,) = problems_of(data, tmp_path)
    assert (problem.rule, problem.place) == ("missing", "--orientation")
    assert "v000 [6, 6]" in problem.message
    store, _ = imported(tmp_path / "src", tmp_path, orientation="DxT")
    assert contains(store, data)


def test_files_that_differ_from_the_others_are_reported_and_never_transposed_silently(tmp_path):
    data = DataSet.example((30, 41, 25, 52))
    data.features["v001"] = data.features["v001"].T
    data.features["v003"] = data.features["v003"][:, :5]
    first, second = problems = problems_of(data, tmp_path)
    assert facts(problems, tmp_path) == [
        ("shape", "features/v001.npy", [6, 41]),
        ("shape", "features/v003.npy", [52, 5]),
    ]
    assert "[T, 6]" in first.message
    assert "transposed" in first.hint
    assert "[T, 6]" in second.message
    assert not second.hint


def test_equally_many_files_of_both_orientations_are_refused(tmp_path):
    data = DataSet.example((30, 41))
    data.features["v001"] = data.features["v001"].T
    assert ("missing", "--orientation", None) in facts_of(data, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.astype(np.float64),
        lambda a: a.astype(">f4"),
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a.astype(np.float16),
        lambda a: a.astype(">f2"),
    ],
    ids=["float64", "big-endian", "Fortran", "non-contiguous", "float16", "big-endian float16"],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_any_float_dtype_and_memory_order_keeps_its_values_and_dtype(tmp_path, change, transposed):
    data = DataSet.example()
    data.transposed = transposed
    data.features = {video: change(features) for video, features in data.features.items()}
    store, _ = imported(data, tmp_path)
    assert contains(store, data)
    assert store.manifest.dtype == next(iter(data.features.values())).dtype.newbyteorder("=").name


def test_files_of_different_dtypes_become_the_widest(tmp_path):
    data = DataSet.example()
    data.features["v001"] = data.features["v001"].astype(np.float64)
    data.features["v002"] = data.features["v002"].astype(np.float16)
    store, _ = imported(data, tmp_path)
    assert store.manifest.dtype == "float64"
    assert contains(store, data)


def test_integers_are_refused_until_a_dtype_is_chosen(tmp_path):
    data = DataSet.example()
    data.features = {video: (10 * features).astype(np.int16) for video, features in data.features.items()}
    (problem,) = problems_of(data, tmp_path)
    assert (problem.rule, problem.place, problem.value) == ("unsupported", "v000", "int16")
    assert "--dtype" in problem.hint
    store, _ = imported(tmp_path / "src", tmp_path, dtype="float16")
    assert contains(store, data)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


@pytest.fixture
def bomb(tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    yield Bomb()
    assert not (tmp_path / "exploded").exists()


def test_pickles_and_arrays_of_objects_are_refused_and_never_loaded(tmp_path, bomb):
    source = DataSet.example().write(tmp_path / "src")
    np.save(source / "features" / "v000.npy", np.array([[bomb]], dtype=object), allow_pickle=True)
    (source / "features" / "v001.npy").write_bytes(pickle.dumps(bomb))
    np.save(source / "features" / "v002.npy", np.array([[bomb] * 100] * 100, dtype=object), allow_pickle=True)
    problems = problems_of(source, tmp_path)
    assert facts(problems, tmp_path) == [
        ("type", "features/v000.npy", "object"),
        ("type", "features/v001.npy", pickle.dumps(bomb)[:6]),
        ("type", "features/v002.npy", "object"),
    ]
    assert "pickles" in problems[1].hint


def test_damaged_files_are_reported_together(tmp_path):
    data = DataSet.example((300, 410, 250, 520), dim=16)
    source = data.write(tmp_path / "src")
    folder = source / "features"
    os.truncate(folder / "v000.npy", 5000)
    os.truncate(folder / "v001.npy", 40)
    (folder / "v002.npy").write_bytes(b"")
    with (folder / "v003.npy").open("wb") as file:
        np.savez(file, a=data.features["v003"])
    problems = problems_of(source, tmp_path)
    assert [problem.rule for problem in problems] == ["unreadable", "unreadable", "type", "type"]
    assert [problem.place for problem in problems] == [str(folder / f"v00{i}.npy") for i in range(4)]
    assert all("truncated" in problem.message for problem in problems[:2])
    assert problems[2].value == b""
    assert problems[3].value.startswith(b"PK")


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b"PK\x03\x04rest", "zip"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:12", "Git LFS"),
        (b"\x89HDF\r\n\x1a\nrest", "HDF5"),
        (b"MATLAB 5.0 MAT-file", "MATLAB"),
        (b"\x80\x04\x95", "pickle"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"<!DOCTYPE html>", "web page"),
        (b"0.1 0.2\n0.3 0.4\n", "text"),
        (b"", "empty"),
        (bytes(500), "zero"),
        (b"\xfe\xed", "begins with"),
    ],
)
def test_other_files_are_called_what_they_are(tmp_path, begin, kind):
    source = DataSet.example().write(tmp_path / "src")
    (source / "features" / "v001.npy").write_bytes(begin)
    (problem,) = problems_of(source, tmp_path)
    assert facts([problem], tmp_path) == [("type", "features/v001.npy", begin[:6])]
    assert kind in problem.message
    assert ("copy it again" in problem.hint) == (kind in ("empty", "zero"))


def test_values_that_no_dtype_can_represent_are_refused_by_their_type(tmp_path):
    data = DataSet.example()
    data.features["v001"] = data.features["v001"].astype(np.complex64)
    assert facts_of(data, tmp_path) == [("type", "v001", "complex64")]


def test_a_flood_of_problems_of_one_kind_is_one_line(tmp_path):
    data = DataSet.example([30, 41, 25, 52] * 10)
    for features in data.features.values():
        features[3] = np.nan
    data.labels = {video: [*names, "SIL"] for video, names in data.labels.items()}
    first, second = problems = problems_of(data, tmp_path)
    assert facts(problems, tmp_path) == [("mismatch", "v000", 31), ("range", "v000, row 3", 1)]
    for problem in (first, second):
        assert "39 more: v001" in problem.message
        assert "v002" in problem.message
        assert "v003" not in problem.message


@pytest.mark.parametrize("shape", [(5,), (1, 30, 6), (), (0, 6)])
def test_arrays_of_another_shape_are_reported(tmp_path, shape):
    data = DataSet.example()
    data.features["v000"] = np.zeros(shape, np.float32)
    problems = problems_of(data, tmp_path)
    assert matching(problems, "shape", "v000", list(shape))
    assert {problem.place for problem in problems} == {"v000"}


def test_rows_with_nan_or_infinity_are_reported(tmp_path):
    data = DataSet.example()
    data.features["v001"][3:5, 2] = np.nan
    data.features["v002"][0, 0] = np.inf
    assert facts_of(data, tmp_path) == [("range", "v001, rows 3-4", 2), ("range", "v002, row 0", 1)]


def test_values_that_float16_cannot_represent_are_refused_only_if_it_is_chosen(tmp_path):
    data = DataSet.example()
    data.features["v001"][7, 2] = 70000
    assert facts_of(data, tmp_path, dtype="float16") == [("range", "v001, row 7", 70000)]
    assert contains(imported(tmp_path / "src", tmp_path)[0], data)


def test_values_that_float32_cannot_hold_are_refused(tmp_path):
    data = DataSet.example(dtype="float64")
    data.features["v001"][7, 2] = 1e39
    assert facts_of(data, tmp_path) == [("range", "v001, row 7", 1e39)]


def test_an_empty_features_folder_is_reported(tmp_path):
    source = DataSet.example().write(tmp_path / "src")
    for file in (source / "features").iterdir():
        file.unlink()
    problems = problems_of(source, tmp_path)
    assert matching(problems, "missing", str(source / "features"), None)
    (source / "features" / "v000.avi").write_bytes(b"")
    assert ("missing", "features", "1 .avi") in facts_of(source, tmp_path)
    assert any("(not read in features: 1 .avi)" in problem.message for problem in problems_of(source, tmp_path))
    assert matching(problems, "missing", str(source / "features"), ["v000", "v001", "v002", "v003"])


def test_more_videos_than_a_process_may_open_files_are_imported(tmp_path):
    import resource

    data = DataSet.example([300] * 120, dim=8)
    source = data.write(tmp_path / "src")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n_open = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (n_open + 40, hard))
    try:
        store, _ = imported(source, tmp_path)
        assert contains(store, data)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
