"""Annotations without features: a folder with `transcripts.csv`.

    transcripts*.csv    a recording a row: video, transcript; lengths, frames, subject, activity if known
    segments*.csv       a segment a row: video, label, length

A column `frames_without_last_X` instead of `frames` says that a last segment X may be missing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mucon.errors import InputError, nearest

TRANSCRIPTS = "transcripts.csv"
_CUT = re.compile(r"frames_without_last_(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """What is known of a recording.

    Attributes:
        id: its name.
        transcript: names of its actions.
        lengths: frames of its segments, None where they are not known.
        frames: their sum, None where it is not known.
        group: who or what it shares with others (the subject).
        activity: what the recording as a whole shows.
        cut: the action with which it may go on, though that is not annotated.
        place: file and line.
    """

    id: str
    transcript: tuple[str, ...]
    lengths: tuple[int, ...] | None
    frames: int | None
    group: str | None
    activity: str | None
    cut: str | None
    place: str


def read_annotations(folder: Path) -> list[Annotation]:
    """The recordings of a folder, in the order of their names.

    Raises:
        InputError: files or columns that are missing, and rows that contradict themselves or each other; all told at
            once.
    """
    if not (folder / TRANSCRIPTS).is_file():
        raise InputError(
            f"recordings to simulate stand in {TRANSCRIPTS}, {folder} has no such file: name a folder that has one, "
            "or a store"
        )
    problems: list[str] = []
    found: dict[str, Annotation] = {}
    for path in sorted(folder.glob("transcripts*.csv")):
        for place, row in rows_of(path, ("video", "transcript"), problems):
            annotation = _annotation(row, place, problems)
            if annotation.id in found:
                first = found[annotation.id].place
                problems.append(f"a video has one row, {annotation.id!r} has {first} and {place}: remove one")
            found[annotation.id] = annotation
    segments: dict[str, list[tuple[str, int]]] = {}
    for path in sorted(folder.glob("segments*.csv")):
        for place, row in rows_of(path, ("video", "label", "length"), problems):
            length = _whole(row["length"], "length", place, problems)
            segments.setdefault(row["video"], []).append((row["label"], length or 0))
            if row["video"] not in found:
                problems.append(
                    f"a segment belongs to a row of {TRANSCRIPTS}, {place} has video {row['video']!r}"
                    f"{nearest(row['video'], list(found))}: add that video or correct its name"
                )
    annotations = [_with_segments(found[id], segments.get(id), problems) for id in sorted(found)]
    if not found and not problems:
        problems.append(f"{TRANSCRIPTS} has at least one video, {folder / TRANSCRIPTS} has none: add rows")
    if problems:
        raise InputError(problems)
    return annotations


def _annotation(row: Mapping[str, str], place: str, problems: list[str]) -> Annotation:
    """A row of `transcripts*.csv`, and a line for each of its contradictions."""
    id, transcript = row["video"], tuple(row["transcript"].split())
    say: Callable[[str], None] = problems.append
    if not id:
        say(f"a row names its video, {place} does not: name it or remove the row")
    if not transcript:
        say(f"a transcript has at least one action, {place} ({id!r}) has none: annotate it or remove the row")
    before = len(problems)
    lengths = None
    if cells := row.get("lengths", "").split():
        lengths = tuple(_whole(cell, "length", place, problems) or 0 for cell in cells)
        if len(lengths) != len(transcript):
            say(
                f"an action has one length, {place} ({id!r}) has {len(transcript)} actions and {len(lengths)} lengths: "
                "correct one of them"
            )
    cut = next((matched[1] for name in row if (matched := _CUT.fullmatch(name))), None)
    text = row.get("frames") or row.get(f"frames_without_last_{cut}") or ""
    frames = _whole(text, "frames", place, problems) if text else None
    if len(problems) == before:
        if lengths is not None and frames is not None and sum(lengths) != frames:
            say(f"lengths add up to frames, those of {place} ({id!r}) to {sum(lengths)}, not {frames}: correct one")
        if frames is not None and len(transcript) > frames:
            say(f"an action lasts a frame, {place} ({id!r}) has {len(transcript)} in {frames} frames: correct one")
    if frames is None and lengths is not None:
        frames = sum(lengths)
    return Annotation(
        id=id,
        transcript=transcript,
        lengths=lengths,
        frames=frames,
        group=row.get("subject") or None,
        activity=row.get("activity") or None,
        cut=cut,
        place=place,
    )


def _with_segments(
    annotation: Annotation, segments: Sequence[tuple[str, int]] | None, problems: list[str]
) -> Annotation:
    """The annotation with the lengths of its segments, which must not contradict it."""
    if segments is None:
        return annotation
    labels, lengths = tuple(label for label, _ in segments), tuple(length for _, length in segments)
    place = f"{annotation.place} ({annotation.id!r})"
    if labels != annotation.transcript:
        problems.append(
            f"a video's segments are its transcript, those of {place} are {' '.join(labels)}, the transcript is "
            f"{' '.join(annotation.transcript)}: correct one of them"
        )
    elif annotation.lengths not in (None, lengths) or annotation.frames not in (None, sum(lengths)):
        problems.append(
            f"a video's segments have its lengths, those of {place} have {lengths} with the sum {sum(lengths)}, its "
            f"row says {annotation.lengths or 'no lengths'} and {annotation.frames} frames: correct one of them"
        )
    return replace(annotation, lengths=lengths, frames=sum(lengths))


def rows_of(path: Path, columns: Sequence[str], problems: list[str]) -> list[tuple[str, dict[str, str]]]:
    """Place and cells, without blanks at their ends, of each row that has all its cells."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            names = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problems.append(f"a table is a CSV file in UTF-8, {path} cannot be read as one ({error}): correct it")
        return []
    missing = [name for name in columns if name not in names]
    if missing:
        problems.append(
            f"{path.name} has the columns {', '.join(columns)}, {path} lacks {', '.join(missing)}: add them to its "
            "first line"
        )
        return []
    whole = []
    for line, row in rows:
        if None in row or None in row.values():
            problems.append(f"a row has {len(names)} cells, line {line} of {path} has more or fewer: correct it")
        else:
            whole.append((f"line {line} of {path}", {name: cell.strip() for name, cell in row.items()}))
    return whole


def _whole(text: str, name: str, place: str, problems: list[str]) -> int | None:
    """A whole number from 1, or a line about it."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        problems.append(f"{name} is a whole number from 1, {place} has {text!r}: correct it")
        return None
    return int(text)
