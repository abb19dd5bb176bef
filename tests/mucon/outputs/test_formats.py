"""The texts of predicted segments, read by what people use."""

from __future__ import annotations

import dataclasses
import itertools
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from mucon.outputs.formats import ELAN_HEADINGS, TIMED, lines, text
from mucon.outputs.results import Alternative, Segment, Segments
from tests.helpers.refusals import refused
from tests.helpers.services import need

NAMES = ('say "hi", <b>&amp; go', "stir --> pour", "tab\there", "Öl gießen")
RESULT = Segments(
    segments=[
        Segment(NAMES[0], 0, 7, 0.5), Segment(NAMES[1], 7, 8, 0.25),
        Segment(NAMES[2], 8, 20, 1.0), Segment(NAMES[3], 20, 31, 0.125),
    ],
    prediction="full", n_frames=31, fps=15.0, score=-4.0,
    alternatives=(Alternative([Segment(NAMES[3], 0, 31)], -6.5),),
)  # fmt: skip
EMPTY = Segments(segments=[], prediction="full", n_frames=9, fps=15.0)


def written(tmp_path: Path, kind: str, result: Segments = RESULT) -> Path:
    path = tmp_path / f"v.{kind}"
    path.write_text(text("v", result, kind), encoding="utf-8", newline="")
    return path


def test_csv_is_read_by_pandas(tmp_path: Path):
    need(find_spec("pandas"), "pandas")
    import pandas

    frame = pandas.read_csv(written(tmp_path, "csv"))
    assert frame.to_dict("records") == RESULT.rows()
    assert list(pandas.read_csv(written(tmp_path, "csv", EMPTY)).columns) == list(frame.columns)


def test_csv_is_read_by_duckdb(tmp_path: Path):
    need(find_spec("duckdb"), "duckdb")
    import duckdb

    found = duckdb.sql(f"SELECT action, start, stop, stop_s, confidence FROM '{written(tmp_path, 'csv')}'").fetchall()
    assert found == [(one.action, one.start, one.stop, one.stop / 15, one.confidence) for one in RESULT.segments]


def frames_of(path: Path, mapping: dict[str, int]) -> np.ndarray:
    """Class ids per frame, as scripts in the form of MS-TCN read `groundTruth/`: one name per line, no blank line."""
    content = path.read_text(encoding="utf-8")
    names = content.split("\n")
    assert names[-1] == ""
    return np.array([mapping[name] for name in names[:-1]], dtype=np.int16)


def test_per_frame_text_is_read_as_one_class_id_per_frame(tmp_path: Path):
    mapping = {name: i for i, name in enumerate(NAMES)}
    found = frames_of(written(tmp_path, "txt"), mapping)
    assert found.tolist() == [0] * 7 + [1] + [2] * 12 + [3] * 11
    assert written(tmp_path, "txt", EMPTY).read_text() == ""


def test_json_has_the_segments_and_the_alternatives_with_their_scores(tmp_path: Path):
    found = json.loads(written(tmp_path, "json").read_text())
    assert (found["id"], found["n_frames"], found["score"]) == ("v", 31, -4.0)
    assert found["segments"] == RESULT.rows()
    (other,) = found["alternatives"]
    assert (other["score"], [one["action"] for one in other["segments"]]) == (-6.5, [NAMES[3]])
    assert "alternatives" not in json.loads(written(tmp_path, "json", EMPTY).read_text())


def test_tab_delimited_text_has_the_columns_of_elan(tmp_path: Path):
    """ELAN's manual: rows are lines, columns are separated by tabs; tier, begin, end, duration and annotation."""
    heading, *rows = [line.split("\t") for line in written(tmp_path, "tsv").read_text().splitlines()]
    assert heading == list(ELAN_HEADINGS)
    assert {len(row) for row in rows} == {5}
    assert {row[0] for row in rows} == {"full"}
    assert [row[4] for row in rows] == [name.replace("\t", " ") for name in NAMES]
    for (tier, begin, end, duration, _), (_, after, *_) in itertools.pairwise(rows):
        assert tier
        assert end == after
        assert float(end) - float(begin) == pytest.approx(float(duration), abs=1.1e-3)
    both = text("v", RESULT, "tsv", confidence=True).splitlines()
    assert [line.split("\t")[4] for line in both if line.startswith("full confidence")] == [
        "0.500", "0.250", "1.000", "0.125",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", TIMED)
def test_formats_with_times_require_the_frame_rate(kind: str):
    with refused("missing", "--fps", kind, n=1):
        text("v", dataclasses.replace(RESULT, fps=None), kind)


def test_lines_for_people_name_alternatives_by_their_distance():
    shown = lines("v\nw", RESULT, confidence=True)
    assert len(shown.splitlines()) == 6
    assert "-2.50" in shown
    assert "(0.12)" in shown
