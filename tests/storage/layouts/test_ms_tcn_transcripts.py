"""Import of transcripts: files, the table, videos with labels too, and videos with neither."""

import shutil
from itertools import groupby

import pytest

from storage.inspection.overview import overview, overview_rows
from storage.verify import verify_store
from tests.storage.helpers import DataSet
from tests.storage.layouts.helpers import facts, facts_of, imported, noted, problems_of

TRANSCRIPT = ["SIL", "pour", "stir", "SIL"]


def weak(folder, *, labelled=(), table=False, **transcripts):
    """A dataset of four videos with transcripts; only some have labels; a transcript of None is left out."""
    data = DataSet.example()
    lines = {video: [name for name, _ in groupby(labels)] for video, labels in data.labels.items()} | transcripts
    data.labels = {video: data.labels[video] for video in labelled}
    source = data.write(folder / "src")
    given = {video: names for video, names in lines.items() if names is not None}
    if table:
        rows = [f"{video},{' '.join(names)},{'p' + video[-1]},tea\n" for video, names in given.items()]
        (source / "transcripts.csv").write_text("video,transcript,subject,activity\n" + "".join(rows))
    else:
        (source / "transcripts").mkdir()
        for video, names in given.items():
            (source / "transcripts" / f"{video}.txt").write_text("".join(f"{name}\n" for name in names))
    return source


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("mapping", [False, True])
def test_a_dataset_of_transcripts_becomes_a_store_without_lengths(tmp_path, table, mapping):
    source = weak(tmp_path, table=table, v001=["SIL", "pour", "pour"])
    if not mapping:
        (source / "mapping.txt").unlink()
    store, notes = imported(source, tmp_path, background=("SIL",))
    assert len(notes) == (not mapping)
    assert store.manifest.vocabulary == ("SIL", "pour", "stir")
    assert [store.record(video).transcript for video in store.ids] == [
        (0, 1, 2, 0),
        (0, 1, 1),
        (0, 1, 2, 0),
        (0, 1, 2, 0),
    ]
    assert {store.record(video).lengths for video in store.ids} == {None}
    assert [store.record("v002").group, store.record("v002").activity] == (["p2", "tea"] if table else [None, None])
    assert verify_store(store.path).problems == ()


def test_each_video_may_have_labels_a_transcript_or_both_and_the_overview_counts_them(tmp_path):
    store, notes = imported(weak(tmp_path, labelled=("v001", "v002"), v002=None, v003=None), tmp_path)
    assert noted(notes, "1 video ", "predicted", "v003")
    assert [store.record(video).lengths is not None for video in store.ids] == [False, True, True, False]
    assert store.record("v003").transcript is None
    view = overview(store)
    assert view.part_annotation == {
        "1:test": {"labels": 1, "transcript": 0, "none": 1},
        "1:train": {"labels": 1, "transcript": 1, "none": 0},
    }
    assert view.part_action_frames == {
        "1:test": {"SIL": 13, "pour": 6, "stir": 6},
        "1:train": {"SIL": 21, "stir": 10, "pour": 10},
    }
    assert dict(overview_rows(view))["1:train"].startswith("1 ")


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize(
    ("transcript", "line", "value"),
    [(["SIL", "stir", "pour", "SIL"], 2, "stir"), (["SIL", "pour"], 2, None), ([*TRANSCRIPT, "pour"], 5, "pour")],
)
def test_a_transcript_that_contradicts_the_labels_is_refused(tmp_path, table, transcript, line, value):
    source = weak(tmp_path, labelled=("v001",), table=table, v001=transcript)
    place = "transcripts.csv:3" if table else f"transcripts/v001.txt:{line}"
    assert facts_of(source, tmp_path) == [("mismatch", place, value)]


def test_a_training_video_needs_labels_or_a_transcript(tmp_path):
    (problem,) = problems_of(weak(tmp_path, v000=None, v003=None), tmp_path)
    assert facts([problem], tmp_path) == [("missing", "groundTruth", ["v000"])]
    assert "transcripts/NAME.txt" in problem.hint


def test_a_dataset_without_any_annotation_is_refused_even_without_splits(tmp_path):
    source = weak(tmp_path, v000=None, v001=None, v002=None, v003=None)
    shutil.rmtree(source / "splits")
    assert facts_of(source, tmp_path) == [("missing", "groundTruth", ["v000", "v001", "v002", "v003"])]


def test_the_message_about_missing_labels_names_transcripts(tmp_path):
    source = weak(tmp_path)
    shutil.rmtree(source / "transcripts")
    (problem,) = problems_of(source, tmp_path)
    assert facts([problem], tmp_path) == [("missing", "groundTruth", None)]
    assert "transcripts/NAME.txt" in problem.hint
    assert "transcripts.csv" in problem.hint


def test_transcripts_of_unknown_videos_and_actions_are_reported_with_their_lines(tmp_path):
    source = weak(tmp_path, v001=["SIL", "pur"], v999=["SIL"])
    assert facts_of(source, tmp_path) == [
        ("missing", "features", ["v999"]),
        ("unknown", "transcripts/v001.txt:2", "pur"),
    ]


def test_a_transcript_with_more_actions_than_frames_or_a_label_per_frame_is_refused(tmp_path):
    source = weak(tmp_path, v000=["SIL", "pour"] * 20, v001=["SIL"] * 41)
    first, second = problems = problems_of(source, tmp_path)
    assert facts(problems, tmp_path) == [
        ("mismatch", "transcripts/v000.txt:1", 40),
        ("mismatch", "transcripts/v001.txt:1", 41),
    ]
    assert not first.hint
    assert "groundTruth/" in second.hint


@pytest.mark.parametrize("mapping", [False, True])
@pytest.mark.parametrize("line", ["SIL pour stir", "SIL,pour,stir"])
def test_a_line_that_lists_several_actions_is_no_name(tmp_path, mapping, line):
    source = weak(tmp_path, v001=[line])
    if not mapping:
        (source / "mapping.txt").unlink()
    assert facts_of(source, tmp_path) == [("type", "transcripts/v001.txt:1", line)]


def test_a_name_with_blanks_that_the_mapping_or_another_transcript_knows_may_stand_alone(tmp_path):
    source = weak(tmp_path, v000=["pour milk", "stir"], v001=["pour milk"])
    (source / "mapping.txt").unlink()
    store, _ = imported(source, tmp_path)
    assert store.manifest.vocabulary == ("SIL", "pour", "pour milk", "stir")


def test_a_folder_and_a_table_of_transcripts_exclude_each_other(tmp_path):
    source = weak(tmp_path)
    (source / "transcripts.csv").write_text("video,transcript\n" + "".join(f"v00{i},SIL\n" for i in range(4)))
    assert facts_of(source, tmp_path) == [("conflict", "transcripts.csv", None)]


def table_of(folder, *rows):
    source = weak(folder, v000=None, v001=None, v002=None, v003=None)
    (source / "transcripts").rmdir()
    (source / "transcripts.csv").write_text("".join(f"{row}\n" for row in rows))
    return source


def test_lengths_in_the_table_are_labels(tmp_path):
    rows = ["v000,SIL SIL,10 20", "v001,SIL pour,", "v002.txt,stir,25", "v003,SIL pour,12 40"]
    store, _ = imported(table_of(tmp_path, "video,transcript,lengths", *rows), tmp_path)
    assert [store.record(video).lengths for video in store.ids] == [(10, 20), None, (25,), (12, 40)]


def test_columns_that_are_not_read_are_noted(tmp_path):
    rows = [f"v00{i},SIL,{n}" for i, n in enumerate((30, 41, 25, 52))]
    store, notes = imported(table_of(tmp_path, "video,transcript,length", *rows), tmp_path)
    assert noted(notes, "transcripts.csv", ": length")
    assert store.record("v000").lengths is None


@pytest.mark.parametrize("table", [False, True])
def test_options_for_frame_labels_are_refused_if_there_are_none(tmp_path, table):
    source = weak(tmp_path, table=table)
    assert facts_of(source, tmp_path, length_policy="crop", length_tolerance=3) == [
        ("conflict", "--length-policy", "crop"),
        ("conflict", "--length-tolerance", 3),
    ]


def test_problems_of_the_table_are_reported_row_by_row(tmp_path):
    rows = ["v000,SIL,31", "v001,SIL,x", "v002,SIL pour,25", ",SIL,2", "v003,,", "v003,SIL,52"]
    assert facts_of(table_of(tmp_path, "video,transcript,lengths", *rows), tmp_path) == [
        ("type", "transcripts.csv:3, lengths", "x"),
        ("mismatch", "transcripts.csv:4, lengths", 1),
        ("missing", "transcripts.csv:5, video", None),
        ("missing", "transcripts.csv:6, transcript", None),
        ("duplicate", "transcripts.csv:7, video", "v003"),
        ("mismatch", "v000", 31),
    ]


def test_a_table_with_another_separator_is_one_problem(tmp_path):
    (problem,) = problems_of(table_of(tmp_path, "video;transcript", "v000;SIL"), tmp_path)
    assert facts([problem], tmp_path) == [("missing", "transcripts.csv:1", ["video", "transcript"])]
    assert "commas" in problem.hint


def test_lengths_in_the_table_must_agree_with_the_labels(tmp_path):
    data = DataSet.example()
    data.write(tmp_path / "src")
    row = "v001,SIL pour stir SIL,10 10 10 11\n"
    (tmp_path / "src" / "transcripts.csv").write_text("video,transcript,lengths\n" + row)
    assert imported(tmp_path / "src", tmp_path)[0].record("v001").lengths == (10, 10, 10, 11)
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "src" / "transcripts.csv").write_text("video,transcript,lengths\n" + row.replace("10 11", "11 10"))
    assert facts_of(tmp_path / "src", tmp_path) == [("mismatch", "transcripts.csv:2, lengths", [10, 10, 11, 10])]
