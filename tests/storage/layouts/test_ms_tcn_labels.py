"""Import of labels: text files, mapping, background, and lengths that differ from the features."""

import numpy as np
import pytest

from tests.helpers.refusals import matching
from tests.storage.helpers import DataSet
from tests.storage.layouts.helpers import contains, facts, facts_of, imported, noted, problems_of


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
def test_text_files_of_any_editor_are_read(tmp_path, begin, end, after):
    data = DataSet.example()
    data.begin, data.end, data.after = begin, end, after
    store, _ = imported(data, tmp_path)
    assert contains(store, data)
    assert len(store.split("1", "train")) == 2


def test_a_last_line_without_an_end_is_read(tmp_path):
    source = DataSet.example((300,)).write(tmp_path / "src")
    path = source / "groundTruth" / "v000.txt"
    path.write_text(path.read_text().rstrip("\n"))
    assert imported(source, tmp_path)[0].record("v000").frames == 300


def test_all_unknown_labels_are_reported_together_with_the_nearest_action(tmp_path):
    data = DataSet.example()
    data.labels["v000"][10:12] = ["poor", "poor"]
    data.labels["v001"][3] = "poor"
    data.labels["v002"][5] = "zzz"
    first, second = problems = problems_of(data, tmp_path)
    assert facts(problems, tmp_path) == [
        ("unknown", "groundTruth/v000.txt:11", "poor"),
        ("unknown", "groundTruth/v002.txt:6", "zzz"),
    ]
    assert "'pour'" in first.message
    assert "3 lines of 2 files" in first.message
    assert "mapping.txt" in first.hint
    assert "did you mean" not in str(second)


def test_a_missing_mapping_is_replaced_by_the_sorted_names_of_the_labels(tmp_path):
    data = DataSet.example()
    data.mapping = None
    store, notes = imported(data, tmp_path)
    assert store.manifest.vocabulary == ("SIL", "pour", "stir")
    assert noted(notes, "mapping.txt", "0 SIL, 1 pour, 2 stir")
    assert contains(store, data)


def test_a_mapping_with_gaps_is_renumbered_in_its_order(tmp_path):
    data = DataSet.example()
    data.mapping = ["7 stir", "0 SIL", "3 pour"]
    store, notes = imported(data, tmp_path)
    assert store.manifest.vocabulary == ("SIL", "pour", "stir")
    assert noted(notes, "mapping.txt", "pour 3 -> 1, stir 7 -> 2")
    assert contains(store, data)


def test_action_names_may_contain_blanks(tmp_path):
    data = DataSet.example()
    data.mapping = ["0 SIL", "1 pour milk", "2 stir"]
    data.labels = {v: [n.replace("pour", "pour milk") for n in names] for v, names in data.labels.items()}
    store, _ = imported(data, tmp_path)
    assert store.manifest.vocabulary[1] == "pour milk"
    assert contains(store, data)


def test_an_invalid_mapping_is_reported_line_by_line(tmp_path):
    data = DataSet.example()
    data.mapping = ["0 SIL", "pour 1", "1", "0 stir", "2 SIL", "-1 x"]
    assert facts_of(data, tmp_path) == [
        ("type", "mapping.txt:2", "pour 1"),
        ("type", "mapping.txt:3", "1"),
        ("duplicate", "mapping.txt:4", 0),
        ("duplicate", "mapping.txt:5", "SIL"),
        ("type", "mapping.txt:6", "-1 x"),
    ]


def test_an_empty_mapping_is_refused(tmp_path):
    data = DataSet.example()
    data.mapping = []
    (problem,) = problems_of(data, tmp_path)
    assert facts([problem], tmp_path) == [("missing", "mapping.txt", None)]
    assert "labels" in problem.hint


def test_actions_that_occur_in_no_video_are_noted(tmp_path):
    data = DataSet.example()
    data.mapping = ["0 SIL", "1 pour", "2 stir", "3 fly"]
    assert noted(imported(data, tmp_path)[1], "mapping.txt", "(1): fly")


def test_unknown_background_is_refused_and_likely_background_is_noted(tmp_path):
    (problem,) = problems_of(DataSet.example(), tmp_path, background=("SLI", "stir"))
    assert (problem.rule, problem.place, problem.value) == ("unknown", "background", "SLI")
    assert "'SIL'" in problem.message
    _, notes = imported(tmp_path / "src", tmp_path)
    assert len(notes) == 1
    assert noted(notes, "'SIL'", "--background SIL")


def test_videos_without_labels_or_without_features_are_reported(tmp_path):
    data = DataSet.example()
    del data.labels["v000"]
    del data.features["v003"]
    assert facts_of(data, tmp_path) == [("missing", "features", ["v003"]), ("missing", "groundTruth", ["v000"])]


def differing() -> DataSet:
    data = DataSet.example((30, 41, 25, 52))
    data.labels["v000"] += ["SIL"] * 3
    data.labels["v002"] = data.labels["v002"][:-8]
    return data


def test_lengths_that_differ_are_refused_by_default_for_all_videos(tmp_path):
    first, second = problems = problems_of(differing(), tmp_path)
    assert facts(problems, tmp_path) == [("mismatch", "v000", 33), ("mismatch", "v002", 17)]
    assert first.message.startswith("30 ")
    assert second.message.startswith("25 ")
    assert first.message.endswith(" 0")
    assert "--length-tolerance" in first.hint
    assert "--length-policy" in first.hint


def test_lengths_within_the_tolerance_are_cropped_and_noted(tmp_path):
    (problem,) = problems_of(differing(), tmp_path, length_tolerance=3)
    assert (problem.rule, problem.place, problem.value) == ("mismatch", "v002", 17)
    assert problem.message.endswith(" 3")
    store, notes = imported(tmp_path / "src", tmp_path, length_tolerance=8)
    assert len(notes) == 3
    assert noted(notes, "v000: 30 ", " 33 ", "last 3")
    assert noted(notes, "v002: 25 ", " 17 ", "last 8")
    assert store.record("v000").lengths == (7, 8, 7, 8)
    assert store.record("v002").frames == 17
    assert sum(store.record("v002").lengths) == 17


def test_the_policy_crop_drops_the_last_frames_of_the_longer(tmp_path):
    data = differing()
    store, notes = imported(data, tmp_path, length_policy="crop")
    assert len(notes) == 3
    assert np.array_equal(store.features("v002"), data.features["v002"][:17])
    assert np.array_equal(store.features("v000"), data.features["v000"])


def test_nan_in_cropped_rows_is_ignored(tmp_path):
    data = differing()
    data.features["v002"][20] = np.nan
    store, _ = imported(data, tmp_path, length_policy="crop")
    assert store.record("v002").frames == 17


def test_the_policy_resample_gives_every_frame_a_label(tmp_path):
    data = differing()
    store, notes = imported(data, tmp_path, length_policy="resample")
    assert noted(notes, "v000: 30 ", " 33 ", "resampled")
    assert np.array_equal(store.features("v002"), data.features["v002"])
    assert sum(store.record("v002").lengths) == 25


def test_labels_at_one_lower_rate_are_resampled_even_if_they_hardly_repeat(tmp_path):
    data = DataSet.example((30, 41, 25, 52))
    data.labels = {video: [("SIL", "pour", "stir")[n % 3] for n in range(len(x))] for video, x in data.features.items()}
    data.labels = {video: names[::4] for video, names in data.labels.items()}
    store, _ = imported(data, tmp_path, length_policy="resample")
    assert [len(store.record(video).transcript) for video in store.ids] == [8, 11, 7, 13]
    del data.labels["v001"][7:]
    (problem,) = problems_of(data, tmp_path / "x", length_policy="resample")
    assert matching([problem], "mismatch", "v000", 8)


@pytest.mark.parametrize("policy", ["error", "crop", "resample"])
def test_transcripts_among_the_labels_are_one_problem_that_names_their_place(tmp_path, policy):
    data = DataSet.example((263, 300, 200, 171) * 3)
    data.labels = {video: ["SIL", "pour", "stir", "SIL"] for video in data.labels}
    (problem,) = problems_of(data, tmp_path, length_policy=policy)
    assert facts([problem], tmp_path) == [("mismatch", "v000", 4)]
    assert "transcripts/" in problem.hint
    assert "11 more" in problem.message


def test_label_files_that_are_empty_or_not_text_or_have_blank_lines_are_reported(tmp_path):
    data = DataSet.example()
    data.labels["v000"] = []
    data.labels["v001"][4] = ""
    source = data.write(tmp_path / "src")
    (source / "groundTruth" / "v002.txt").write_bytes(b"SIL\n\xff\xfe\n")
    assert facts_of(source, tmp_path) == [
        ("missing", "groundTruth/v000.txt", None),
        ("missing", "groundTruth/v001.txt:5", [5]),
        ("unreadable", "groundTruth/v002.txt, byte 4", 0xFF),
    ]


@pytest.mark.parametrize("form", ["{}", "{}.0", "{}.000000000000000000e+00"])
def test_ids_in_place_of_names_are_one_problem(tmp_path, form):
    data = DataSet.example([30, 41, 25, 52] * 3)
    ids = {"SIL": 0, "pour": 1, "stir": 2}
    data.labels = {video: [form.format(ids[name]) for name in names] for video, names in data.labels.items()}
    (problem,) = problems_of(data, tmp_path)
    assert facts([problem], tmp_path) == [("type", "groundTruth/v000.txt:1", form.format(0))]
    assert "12 files" in problem.message
    assert " ids" in problem.message


def test_a_number_that_is_no_id_and_a_name_are_told_apart(tmp_path):
    data = DataSet.example()
    data.labels["v000"] = ["1", "7"] * 15
    data.labels["v001"][0] = "pur"
    problems = problems_of(data, tmp_path)
    assert facts(problems, tmp_path) == [
        ("type", "groundTruth/v000.txt:1", "1"),
        ("unknown", "groundTruth/v001.txt:1", "pur"),
    ]
    assert problems[0].message.endswith("not in the mapping: 7")


@pytest.mark.parametrize("mapping", [None, ["0 SIL", "1 pour", "2 stir"]])
@pytest.mark.parametrize("policy", ["error", "resample"])
def test_files_of_segments_are_one_problem(tmp_path, mapping, policy):
    data = DataSet.example([30, 41, 25, 52] * 5)
    data.labels = {video: ["1-8 SIL", "9-16 pour", f"17-{len(x)} SIL"] for video, x in data.features.items()}
    data.mapping = mapping
    (problem,) = problems_of(data, tmp_path, length_policy=policy)
    assert facts([problem], tmp_path) == [("type", "groundTruth/v000.txt:1", "1-8 SIL")]
    assert "20 files" in problem.message


def test_files_of_numbered_frames_are_one_problem(tmp_path):
    data = DataSet.example()
    data.labels = {video: [f"{n} {name}" for n, name in enumerate(names)] for video, names in data.labels.items()}
    (problem,) = problems_of(data, tmp_path)
    assert facts([problem], tmp_path) == [("type", "groundTruth/v000.txt:1", "0 SIL")]
    assert "numbered" in problem.message


def test_names_in_the_mapping_that_look_like_segments_are_names(tmp_path):
    data = DataSet.example((3, 4))
    data.labels = {video: ["add 3-4", "add 5-6", "stir 1-2", "add 3-4"][: len(x)] for video, x in data.features.items()}
    data.mapping = ["0 add 3-4", "1 add 5-6", "2 stir 1-2"]
    data.splits = {}
    assert imported(data, tmp_path)[0].record("v000").transcript == (0, 1, 2)


def test_many_unknown_names_are_one_line_with_examples(tmp_path):
    data = DataSet.example()
    data.labels["v000"] = [f"x{i}" for i in range(10, 40)]
    (problem,) = problems_of(data, tmp_path)
    assert facts([problem], tmp_path) == [("unknown", "groundTruth/v000.txt:1", "x10")]
    assert "29 more: " in problem.message
    assert "'x12'" in problem.message


@pytest.mark.parametrize("mapping", [None, ["0 SIL", "1 cafe\u0301", "2 stir"]])
def test_actions_and_videos_written_in_two_unicode_forms_are_one(tmp_path, mapping):
    data = DataSet.example()
    data.mapping = mapping
    data.labels = {f"\u00e9{video}": names for video, names in data.labels.items()}
    data.labels["\u00e9v000"] = [name.replace("pour", "cafe\u0301") for name in data.labels["\u00e9v000"]]
    for video in ("\u00e9v001", "\u00e9v002", "\u00e9v003"):
        data.labels[video] = [name.replace("pour", "caf\u00e9\u200b") for name in data.labels[video]]
    data.features = {f"e\u0301{video}": features for video, features in data.features.items()}
    data.splits = {"train.split1.bundle": ["e\u0301v000", "\u00e9v001"], "test.split1.bundle": ["\u00e9v002"]}
    store, _ = imported(data, tmp_path, group_regex="^\u00e9", background=("cafe\u0301",))
    assert sorted(store.manifest.vocabulary) == ["SIL", "caf\u00e9", "stir"]
    assert store.manifest.background == ("caf\u00e9",)
    assert store.ids == tuple(f"\u00e9v00{i}" for i in range(4))
    assert len(store.split("1", "train")) == 2


def test_actions_that_differ_in_case_only_are_noted(tmp_path):
    data = DataSet.example()
    data.mapping = None
    data.labels["v000"][0] = "sil"
    assert noted(imported(data, tmp_path, background=("SIL",))[1], "alike", "SIL, sil")
