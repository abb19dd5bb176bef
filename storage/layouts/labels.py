"""Frame labels in text files, one name per line, as runs of equal names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from storage.errors import Problem, StoreError, counted, some
from storage.layouts import LengthPolicy
from storage.layouts.text import read_lines

_NUMBER = r"\d[\d.:]*"
_SPAN = rf"{_NUMBER}(?:\s*(?:->|to|[-–—~,;])\s*|\s+){_NUMBER}"
_SEGMENT = re.compile(rf"[\[(]?{_SPAN}[\])]?[\s,;:]+\S.*|\S.*?[\s,;:]+[\[(]?{_SPAN}\b.*")
"""A segment with its times, such as `1-30 SIL`, `80 219 G1` and `take (45-120) [1]`."""
_NUMBERED = re.compile(r"(\d+(?:\.\d+)?)[\s,;:.)]+\S")
"""A name after the number of its line or frame, or after its time."""


class Occurrence(NamedTuple):
    """A name in a file.

    Attributes:
        name: name of an action.
        path: the file.
        place: the file and the first line with that name.
        lines: number of lines in a row with that name.
    """

    name: str
    path: Path
    place: str
    lines: int


@dataclass(frozen=True, slots=True)
class Labels:
    """Frame labels of a clip as runs.

    Attributes:
        names: action of each run; neighbours differ unless the lengths of the segments were given.
        lengths: frames of each run.
    """

    names: tuple[str, ...]
    lengths: tuple[int, ...]

    @classmethod
    def from_frames(cls, frames: Iterable[str]) -> Labels:
        """Groups one name per frame into runs.

        >>> Labels.from_frames(["a", "a", "b", "a"])
        Labels(names=('a', 'b', 'a'), lengths=(2, 1, 1))
        """
        runs = [(name, sum(1 for _ in run)) for name, run in groupby(frames)]
        return cls(tuple(name for name, _ in runs), tuple(length for _, length in runs))

    def occurrences(self, path: Path) -> Iterator[Occurrence]:
        """Yields each run with its first line in the file of the labels."""
        line = 1
        for name, length in zip(self.names, self.lengths, strict=True):
            yield Occurrence(name, path, f"{path}:{line}", length)
            line += length

    @property
    def n_frames(self) -> int:
        """Number of labelled frames."""
        return sum(self.lengths)

    def cropped(self, n_frames: int) -> Labels:
        """Returns the labels of the first `n_frames` frames.

        >>> Labels(("a", "b"), (2, 3)).cropped(3)
        Labels(names=('a', 'b'), lengths=(2, 1))
        """
        stops = np.minimum(np.cumsum(self.lengths), n_frames)
        kept = np.diff(stops, prepend=0)
        return Labels(self.names[: int((kept > 0).sum())], tuple(kept[kept > 0].tolist()))

    def resampled(self, n_frames: int) -> Labels:
        """Resamples L labels to n frames: frame t receives label `floor((t + 0.5) L / n)`.

        >>> Labels(("a", "b"), (2, 2)).resampled(6)
        Labels(names=('a', 'b'), lengths=(3, 3))
        """
        places = ((2 * np.arange(n_frames) + 1) * self.n_frames) // (2 * n_frames)
        runs = np.searchsorted(np.cumsum(self.lengths), places, side="right")
        return Labels.from_frames(self.names[run] for run in runs)

    def filled(self, n_frames: int, name: str) -> Labels:
        """Returns the labels with the frames up to `n_frames` as another segment, or as a part of the last one.

        >>> Labels(("a",), (2,)).filled(5, "SIL"), Labels(("SIL",), (2,)).filled(5, "SIL")
        (Labels(names=('a', 'SIL'), lengths=(2, 3)), Labels(names=('SIL',), lengths=(5,)))
        """
        rest = n_frames - self.n_frames
        if rest <= 0:
            return self
        if self.names[-1:] == (name,):
            return Labels(self.names, (*self.lengths[:-1], self.lengths[-1] + rest))
        return Labels((*self.names, name), (*self.lengths, rest))

    def sampled(self, rate: int) -> tuple[int, ...]:
        """Returns the frames that each run keeps of the frames 0, K, 2K, ...

        >>> Labels(("a", "b", "c"), (5, 2, 2)).sampled(4)
        (2, 0, 1)
        """
        kept = -(-np.cumsum(self.lengths) // rate)
        return tuple(np.diff(kept, prepend=0).tolist())


def read_names(path: Path) -> list[str]:
    """Reads the lines of a file with one name per line.

    Raises:
        StoreError: the file cannot be read, is empty, or has blank lines between names.
    """
    lines = read_lines(path)
    blank = [number for number, line in enumerate(lines, 1) if not line]
    if blank:
        message = f"{counted(len(blank), 'blank line')} between names ({some(blank)})"
        hint = "remove them, or write the missing names"
        raise StoreError(Problem(rule="missing", place=f"{path}:{blank[0]}", value=blank, message=message, hint=hint))
    if not lines:
        raise StoreError(Problem(rule="missing", place=str(path), message="empty file, expected a name per line"))
    return lines


def read_labels(path: Path) -> Labels:
    """Reads the labels of one clip.

    Raises:
        StoreError: see `read_names`.
    """
    return Labels.from_frames(read_names(path))


def other_form(lines: Sequence[str]) -> str:
    """Returns what the lines of a file are if they are not names; an empty string if they are.

    The first of at least three lines may be a header.

    >>> other_form(["1-30 SIL", "31-80 pour"]), other_form(["0 SIL", "1 SIL"]), other_form(["SIL", "pour 2"])
    ('segments with times', 'numbered lines', '')
    """
    for body in (lines, lines[1:] if len(lines) > 2 else ()):
        if body and all(_SEGMENT.fullmatch(line) for line in body):
            return "segments with times"
        numbers = [float(match[1]) for line in body if (match := _NUMBERED.match(line))]
        if len(numbers) == len(body) > 1 and all(a < b for a, b in pairwise(numbers)):
            return "numbered lines"
    return ""


class Segment(NamedTuple):
    """A segment with its times.

    Attributes:
        name: name of the action.
        start: first frame.
        stop: frame after the last one.
        place: file and line.
    """

    name: str
    start: int
    stop: int
    place: str


def labels_of_segments(segments: Iterable[Segment], fill: str | None = None, *, first: int = 0) -> Labels:
    """Joins the segments of one clip, in the order of their times, to labels from frame 0 to the end of the last one.

    Neighbours of the same action stay two segments.

    Args:
        segments: segments in any order; at least one.
        fill: action of the frames before and between the segments; None refuses such gaps.
        first: number that the annotation gives to frame 0, for the problems.

    Raises:
        StoreError: segments without a frame, gaps, and overlaps. Of a gap that contains a time of a segment without a
            frame, only the segment is reported.

    >>> labels_of_segments([Segment("a", 0, 3, "x:1"), Segment("b", 5, 9, "x:2")], fill="SIL")
    Labels(names=('a', 'SIL', 'b'), lengths=(3, 2, 4))
    """
    problems: list[Problem] = []
    gaps: list[tuple[int, int, Problem]] = []
    wrong: list[int] = []
    labels = Labels((), ())
    hint = "correct the times, or name the action between the segments with --fill"
    for segment in sorted(segments, key=lambda segment: segment.start):
        name, start, stop, place = segment
        end = labels.n_frames
        if start < 0 or stop <= start:
            expected = "a start of at least 0 and an end after it, in frames"
            if first:
                expected = "a last frame that is not before the first"
            problems.append(Problem(rule="range", place=place, value=[start + first, stop], expected=expected))
            wrong += [start, stop]
            continue
        if start < end:
            message = f"shares {_frames(start + first, min(stop, end) + first)} with another segment"
            problems.append(
                Problem(rule="conflict", place=place, value=start, message=message, hint="correct the times")
            )
        if start > end and fill is None:
            message = f"no action at {_frames(end + first, start + first)} before this segment"
            problem = Problem(rule="missing", place=place, value=[end, start], message=message, hint=hint)
            gaps.append((end, start, problem))
        labels = labels.filled(start, fill or "")
        if start > end and name == fill:  # the gap before the segment is a part of it
            labels = labels.filled(stop, name)
        else:
            labels = Labels((*labels.names, name), (*labels.lengths, max(stop, end) - max(start, end)))
    problems += [gap for begin, end, gap in gaps if not any(begin <= time <= end for time in wrong)]
    if problems:
        raise StoreError(problems)
    return labels


def _frames(start: int, stop: int) -> str:
    """The frames before `stop` in words."""
    return f"frame {start}" if stop == start + 1 else f"the frames {start} to {stop - 1}"


def looks_like_transcript(labels: Labels, n_features: int) -> bool:
    """Returns whether labels are rather one line per segment than labels of frames at a lower rate.

    Labels of frames repeat: most lines are equal to the line before. Lines of a transcript rarely are, and they are far
    fewer than the frames.

    >>> looks_like_transcript(Labels(("a", "b"), (1, 1)), 60), looks_like_transcript(Labels(("a", "b"), (5, 10)), 60)
    (True, False)
    """
    lines, changes = labels.n_frames, len(labels.names)
    if changes == lines:
        return 4 * lines < 3 * n_features
    return 2 * lines < n_features and 2 * changes > lines


def fitted(
    video: str,
    n_features: int,
    labels: Labels,
    policy: LengthPolicy,
    tolerance: int,
    *,
    sampled: bool = False,
    hint: str = "",
) -> tuple[int, Labels, str | None]:
    """Brings features and labels of one clip to the same length.

    Args:
        video: name of the clip.
        n_features: frames of its features.
        labels: labels of its frames.
        policy: treatment of a difference beyond the tolerance.
        tolerance: largest difference, in frames, for which the longer of the two loses its last frames.
        sampled: whether the labels of the dataset are known to be labels of frames at another rate.
        hint: what to do with labels that are a transcript.

    Returns:
        The number of frames to keep, their labels, and a note about the difference, if any.

    Raises:
        StoreError: the difference exceeds the tolerance and the policy is `error`, or the labels are a transcript.
    """
    n_labels = labels.n_frames
    if n_features == n_labels:
        return n_features, labels, None
    if not sampled and looks_like_transcript(labels, n_features):
        message = f"{counted(n_labels, 'label')} for {counted(n_features, 'frame')}, which look like a transcript"
        raise StoreError(Problem(rule="mismatch", place=video, value=n_labels, message=message, hint=hint))
    difference = f"{counted(n_features, 'frame')} of features but {counted(n_labels, 'label')}"
    beyond = abs(n_features - n_labels) > tolerance
    if beyond and policy == "error":
        raise StoreError(
            Problem(
                rule="mismatch",
                place=video,
                value=n_labels,
                message=f"{difference}, expected a difference of at most {tolerance}",
                hint="correct the files, or use --length-tolerance or --length-policy",
            )
        )
    if beyond and policy == "resample":
        return n_features, labels.resampled(n_features), f"{video}: {difference}; resampled the labels"
    kept = min(n_features, n_labels)
    dropped = abs(n_features - n_labels)
    return kept, labels.cropped(kept), f"{video}: {difference}; dropped the last {dropped} of the longer"
