"""A table with a row per segment: units, columns, and tables that are refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.refusals import matching
from tests.storage.helpers import DataSet
from tests.storage.layouts.helpers import noted
from tests.storage.layouts.test_layouts import TestSegmentsTable as Segments
from tests.storage.layouts.test_layouts import spans

SUITE = Segments()
HEAD = "video,action,start_frame,end_frame"


@pytest.fixture
def source(tmp_path):
    """Two videos of 30 and 41 frames without split files."""
    data = DataSet.example((30, 41))
    data.splits = {}
    return SUITE.write(data, tmp_path / "src")


def table(source, *rows, head=HEAD):
    (source / "segments.csv").write_text("\n".join([head, *rows]) + "\n")


REST = "v001,stir,0,41"


@pytest.mark.parametrize("unit", ["frames", "seconds"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_times_are_frames_or_seconds_in_csv_or_parquet(tmp_path, unit, suffix):
    data = DataSet.example()
    source = SUITE.write(data, tmp_path / "src")
    (source / "segments.csv").unlink()
    rows = [
        {"video": video, "action": name, "start": start, "end": stop}
        for video in data.labels
        for name, start, stop in spans(data, video)
    ]
    if unit == "seconds":
        rows = [{**row, "start": row["start"] / 29.97, "end": row["end"] / 29.97} for row in rows]
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), source / "segments.parquet")
    else:
        table(source, *(",".join(map(str, row.values())) for row in rows), head="video,action,start,end")
    store, _ = SUITE.store(source, tmp_path / "store", unit=unit, fps=29.97)
    assert SUITE.same(store, data, tmp_path)


def test_seconds_are_rounded_to_the_nearest_frame_and_neighbours_stay_neighbours(source, tmp_path):
    rows = ("v000,SIL,0,0.3333", "v000,pour,0.3333,1.1", "v000,SIL,1.1,3", "v001,SIL,0.04,4.149999")
    table(source, *rows, head="video,action,start,end")
    store, _ = SUITE.store(source, tmp_path / "store", unit="seconds", fps=10)
    assert store.record("v000").lengths == (3, 8, 19)
    assert store.record("v001").lengths == (41,)


def test_groups_activities_and_splits_are_columns(source, tmp_path):
    head = "video,action,start_frame,end_frame,subject,group,activity,split,camera"
    rows = ("v000,SIL,0,20,p1,g1,tea,1:train 2:test,c", "v000,pour,20,30,p1,g1,tea,1:train 2:test,c")
    table(source, *rows, "v001,stir,0,41,p2,,,1:test,c", head=head)
    store, notes = SUITE.store(source, tmp_path / "store")
    assert noted(notes, "ignored columns: camera")
    first, second = store.record("v000"), store.record("v001")
    assert (first.group, first.activity, first.splits) == ("g1", "tea", ("1:train", "2:test"))
    assert (second.group, second.activity, second.splits) == ("p2", None, ("1:test",))


@pytest.mark.parametrize(
    ("cells", "rule", "place", "value"),
    [
        (("1:train", "1:test"), "conflict", "segments.csv:3, split", "1:test"),
        (("1:train 1:test", ""), "conflict", "1:test, 1:train", ["v000"]),
        (("train", ""), "type", "segments.csv: v000, split", "train"),
    ],
)
def test_splits_that_contradict_each_other_are_refused(source, tmp_path, cells, rule, place, value):
    rows = (f"v000,SIL,0,20,{cells[0]}", f"v000,pour,20,30,{cells[1]}")
    table(source, *rows, "v001,stir,0,41,1:test", head=f"{HEAD},split")
    problems = SUITE.problems(source, tmp_path)
    assert len(problems) == 1
    assert matching(problems, rule, place, value)


def test_a_column_of_splits_beside_a_folder_is_refused(source, tmp_path):
    (source / "splits").mkdir()
    table(source, "v000,SIL,0,30,1:train", "v001,stir,0,41,1:test", head=f"{HEAD},split")
    assert matching(SUITE.problems(source, tmp_path), "conflict", str(source / "splits"))


@pytest.mark.parametrize(
    ("head", "row", "options", "rule", "place"),
    [
        ("video,action,start,end", "v000,SIL,0,30", {}, "missing", "--unit"),
        ("video,action,start,end", "v000,SIL,0,30", {"unit": "seconds"}, "missing", "--fps"),
        ("video,action,start,end", "v000,SIL,0,30", {"unit": "seconds", "fps": -1.0}, "range", "--fps"),
        (HEAD, "v000,SIL,0,30", {"unit": "seconds"}, "conflict", "--unit"),
        (f"{HEAD},start,end", "v000,SIL,0,30,0,1", {}, "conflict", "segments.csv:1"),
        ("video,action,start_frame,stop", "v000,SIL,0,30", {}, "missing", "segments.csv:1"),
        ("video,label,start_frame,end_frame", "v000,SIL,0,30", {}, "missing", "segments.csv:1"),
        (HEAD, ",SIL,0,30", {}, "missing", "segments.csv:2, video"),
        (HEAD, "v000,,0,30", {}, "missing", "segments.csv:2, action"),
        (HEAD, "v000,SIL,0.5,30", {}, "type", "segments.csv:2, start_frame"),
        (HEAD, "v000,SIL,0,x", {}, "type", "segments.csv:2, end_frame"),
        (HEAD, "v000,SIL,0,1/3", {}, "type", "segments.csv:2, end_frame"),
        (HEAD, "v000,SIL,0,nan", {}, "type", "segments.csv:2, end_frame"),
        (HEAD, "v000,SIL,5,30", {}, "missing", "segments.csv:2"),
        (HEAD, "v000,SIL,0,0", {}, "range", "segments.csv:2"),
        (HEAD, "v000,SIL,5,3\nv000,pour,10,30", {}, "range", "segments.csv:2"),
    ],
    ids=str,
)
def test_a_table_that_cannot_be_read_is_refused_by_its_place(source, tmp_path, head, row, options, rule, place):
    table(source, row, head=head)
    problems = SUITE.problems(source, tmp_path, **options)
    assert matching(problems, rule, place)
    assert len(problems) == 1


def test_ends_that_are_last_frames_are_refused_even_if_gaps_are_filled(source, tmp_path):
    table(source, "v000,SIL,0,9", "v000,pour,10,29", *(f"v001,SIL,{n},{n + 9}" for n in (0, 10, 20, 30)))
    problems = SUITE.problems(source, tmp_path, fill="SIL")
    assert len(problems) == 1
    assert matching(problems, "mismatch", "segments.csv, end_frame")


def test_frames_that_are_counted_from_1_are_refused_by_their_starts(source, tmp_path):
    table(source, "v000,SIL,1,10", "v000,pour,11,30", *(f"v001,SIL,{n},{n + 9}" for n in (1, 11, 21, 31)))
    assert matching(SUITE.problems(source, tmp_path), "mismatch", "segments.csv, start_frame")


def test_gaps_are_filled_with_a_chosen_action(source, tmp_path):
    table(source, "v000,pour,5,9", "v000,stir,10,29", REST)
    assert len(SUITE.problems(source, tmp_path)) == 2
    store, _ = SUITE.store(source, tmp_path / "store", fill="SIL")
    assert store.record("v000").transcript == (0, 1, 0, 2, 0)
    assert store.record("v000").lengths == (5, 4, 1, 19, 1)


def test_two_tables_and_damaged_ones_are_refused(source, tmp_path):
    (source / "segments.parquet").write_bytes(b"PAR1")
    assert matching(SUITE.problems(source, tmp_path), "conflict", "segments.parquet")
    (source / "segments.csv").unlink()
    assert matching(SUITE.problems(source, tmp_path), "unreadable", "segments.parquet")
    pq.write_table(pa.table({"video": ["v000"]}), source / "segments.parquet")
    assert matching(SUITE.problems(source, tmp_path), "missing", "segments.parquet", ["action"])


def test_rows_of_parquet_are_named_by_their_number(source, tmp_path):
    (source / "segments.csv").unlink()
    columns = {
        "video": ["v000", None],
        "action": ["SIL", "pour"],
        "start_frame": [0.0, 30.0],
        "end_frame": [30.5, 31.0],
    }
    pq.write_table(pa.table(columns), source / "segments.parquet")
    problems = SUITE.problems(source, tmp_path)
    assert matching(problems, "type", "segments.parquet, row 1, end_frame", "30.5")
    assert matching(problems, "missing", "segments.parquet, row 2, video")


def test_videos_in_no_split_are_noted(source, tmp_path):
    table(source, "v000,SIL,0,30,1:train", REST + ",", head=f"{HEAD},split")
    assert noted(SUITE.store(source, tmp_path / "store")[1], "no split", "(1): v001")
