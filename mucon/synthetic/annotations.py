"""Reads annotations without features from a folder with `transcripts.csv`.

    transcripts*.csv    one recording per row: video, transcript; optionally lengths, frames, subject, activity
    segments*.csv       one segment per row: video, label, length

A column `frames_without_last_X` instead of `frames` means that a last segment X may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mucon.errors import InputError, Problem, condensed, nearest
from storage.tables import rows_of, whole

TRANSCRIPTS = "transcripts.csv"
_CUT = re.compile(r"frames_without_last_(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Annotation of a recording.

    Attributes:
        transcript: names of the actions.
        lengths: frames of the segments; None if unknown.
        frames: sum of the lengths; None if unknown.
        group: what it shares with other recordings (the subject).
        activity: what the whole recording shows.
        cut: action of a last segment that may be missing.
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
    """Reads the recordings of a folder, in the order of their names.

    Raises:
        InputError: one problem per missing file or column and per row that contradicts itself or other rows.
    """
    if not (folder / TRANSCRIPTS).is_file():
        hint = f"expected a folder with {TRANSCRIPTS}, or a store"
        raise InputError(Problem(rule="missing", place=str(folder / TRANSCRIPTS), message="no such file", hint=hint))
    problems: list[Problem] = []
    by_id: dict[str, Annotation] = {}
    for path in sorted(folder.glob("transcripts*.csv")):
        for place, row in rows_of(path, ("video", "transcript"), problems):
            annotation = _annotation(row, place, problems)
            if annotation.id in by_id:
                message = f"duplicate video {annotation.id!r}, first in {by_id[annotation.id].place}"
                problems.append(Problem(rule="duplicate", place=place, value=annotation.id, message=message))
            by_id[annotation.id] = annotation
    segments: dict[str, list[tuple[str, int]]] = {}
    for path in sorted(folder.glob("segments*.csv")):
        for place, row in rows_of(path, ("video", "label", "length"), problems):
            length = whole(row["length"], "length", place, problems)
            segments.setdefault(row["video"], []).append((row["label"], length or 0))
            if (video := row["video"]) not in by_id:
                message = f"{TRANSCRIPTS} has no video {video!r}{nearest(video, list(by_id))}"
                problems.append(Problem(rule="unknown", place=place, value=video, message=message))
    annotations = [_with_segments(by_id[id], segments.get(id), problems) for id in sorted(by_id)]
    if not by_id and not problems:
        problems.append(Problem(rule="missing", place=str(folder / TRANSCRIPTS), expected="at least one video"))
    if problems:
        raise InputError(condensed(problems))
    return annotations


def _annotation(row: Mapping[str, str], place: str, problems: list[Problem]) -> Annotation:
    """The annotation of a row of `transcripts*.csv`; appends one problem per contradiction."""
    id, transcript = row["video"], tuple(row["transcript"].split())
    if not id:
        problems.append(Problem(rule="missing", place=f"{place}, video", expected="a name"))
    if not transcript:
        problems.append(Problem(rule="missing", place=f"{place}, transcript", expected="at least one action"))
    before = len(problems)
    lengths = None
    if cells := row.get("lengths", "").split():
        lengths = tuple(whole(cell, "length", place, problems) or 0 for cell in cells)
        if len(lengths) != len(transcript):
            expected = f"{len(transcript)} lengths (one per action)"
            problems.append(Problem(rule="mismatch", place=f"{place}, lengths", value=len(lengths), expected=expected))
    cut = next((matched[1] for name in row if (matched := _CUT.fullmatch(name))), None)
    text = row.get("frames") or row.get(f"frames_without_last_{cut}") or ""
    frames = whole(text, "frames", place, problems) if text else None
    if len(problems) == before:
        if lengths is not None and frames is not None and sum(lengths) != frames:
            expected = f"{sum(lengths)}, the sum of the lengths"
            problems.append(Problem(rule="mismatch", place=f"{place}, frames", value=frames, expected=expected))
        if frames is not None and len(transcript) > frames:
            expected = f"at least {len(transcript)} (one frame per action)"
            problems.append(Problem(rule="mismatch", place=f"{place}, frames", value=frames, expected=expected))
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
    annotation: Annotation, segments: Sequence[tuple[str, int]] | None, problems: list[Problem]
) -> Annotation:
    """The annotation with the lengths of its segments; appends a problem if they contradict it."""
    if segments is None:
        return annotation
    labels, lengths = tuple(label for label, _ in segments), tuple(length for _, length in segments)
    place = f"{annotation.place}, segments of {annotation.id}"
    if labels != annotation.transcript:
        expected = f"the transcript {' '.join(annotation.transcript)!r}"
        problems.append(Problem(rule="mismatch", place=place, value=" ".join(labels), expected=expected))
    elif annotation.lengths not in (None, lengths) or annotation.frames not in (None, sum(lengths)):
        expected = f"lengths {annotation.lengths or ''} with the sum {annotation.frames}"
        problems.append(Problem(rule="mismatch", place=place, value=lengths, expected=expected))
    return replace(annotation, lengths=lengths, frames=sum(lengths))
