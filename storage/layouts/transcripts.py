"""Transcripts of datasets: `transcripts/NAME.txt` with an action per line, or one `transcripts.csv`.

`transcripts.csv` has a row per recording with the columns `video` and `transcript` (actions separated by blanks) and
optionally `lengths` (frames of the actions), `subject` and `activity`; other columns are noted and ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from storage.errors import Problem, StoreError, counted
from storage.layouts.findings import Findings
from storage.layouts.labels import Labels, Occurrence, read_names
from storage.layouts.text import find_files
from storage.tables import rows_of, whole

FOLDER, TABLE = "transcripts", "transcripts.csv"
_COLUMNS = frozenset({"video", "transcript", "lengths", "subject", "activity"})


@dataclass(frozen=True, slots=True)
class Transcript:
    """Actions of a clip in order; an action may follow itself.

    Attributes:
        names: names of the actions.
        path: file of the transcript.
        row: place of the transcript in a table; None for a file with an action per line.
        labels: the actions with their lengths, if the table has them.
        group: subject in the table.
        activity: activity in the table.
    """

    names: tuple[str, ...]
    path: Path
    row: str | None = None
    labels: Labels | None = None
    group: str | None = None
    activity: str | None = None

    def place(self, index: int) -> str:
        """Returns file and line of an action."""
        return self.row or f"{self.path}:{index + 1}"

    def occurrences(self) -> Iterator[Occurrence]:
        """Yields each action with its place."""
        for index, name in enumerate(self.names):
            yield Occurrence(name, self.path, self.place(index), 1)

    def contradiction(self, labels: Labels, path: Path) -> Problem | None:
        """Returns a problem if labels of frames in a file have other segments than the transcript."""
        for index, (here, there) in enumerate(zip_longest(self.names, labels.names)):
            if here != there:
                message = f"segment {index + 1} is {here or 'missing'} here and {there or 'missing'} in {path}"
                place = self.place(min(index, len(self.names) - 1))
                return Problem(rule="mismatch", place=place, value=here, message=message, hint="correct one of them")
        if self.labels is not None and self.labels != labels:
            expected = f"{list(labels.lengths)} as in {path}"
            place, value = f"{self.place(0)}, lengths", list(self.labels.lengths)
            return Problem(rule="mismatch", place=place, value=value, expected=expected)
        return None


def length_problems(transcript: Transcript, frames: int) -> list[Problem]:
    """Reports a transcript with more actions than frames, and one that is a label per frame."""
    lines, changes = len(transcript.names), len(Labels.from_frames(transcript.names).names)
    place = transcript.place(0)
    if lines * 2 >= frames and changes * 2 <= lines and not transcript.row:
        message = f"{lines} lines for {counted(frames, 'frame')}, which look like labels of frames"
        hint = "move such files to groundTruth/"
        return [Problem(rule="mismatch", place=place, value=lines, message=message, hint=hint)]
    if lines > frames:
        expected = f"at most {counted(frames, 'action')}, one per frame"
        return [Problem(rule="mismatch", place=place, value=lines, expected=expected)]
    return []


def read_transcripts(source: Path, findings: Findings) -> dict[str, Transcript | None]:
    """Reads the transcripts of a dataset by the names that they give their clips; None for one that cannot be read.

    Args:
        source: folder of the dataset; it may contain a folder or a table of transcripts, but not both.
        findings: receives the problems of the files.
    """
    folder, table = source / FOLDER, source / TABLE
    if folder.is_dir() and table.exists():
        message = f"{FOLDER}/ and {TABLE} both exist"
        findings.report([Problem(rule="conflict", place=str(table), message=message, hint="keep one of them")])
    if table.exists():
        return _from_table(table, findings)
    if not folder.is_dir():
        return {}
    files = find_files(folder, ".txt", findings.problems)
    lines = findings.read_all(files, read_names)
    return {name: Transcript(tuple(lines[name]), path) if name in lines else None for name, path in files.items()}


def _from_table(table: Path, findings: Findings) -> dict[str, Transcript | None]:
    problems: list[Problem] = []
    transcripts: dict[str, Transcript | None] = {}
    rows = rows_of(table, ("video", "transcript"), problems)
    if ignored := sorted(set(rows[0][1] if rows else ()) - _COLUMNS):
        findings.notes.append(f"{table}: ignored columns: {', '.join(ignored)}")
    for place, row in rows:
        name = row["video"]
        if not name:
            problems.append(Problem(rule="missing", place=f"{place}, video", expected="a name"))
            continue
        if name in transcripts:
            message = f"duplicate video {name!r}"
            problems.append(Problem(rule="duplicate", place=f"{place}, video", value=name, message=message))
            continue
        try:
            transcripts[name] = _from_row(row, table, place)
        except StoreError as error:
            transcripts[name] = None
            problems += error.problems
    findings.report(problems)
    return transcripts


def _from_row(row: Mapping[str, str], table: Path, place: str) -> Transcript:
    """Returns the transcript of a row.

    Raises:
        StoreError: no action, lengths that are not whole numbers, or another number of lengths than of actions.
    """
    problems: list[Problem] = []
    names = tuple(row["transcript"].split())
    cells = row.get("lengths", "").split()
    lengths = tuple(whole(cell, "lengths", place, problems) or 0 for cell in cells)
    if not names:
        problems.append(Problem(rule="missing", place=f"{place}, transcript", expected="at least one action"))
    if cells and len(cells) != len(names):
        expected = f"{len(names)} lengths (one per action)"
        problems.append(Problem(rule="mismatch", place=f"{place}, lengths", value=len(cells), expected=expected))
    if problems:
        raise StoreError(problems)
    return Transcript(
        names=names,
        path=table,
        row=place,
        labels=Labels(names, lengths) if cells else None,
        group=row.get("subject") or None,
        activity=row.get("activity") or None,
    )
