"""Layout of a folder of features and one table with a row per segment.

`features/*` (`[T D]` or `[D T]`), `segments.csv` or `segments.parquet`, `mapping.txt` (`ID NAME`) and
`splits/PART.splitK.bundle`. The table has the columns `video` and `action`, and either `start_frame` and `end_frame`,
or `start` and `end` in a unit that the user names. An end is the beginning of the next segment, not the last frame.
Optional columns are `group` (or `subject`), `activity` and `split` (such as `1:train 2:test`, instead of the folder).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from storage.errors import Problem, condensed
from storage.layouts.annotations import Annotations, of_segments, paired
from storage.layouts.dataset import Dataset
from storage.layouts.labels import Segment
from storage.layouts.splits import Splits, checked
from storage.layouts.text import Names
from storage.names import normal
from storage.tables import column_problems, rows_of

Rows = list[tuple[str, dict[str, str]]]
_TABLES = ("segments.csv", "segments.parquet")
_COLUMNS = ("video", "action")
_FRAMES, _TIMES = ("start_frame", "end_frame"), ("start", "end")
_ENOUGH = 3
"""Gaps of one frame after which ends are taken for last frames."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.IGNORECASE | re.ASCII)
_OTHERS = ("group", "subject", "activity", "split")
_PART = re.compile(r"[^:\s]+:[^:\s]+")


class _Times(NamedTuple):
    """Columns of begin and end, and the frames per second if they are seconds."""

    columns: tuple[str, str]
    fps: Fraction | None = None


class SegmentsTable(Dataset):
    """A dataset with one table of segments."""

    name = "segments"
    contents = f"features/NAME.npy and {' or '.join(_TABLES)} (a row per segment)"
    required = (("features",), _TABLES)
    annotation = _TABLES[0]
    needs = f"rows of {' or '.join(_TABLES)}"
    uses = frozenset({"length_policy", "length_tolerance", "fill", "unit"})

    def read_annotations(self, mapping: Mapping[int, str]) -> Annotations:
        """Reads the table."""
        findings = self.findings
        problems: list[Problem] = []
        table, rows = self._rows(problems)
        times = self._times(table, rows, problems)
        if ignored := sorted(set(rows[0][1] if rows else ()) - {*_COLUMNS, *_FRAMES, *_TIMES, *_OTHERS}):
            findings.notes.append(f"{table}: ignored columns: {', '.join(ignored)}")
        by_name: dict[str, Rows] = {}
        for place, row in rows:
            problems += [
                Problem(rule="missing", place=f"{place}, {column}", expected="a name")
                for column in _COLUMNS
                if not row[column]
            ]
            by_name.setdefault(row["video"], []).append((place, row))
        by_name.pop("", None)
        clips, unpaired = paired(by_name, self.source / self.features, self.paths, "segments", findings)
        segments = {video: _segments(listed, times, problems) for video, listed in clips.items() if times}
        segments = {video: found for video, found in segments.items() if len(found) == len(clips[video])}
        if times and _inclusive(segments.values()):
            message = "each segment begins a frame after the end of the one before, as if ends were last frames; "
            message += "an end is the frame after the last one"
            from_1 = all(min(segment.start for segment in found) == 1 for found in segments.values())
            hint = "frames begin at 0: subtract 1 from each start" if from_1 else "add 1 to each end"
            place = f"{table}, {times.columns[0 if from_1 else 1]}"
            problems.append(Problem(rule="mismatch", place=place, message=message, hint=hint))
            segments = {}
        findings.report(problems)
        found = of_segments(segments, dict.fromkeys(clips, table), unpaired, self.options.fill, findings)
        self._table, self._parts = table, self._constant("split", clips)
        groups = {**self._constant("subject", clips), **self._constant("group", clips)}
        return replace(found, groups=groups, activities=self._constant("activity", clips))

    def read_splits(self, names: Names) -> Splits:
        """Reads the column `split`, or the folder of splits if there is no such column."""
        if not self._parts:
            return super().read_splits(names)
        splits = Splits()
        folder = self.source / "splits"
        if folder.exists():
            message, hint = "a folder of splits beside a column `split`", "keep one of them"
            splits.problems.append(Problem(rule="conflict", place=str(folder), message=message, hint=hint))
        parts: dict[str, set[str]] = {}
        problems = []
        for video, cell in self._parts.items():
            for part in cell.split():
                if not _PART.fullmatch(part):
                    expected = "parts such as `1:train`, separated by blanks"
                    problems.append(Problem(rule="type", place=f"{video}, split", value=cell, expected=expected))
                parts.setdefault(part, set()).add(video)
        splits.problems += condensed(problem.under(self._table) for problem in problems)
        splits.parts = {part: frozenset(videos) for part, videos in parts.items()}
        return checked(splits)

    def _rows(self, problems: list[Problem]) -> tuple[Path, Rows]:
        """Returns the path and the rows of the table."""
        tables = [self.source / name for name in _TABLES if (self.source / name).exists()]
        if len(tables) > 1:
            message = f"{' and '.join(_TABLES)} both exist"
            problems.append(Problem(rule="conflict", place=str(tables[1]), message=message, hint="keep one of them"))
        read = rows_of if tables[0].suffix == ".csv" else _parquet_rows
        return tables[0], read(tables[0], _COLUMNS, problems)

    def _times(self, table: Path, rows: Rows, problems: list[Problem]) -> _Times | None:
        """Returns how the times are written; None after a problem."""
        unit, fps, place = self.options.unit, self.options.fps, f"{table}:1"
        names = sorted(rows[0][1]) if rows else _FRAMES
        found = [pair for pair in (_FRAMES, _TIMES) if set(pair) <= set(names)]
        problem = None
        if not found:
            expected = f"the columns {' and '.join(_FRAMES)}, or {' and '.join(_TIMES)}"
            problem = Problem(rule="missing", place=place, value=names, expected=expected)
        elif len(found) > 1:
            message, hint = f"times in the columns {', '.join((*_FRAMES, *_TIMES))}", "keep two of them"
            problem = Problem(rule="conflict", place=place, value=names, message=message, hint=hint)
        elif found == [_FRAMES] and unit == "seconds":
            message = f"the columns {' and '.join(_FRAMES)} contain frames"
            problem = Problem(rule="conflict", place="--unit", value=unit, message=message, hint="leave it out")
        elif found == [_TIMES] and unit is None:
            message, hint = "start and end may be seconds or frames", "choose --unit seconds or --unit frames"
            problem = Problem(rule="missing", place="--unit", message=message, hint=hint)
        elif unit == "seconds" and fps is None:
            expected = "the frames per second of the features, which segments in seconds need"
            problem = Problem(rule="missing", place="--fps", expected=expected)
        elif fps is not None and not 0 < fps < math.inf:
            problem = Problem(rule="range", place="--fps", value=fps, expected="a number above 0")
        if problem:
            problems.append(problem)
            return None
        return _Times(found[0], Fraction(str(fps)) if unit == "seconds" else None)

    def _constant(self, column: str, clips: Mapping[str, Rows]) -> dict[str, str]:
        """Returns the cell of each clip in a column whose cells are equal in all rows of the clip."""
        cells: dict[str, str] = {}
        problems = []
        for video, rows in clips.items():
            for place, row in rows:
                cell = row.get(column, "")
                if cell and cells.setdefault(video, cell) != cell:
                    expected = f"{cells[video]!r} as in other rows of {video}"
                    problems.append(Problem(rule="conflict", place=f"{place}, {column}", value=cell, expected=expected))
        self.findings.report(problems)
        return cells


def _parquet_rows(path: Path, columns: Sequence[str], problems: list[Problem]) -> Rows:
    """Reads a Parquet file like `rows_of`; the number of a row begins at 1."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as error:
        problems.append(Problem(rule="unreadable", place=str(path), message=f"cannot read a Parquet file: {error}"))
        return []
    if found := column_problems(str(path), table.column_names, columns):
        problems += found
        return []
    return [
        (
            f"{path}, row {number}",
            {name: "" if value is None else normal(str(value)).strip() for name, value in row.items()},
        )
        for number, row in enumerate(table.to_pylist(), 1)
    ]


def _segments(rows: Rows, times: _Times, problems: list[Problem]) -> list[Segment]:
    """Returns the segments of those rows of a clip that have an action and readable times, in the nearest frames."""
    segments = []
    for place, row in rows:
        frames = []
        for column in times.columns:
            cell = row[column]
            time = Fraction(cell) if _NUMBER.fullmatch(cell) else None
            if time is None or (times.fps is None and time.denominator != 1):
                expected = "a number of seconds" if times.fps else "a whole number of frames"
                problems.append(Problem(rule="type", place=f"{place}, {column}", value=cell, expected=expected))
            else:
                frames.append(math.floor(time * (times.fps or 1) + Fraction(1, 2)))
        if len(frames) == 2 and row["action"]:
            segments.append(Segment(row["action"], frames[0], frames[1], place))
    return segments


def _inclusive(clips: Iterable[Sequence[Segment]]) -> bool:
    """Returns whether each segment begins one frame after the end of the one before it, if there are enough to tell."""
    ordered = [sorted(segments, key=lambda segment: segment.start) for segments in clips]
    gaps = [after.start - before.stop for segments in ordered for before, after in pairwise(segments)]
    return len(gaps) >= _ENOUGH and set(gaps) == {1}
