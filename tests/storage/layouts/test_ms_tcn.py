import os
import pickle
from itertools import groupby

import numpy as np
import pytest

from storage import StoreError, open_store
from storage.importing import import_data
from storage.layouts.ms_tcn import MsTcn, MsTcnOptions
from storage.verify import verify_store
from tests.storage.helpers import DataSet, files_of, write_store


def imported(data, folder, **options):
    source = data if isinstance(data, type(folder)) else data.write(folder / "src")
    result = import_data(MsTcn(source, MsTcnOptions(**options)), folder / "store")
    return open_store(folder / "store"), result.survey.notes


def problems_of(data, folder, **options):
    with pytest.raises(StoreError) as caught:
        imported(data, folder, **options)
    assert not (folder / "store").exists()
    assert [path.name for path in folder.iterdir()] == ["src"]
    assert all("\n" not in problem for problem in caught.value.problems)
    return caught.value.problems


def is_data(store, data) -> bool:
    for video, features in data.features.items():
        record = store.record(video)
        names = [store.manifest.vocabulary[action] for action in record.transcript]
        runs = [(name, len(list(run))) for name, run in groupby(data.labels[video])]
        assert list(zip(names, record.lengths, strict=True)) == runs
        assert np.array_equal(store.features(video), features)
    return store.ids == tuple(sorted(data.features))


@pytest.mark.parametrize("transposed", [False, True])
def test_both_orientations_are_read_and_the_transposed_one_is_told(tmp_path, transposed):
    data = DataSet.made()
    data.transposed = transposed
    store, notes = imported(data, tmp_path, background=("SIL",))
    assert is_data(store, data)
    assert notes == (("the features look transposed, [D T] in the files: read as [T D]",) if transposed else ())
    assert store.manifest.metadata["orientation"] == ("DxT" if transposed else "TxD")
    assert store.manifest.vocabulary == ("SIL", "pour", "stir")
    assert store.manifest.background == ("SIL",)
    assert store.split("1", "train") == ("v000", "v001")
    assert store.split("1", "test") == ("v002", "v003")
    assert verify_store(store.path).problems == ()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lengths", [(300,), (300, 300, 300), (3, 3), (2, 5)], ids=str)
def test_the_orientation_is_found_by_labels_where_the_shapes_do_not_tell(tmp_path, transposed, lengths):
    data = DataSet.made(lengths)
    data.splits = {}
    data.transposed = transposed
    assert is_data(imported(data, tmp_path)[0], data)


def test_the_orientation_is_found_by_shapes_where_the_number_of_labels_misleads(tmp_path):
    data = DataSet.made((30, 41, 25, 52), dim=110)
    data.labels = {video: [name for name in names for _ in range(3)] for video, names in data.labels.items()}
    store, notes = imported(data, tmp_path, length_policy="resample")
    assert store.manifest.dim == 110
    assert store.record("v001").lengths == (10, 10, 10, 11)
    assert sum("labels resampled" in note for note in notes) == 4


def test_square_features_are_ambiguous_until_the_orientation_is_said(tmp_path):
    data = DataSet.made((6,), dim=6)
    data.splits = {}
    data.transposed = True
    (problem,) = problems_of(data, tmp_path)
    assert "features are [T D] or [D T], here either could be (v000 [6, 6]): say which (--orientation" in problem
    store, _ = imported(tmp_path / "src", tmp_path, orientation="DxT")
    assert is_data(store, data)


def test_files_that_differ_from_the_others_are_named_and_never_turned_silently(tmp_path):
    data = DataSet.made((30, 41, 25, 52))
    data.features["v001"] = data.features["v001"].T
    data.features["v003"] = data.features["v003"][:, :5]
    first, second = problems_of(data, tmp_path)
    assert "v001 has shape [6, 41] where most have [T 6]; it looks transposed: make it like the others" in first
    assert "v003 has shape [52, 5] where most have [T 6]: make" in second


def test_files_of_both_orientations_in_equal_number_are_refused(tmp_path):
    data = DataSet.made((30, 41))
    data.features["v001"] = data.features["v001"].T
    assert "here either could be" in problems_of(data, tmp_path)[0]


@pytest.mark.parametrize(
    ("begin", "end", "after"),
    [
        ("", "\r\n", ""),
        ("\ufeff", "\n", ""),
        ("", " \t\n", ""),
        ("", "\n", "\n\n \n"),
        ("\ufeff", " \r\n", "\r\n"),
        ("", "\r", ""),
    ],
    ids=["CRLF", "byte order mark", "trailing blanks", "blank last lines", "all of it", "CR"],
)
def test_texts_of_any_editor_are_read_right(tmp_path, begin, end, after):
    data = DataSet.made()
    data.begin, data.end, data.after = begin, end, after
    store, _ = imported(data, tmp_path)
    assert is_data(store, data)
    assert len(store.split("1", "train")) == 2


def test_a_last_line_without_an_end_is_a_line(tmp_path):
    source = DataSet.made((30,)).write(tmp_path / "src")
    path = source / "groundTruth" / "v000.txt"
    path.write_text(path.read_text().rstrip("\n"))
    assert imported(source, tmp_path)[0].record("v000").frames == 30


@pytest.mark.parametrize("form", ["{}", "{}.txt", "{}.npy", "groundTruth/{}.txt", "./{}.txt", "a\\b\\{}.TXT"])
def test_split_files_may_name_videos_in_many_ways(tmp_path, form):
    data = DataSet.made()
    data.splits = {
        "train.split1.bundle": [form.format("v000"), form.format("v001")],
        "test.split1.bundle": [form.format("v002")],
    }
    store, notes = imported(data, tmp_path)
    assert store.split("1", "train") == ("v000", "v001")
    assert "1 videos stand in no split: v003" in notes


def test_ids_with_dots_are_kept_whole(tmp_path):
    data = DataSet.made((20, 30))
    data.features = {f"P03.cam.{i}": features for i, features in enumerate(data.features.values())}
    data.labels = {f"P03.cam.{i}": labels for i, labels in enumerate(data.labels.values())}
    data.splits = {"train.split1.bundle": ["P03.cam.0"], "test.split1.bundle": ["P03.cam.1.txt"]}
    store, _ = imported(data, tmp_path)
    assert store.ids == ("P03.cam.0", "P03.cam.1")
    assert store.split("1", "test") == ("P03.cam.1",)


def test_nested_folders_are_searched_and_make_the_ids(tmp_path):
    flat = DataSet.made((20, 30))
    data = DataSet(
        features={"P03/cam1": flat.features["v000"], "P04/cam1": flat.features["v001"]},
        labels={"P03/cam1": flat.labels["v000"], "P04/cam1": flat.labels["v001"]},
        splits={"train.split1.bundle": ["P03/cam1.txt"], "test.split1.bundle": ["x/P04/cam1"]},
    )
    store, _ = imported(data, tmp_path, group_regex=r"^P\d+", activity_regex=r"(cam)\d")
    assert is_data(store, data)
    assert store.split("1", "test") == ("P04/cam1",)
    assert [store.record(video).group for video in store.ids] == ["P03", "P04"]
    assert store.record("P03/cam1").activity == "cam"


def test_labels_of_a_flat_folder_belong_to_features_of_nested_ones(tmp_path):
    flat = DataSet.made((20, 30))
    data = DataSet(
        features={"a/v000": flat.features["v000"], "b/v001": flat.features["v001"]},
        labels=flat.labels,
        splits={"train.split1.bundle": ["v000"], "test.split1.bundle": ["v001"]},
    )
    store, _ = imported(data, tmp_path)
    assert store.ids == ("a/v000", "b/v001")
    assert store.split("1", "train") == ("a/v000",)


def test_hidden_and_other_files_are_no_videos(tmp_path):
    source = DataSet.made().write(tmp_path / "src")
    (source / "features" / "._v000.npy").write_bytes(b"\0\5")
    (source / "features" / "README.md").write_text("x")
    (source / "groundTruth" / ".DS_Store").write_bytes(b"\0")
    (source / "splits" / "notes.txt").write_text("x")
    assert len(imported(source, tmp_path)[0]) == 4


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
def test_any_float_and_memory_order_keeps_its_values_and_dtype(tmp_path, change, transposed):
    data = DataSet.made()
    data.transposed = transposed
    data.features = {video: change(features) for video, features in data.features.items()}
    store, _ = imported(data, tmp_path)
    assert is_data(store, data)
    assert store.manifest.dtype == next(iter(data.features.values())).dtype.newbyteorder("=").name


def test_files_of_different_dtypes_become_the_widest(tmp_path):
    data = DataSet.made()
    data.features["v001"] = data.features["v001"].astype(np.float64)
    data.features["v002"] = data.features["v002"].astype(np.float16)
    store, _ = imported(data, tmp_path)
    assert store.manifest.dtype == "float64"
    assert is_data(store, data)


def test_whole_numbers_are_refused_until_a_dtype_is_chosen(tmp_path):
    data = DataSet.made()
    data.features = {video: (10 * features).astype(np.int16) for video, features in data.features.items()}
    (problem,) = problems_of(data, tmp_path)
    assert "the data set has int16 (v000): choose one (--dtype)" in problem
    store, _ = imported(tmp_path / "src", tmp_path, dtype="float16")
    assert is_data(store, data)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


@pytest.fixture
def bomb(tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "went off"))
    yield Bomb()
    assert not (tmp_path / "went off").exists()


def test_pickles_and_arrays_of_objects_are_refused_and_never_loaded(tmp_path, bomb):
    source = DataSet.made().write(tmp_path / "src")
    np.save(source / "features" / "v000.npy", np.array([[bomb]], dtype=object), allow_pickle=True)
    (source / "features" / "v001.npy").write_bytes(pickle.dumps(bomb))
    np.save(source / "features" / "v002.npy", np.array([[bomb] * 100] * 100, dtype=object), allow_pickle=True)
    first, second, third = problems_of(source, tmp_path)
    assert "v000.npy holds Python objects, which are never unpickled" in first
    assert "v001.npy begins with b'\\x80" in second
    assert "pickles are not read" in second
    assert "v002.npy holds Python objects" in third


def test_damaged_files_are_named_together(tmp_path):
    data = DataSet.made((300, 410, 250, 520), dim=16)
    source = data.write(tmp_path / "src")
    folder = source / "features"
    os.truncate(folder / "v000.npy", 5000)
    os.truncate(folder / "v001.npy", 40)
    (folder / "v002.npy").write_bytes(b"")
    with (folder / "v003.npy").open("wb") as file:
        np.savez(file, a=data.features["v003"])
    problems = problems_of(source, tmp_path)
    assert len(problems) == 4
    for problem, words in zip(problems, ["cut short", "cut short", "begins with b''", "begins with b'PK"], strict=True):
        assert words in problem
    assert [f"v00{i}.npy" in problem for i, problem in enumerate(problems)] == [True] * 4


@pytest.mark.parametrize("shape", [(5,), (1, 30, 6), (), (0, 6)])
def test_arrays_of_another_shape_are_named(tmp_path, shape):
    data = DataSet.made()
    data.features["v000"] = np.zeros(shape, np.float32)
    problems = problems_of(data, tmp_path)
    assert any("'v000' " in problem or "v000 has" in problem for problem in problems)


def test_rows_that_are_not_finite_are_named(tmp_path):
    data = DataSet.made()
    data.features["v001"][3:5, 2] = np.nan
    data.features["v002"][0, 0] = np.inf
    first, second = problems_of(data, tmp_path)
    assert "v001 has NaN or infinite values in 2 of 41 rows (rows 3-4)" in first
    assert "v002 has NaN or infinite values in 1 of 25 rows (row 0)" in second


def test_values_that_float16_cannot_hold_are_refused_only_where_it_is_asked_for(tmp_path):
    data = DataSet.made()
    data.features["v001"][7, 2] = 70000
    (problem,) = problems_of(data, tmp_path, dtype="float16")
    assert "float16 holds values up to 65504, v001 has 70000 in 1 rows (row 7)" in problem
    assert is_data(imported(tmp_path / "src", tmp_path)[0], data)


def test_all_labels_outside_of_the_mapping_are_listed_at_once_with_the_nearest(tmp_path):
    data = DataSet.made()
    data.labels["v000"][10:12] = ["poor", "poor"]
    data.labels["v001"][3] = "poor"
    data.labels["v002"][5] = "zzz"
    first, second = problems_of(data, tmp_path)
    assert "'poor' is not in" in first
    assert "(did you mean 'pour'?): 3 frames in 2 files, first" in first
    assert "v000.txt line 11; correct or add it" in first
    assert "'zzz' is not in" in second
    assert "did you mean" not in second


def test_without_a_mapping_one_is_built_from_the_sorted_names_and_shown(tmp_path):
    data = DataSet.made()
    data.mapping = None
    store, notes = imported(data, tmp_path)
    assert store.manifest.vocabulary == ("SIL", "pour", "stir")
    assert "mapping.txt is missing, a mapping was built from the labels: 0 SIL, 1 pour, 2 stir" in notes[0]
    assert is_data(store, data)


def test_a_mapping_with_gaps_is_renumbered_in_its_order_and_that_is_told(tmp_path):
    data = DataSet.made()
    data.mapping = ["7 stir", "0 SIL", "3 pour"]
    store, notes = imported(data, tmp_path)
    assert store.manifest.vocabulary == ("SIL", "pour", "stir")
    assert "have gaps and were renumbered in their order: 3 pour is 1, 7 stir is 2" in notes[0]
    assert is_data(store, data)


def test_names_with_blanks_are_names(tmp_path):
    data = DataSet.made()
    data.mapping = ["0 SIL", "1 pour milk", "2 stir"]
    data.labels = {v: [n.replace("pour", "pour milk") for n in names] for v, names in data.labels.items()}
    store, _ = imported(data, tmp_path)
    assert store.manifest.vocabulary[1] == "pour milk"
    assert is_data(store, data)


def test_a_mapping_that_is_wrong_is_told_line_by_line(tmp_path):
    data = DataSet.made()
    data.mapping = ["0 SIL", "pour 1", "1", "0 stir", "2 SIL", "-1 x"]
    problems = problems_of(data, tmp_path)
    assert ["line 2" in problems[0], "line 3" in problems[1], "line 4" in problems[2]] == [True] * 3
    assert "repeats 0" in problems[2]
    assert "repeats 'SIL'" in problems[3]
    assert "'-1 x'" in problems[4]


def test_an_empty_mapping_is_refused(tmp_path):
    data = DataSet.made()
    data.mapping = []
    assert "remove it to have one built" in problems_of(data, tmp_path)[0]


def test_actions_that_stand_in_no_video_are_noted(tmp_path):
    data = DataSet.made()
    data.mapping = ["0 SIL", "1 pour", "2 stir", "3 fly"]
    assert "1 actions of the mapping stand in no video: fly" in imported(data, tmp_path)[1]


def test_background_that_is_no_action_is_refused_and_a_likely_one_is_noted(tmp_path):
    (problem,) = problems_of(DataSet.made(), tmp_path, background=("SLI", "stir"))
    assert "background 'SLI' is not among the actions (did you mean 'SIL'?)" in problem
    _, notes = imported(tmp_path / "src", tmp_path)
    assert notes == ("'SIL' may be background: if so, say --background SIL",)


def test_features_without_labels_and_labels_without_features_are_named(tmp_path):
    data = DataSet.made()
    del data.labels["v000"]
    del data.features["v003"]
    first, second = problems_of(data, tmp_path)
    assert "have features without labels: v000; add or remove" in first
    assert "have labels without features: v003; add or remove" in second


def test_split_files_that_name_missing_videos_or_overlap_are_refused_by_name(tmp_path):
    data = DataSet.made()
    data.splits["train.split1.bundle"] += ["v003.txt", "v999.txt"]
    data.splits["train.split2.bundle"] = ["nothing"]
    problems = problems_of(data, tmp_path)
    assert "train.split1.bundle names 1 that are not there: v999.txt; add or remove" in problems[0]
    assert "train.split2.bundle names 1 that are not there: nothing" in problems[1]
    assert "1:test and 1:train share 1: v003; remove them from one" in problems[2]


def test_a_name_in_a_split_that_can_be_two_videos_is_refused(tmp_path):
    flat = DataSet.made((20, 30))
    data = DataSet(
        features={"P03/cam1": flat.features["v000"], "P04/cam1": flat.features["v001"]},
        labels={"P03/cam1": flat.labels["v000"], "P04/cam1": flat.labels["v001"]},
        splits={"train.split1.bundle": ["cam1"]},
    )
    (problem,) = problems_of(data, tmp_path)
    assert "'cam1' in" in problem
    assert "can be P03/cam1, P04/cam1: write more of its path" in problem


def test_odd_splits_are_noted(tmp_path):
    data = DataSet.made()
    data.splits = {"train.split1.bundle": ["v000", "v000.txt", "v001"], "test.split1.bundle": ["v002"]}
    data.splits["train.split3.bundle"] = []
    data.labels["v002"][0] = "pour"
    data.labels["v000"] = [name.replace("stir", "pour") for name in data.labels["v000"]]
    data.labels["v001"] = [name.replace("stir", "pour") for name in data.labels["v001"]]
    _, notes = imported(data, tmp_path, background=("SIL",))
    assert any("names videos twice, which counts once: v000" in note for note in notes)
    assert any("train.split3.bundle names no video" in note for note in notes)
    assert "split 3 has the parts 3:train only" in notes
    assert "split 1 cannot teach actions that its training part lacks: stir" in notes
    assert "1 videos stand in no split: v003" in notes


def test_no_split_files_make_a_store_without_splits(tmp_path):
    data = DataSet.made()
    data.splits = {}
    store, notes = imported(data, tmp_path)
    assert store.manifest.splits == ()
    assert "the store has no splits" in notes[-1]


def differing() -> DataSet:
    data = DataSet.made((30, 41, 25, 52))
    data.labels["v000"] += ["SIL"] * 3
    data.labels["v002"] = data.labels["v002"][:-8]
    return data


def test_lengths_that_differ_are_refused_by_default_and_all_are_told(tmp_path):
    first, second = problems_of(differing(), tmp_path)
    assert "differ by at most 0 frames, v000 has 30 frames of features and 33 labels" in first
    assert "v002 has 25 frames of features and 17 labels" in second
    assert "--length-tolerance or --length-policy crop" in first


def test_lengths_within_the_tolerance_are_cropped_and_told(tmp_path):
    (problem,) = problems_of(differing(), tmp_path, length_tolerance=3)
    assert "differ by at most 3 frames, v002 has" in problem
    store, notes = imported(tmp_path / "src", tmp_path, length_tolerance=8)
    assert notes[1:] == (
        "v000: 30 frames of features, 33 labels: the last 3 dropped",
        "v002: 25 frames of features, 17 labels: the last 8 dropped",
    )
    assert store.record("v000").lengths == (7, 8, 7, 8)
    assert store.record("v002").frames == 17
    assert sum(store.record("v002").lengths) == 17


def test_the_policy_crop_drops_the_last_frames_of_the_longer(tmp_path):
    data = differing()
    store, notes = imported(data, tmp_path, length_policy="crop")
    assert len(notes) == 3
    assert np.array_equal(store.features("v002"), data.features["v002"][:17])
    assert np.array_equal(store.features("v000"), data.features["v000"])


def test_a_bad_row_in_what_is_cropped_away_does_no_harm(tmp_path):
    data = differing()
    data.features["v002"][20] = np.nan
    store, _ = imported(data, tmp_path, length_policy="crop")
    assert store.record("v002").frames == 17


def test_the_policy_resample_gives_every_frame_a_label(tmp_path):
    data = differing()
    store, notes = imported(data, tmp_path, length_policy="resample")
    assert notes[1] == "v000: 30 frames of features, 33 labels: labels resampled"
    assert np.array_equal(store.features("v002"), data.features["v002"])
    assert sum(store.record("v002").lengths) == 25


def test_label_files_that_are_empty_or_have_blank_lines_or_are_no_text_are_named(tmp_path):
    data = DataSet.made()
    data.labels["v000"] = []
    data.labels["v001"][4] = ""
    source = data.write(tmp_path / "src")
    (source / "groundTruth" / "v002.txt").write_bytes(b"SIL\n\xff\xfe\n")
    problems = problems_of(source, tmp_path)
    assert "v000.txt is empty" in problems[0]
    assert "v001.txt has blank lines (5): remove them" in problems[1]
    assert "v002.txt is not (byte 4 is 0xff): convert it" in problems[2]
    assert len(problems) == 3


def test_ids_in_which_a_regular_expression_finds_nothing_are_named(tmp_path):
    (problem,) = problems_of(DataSet.made(), tmp_path, group_regex=r"v00[012]")
    assert "--group-regex finds the group in each id, 'v00[012]' finds none in 1: v003; correct it" in problem
    (problem,) = problems_of(tmp_path / "src", tmp_path, activity_regex="(")
    assert "--activity-regex is a regular expression, '(' is not" in problem


@pytest.mark.parametrize("missing", ["features", "groundTruth"])
def test_a_missing_folder_is_told(tmp_path, missing):
    source = DataSet.made().write(tmp_path / "src")
    (source / missing).rename(source / "elsewhere")
    (problem,) = problems_of(source, tmp_path)
    assert f"has no {missing}/: name the folder that has both" in problem


def test_a_missing_source_is_told(tmp_path):
    (tmp_path / "src").mkdir()
    with pytest.raises(StoreError, match=r"a data set is a folder, .*/nowhere is none"):
        imported(tmp_path / "nowhere", tmp_path)
    first, second = problems_of(tmp_path / "src", tmp_path)
    assert "features/" in first
    assert "groundTruth/" in second


def test_an_empty_features_folder_is_told(tmp_path):
    source = DataSet.made().write(tmp_path / "src")
    for file in (source / "features").iterdir():
        file.unlink()
    problems = problems_of(source, tmp_path)
    assert "has no .npy file" in problems[0]
    assert "4 in" in problems[1]


def test_problems_of_every_kind_are_told_together(tmp_path):
    data = DataSet.made((30, 41, 25, 52, 33, 44))
    data.features["v000"][0, 0] = np.nan
    data.features["v001"] = data.features["v001"][:, :4]
    data.labels["v002"] = data.labels["v002"][:-1]
    data.labels["v003"][0] = "pur"
    data.splits["train.split1.bundle"].append("gone")
    source = data.write(tmp_path / "src")
    os.truncate(source / "features" / "v004.npy", 300)
    problems = problems_of(source, tmp_path, background=("none",))
    for words in ("NaN", "[41, 4]", "24 labels", "'pur'", "gone", "v004.npy", "background 'none'"):
        assert sum(words in problem for problem in problems) == 1, words
    assert len(problems) == 7


def test_one_bad_annotation_among_many_is_found_before_anything_is_written(tmp_path):
    data = DataSet.made([12] * 200, dim=2)
    data.labels["v150"][5] = "oops"
    (problem,) = problems_of(data, tmp_path)
    assert "v150.txt line 6" in problem


def test_an_existing_store_is_refused_before_the_data_set_is_looked_at(tmp_path):
    before = files_of(write_store(tmp_path / "store", DataSet.made().features))
    with pytest.raises(StoreError, match="one stands at"):
        imported(tmp_path / "nowhere", tmp_path)
    assert files_of(tmp_path / "store") == before


def test_options_that_are_wrong_are_told_first(tmp_path):
    source = DataSet.made().write(tmp_path / "src")
    first, second = problems_of(source, tmp_path, dtype="int8", length_tolerance=-1)
    assert "not 'int8'" in first
    assert "--length-tolerance is -1" in second


def test_more_videos_than_a_process_may_open_files_are_imported(tmp_path):
    import resource

    data = DataSet.made([300] * 120, dim=8)
    source = data.write(tmp_path / "src")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        store, _ = imported(source, tmp_path)
        assert is_data(store, data)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
