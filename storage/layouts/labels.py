"""Frame labels in text files, one name per line, as runs of equal names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from storage.errors import Problem, StoreError, counted, nearest, some
from storage.layouts import LengthPolicy
from storage.layouts.text import read_lines


@dataclass(frozen=True, slots=True)
class Labels:
    """Frame labels of a clip as runs.

    Attributes:
        names: action of each run; neighbours differ.
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
        run_of_label = np.repeat(np.arange(len(self.lengths)), self.lengths)
        places = ((2 * np.arange(n_frames) + 1) * len(run_of_label)) // (2 * n_frames)
        return Labels.from_frames(self.names[run] for run in run_of_label[places])


def read_labels(path: Path) -> Labels:
    """Reads the labels of one clip.

    Raises:
        StoreError: the file cannot be read, is empty, or has blank lines between labels.
    """
    lines = read_lines(path)
    blank = [number for number, line in enumerate(lines, 1) if not line]
    if blank:
        message = f"blank lines between labels (lines {some(blank)})"
        raise StoreError(Problem(rule="missing", place=f"{path}:{blank[0]}", value=blank, message=message))
    if not lines:
        raise StoreError(Problem(rule="missing", place=str(path), message="empty file, expected a label per frame"))
    return Labels.from_frames(lines)


def unknown_label_problems(labels: Mapping[Path, Labels], actions: Sequence[str], mapping: Path) -> list[Problem]:
    """Reports each label that is not in the mapping, with its first line and its number of frames."""
    names = set(actions)
    frames: dict[str, int] = {}
    files: dict[str, list[tuple[Path, int]]] = {}
    for path, runs in labels.items():
        line = 1
        for name, length in zip(runs.names, runs.lengths, strict=True):
            if name not in names:
                frames[name] = frames.get(name, 0) + length
                files.setdefault(name, []).append((path, line))
            line += length
    return [
        Problem(
            rule="unknown",
            place=f"{places[0][0]}:{places[0][1]}",
            value=name,
            message=f"unknown label {name!r}{nearest(name, actions)} in {counted(frames[name], 'frame')} of "
            f"{counted(len({path for path, _ in places}), 'file')}",
            hint=f"correct it or add it to {mapping}",
        )
        for name, places in sorted(files.items())
    ]


def fitted(
    video: str, n_features: int, labels: Labels, policy: LengthPolicy, tolerance: int
) -> tuple[int, Labels, str | None]:
    """Brings features and labels of one clip to the same length.

    Args:
        video: name of the clip.
        n_features: frames of its features.
        labels: labels of its frames.
        policy: treatment of a difference beyond the tolerance.
        tolerance: largest difference, in frames, for which the longer of the two loses its last frames.

    Returns:
        The number of frames to keep, their labels, and a note about the difference, if any.

    Raises:
        StoreError: the difference exceeds the tolerance and the policy is `error`.
    """
    n_labels = labels.n_frames
    if n_features == n_labels:
        return n_features, labels, None
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
