"""Frame labels in text files, one name a line, as runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from storage.errors import StoreError, nearest, some
from storage.layouts import LengthPolicy
from storage.layouts.text import read_lines


@dataclass(frozen=True, slots=True)
class Labels:
    """The runs of a clip's frame labels.

    Attributes:
        names: of the actions, no two equal ones in a row.
        lengths: frames of each.
    """

    names: tuple[str, ...]
    lengths: tuple[int, ...]

    @classmethod
    def from_frames(cls, frames: Iterable[str]) -> Labels:
        """From one name per frame.

        >>> Labels.from_frames(["a", "a", "b", "a"])
        Labels(names=('a', 'b', 'a'), lengths=(2, 1, 1))
        """
        runs = [(name, sum(1 for _ in run)) for name, run in groupby(frames)]
        return cls(tuple(name for name, _ in runs), tuple(length for _, length in runs))

    @property
    def n_frames(self) -> int:
        """Frames that have a label."""
        return sum(self.lengths)

    def cropped(self, n_frames: int) -> Labels:
        """The first `n_frames` frames.

        >>> Labels(("a", "b"), (2, 3)).cropped(3)
        Labels(names=('a', 'b'), lengths=(2, 1))
        """
        stops = np.minimum(np.cumsum(self.lengths), n_frames)
        kept = np.diff(stops, prepend=0)
        return Labels(self.names[: int((kept > 0).sum())], tuple(kept[kept > 0].tolist()))

    def resampled(self, n_frames: int) -> Labels:
        """`n_frames` frames, each with the label at its relative place: frame t has label `floor((t + 0.5) L / n)`.

        >>> Labels(("a", "b"), (2, 2)).resampled(6)
        Labels(names=('a', 'b'), lengths=(3, 3))
        """
        run_of_label = np.repeat(np.arange(len(self.lengths)), self.lengths)
        places = ((2 * np.arange(n_frames) + 1) * len(run_of_label)) // (2 * n_frames)
        return Labels.from_frames(self.names[run] for run in run_of_label[places])


def read_labels(path: Path) -> Labels:
    """The labels of one clip.

    Raises:
        StoreError: the file cannot be read, has no label, or has a blank line between labels.
    """
    lines = read_lines(path)
    blank = [number for number, line in enumerate(lines, 1) if not line]
    if blank:
        raise StoreError(f"each line of a label file is a label, {path} has blank lines ({some(blank)}): remove them")
    if not lines:
        raise StoreError(f"a label file has a label for each frame, {path} is empty: fill it or remove it")
    return Labels.from_frames(lines)


def unknown_label_problems(labels: Mapping[Path, Labels], known: Sequence[str], mapping: Path) -> list[str]:
    """A line for each label that is not in the mapping, with how often and where it first stands."""
    actions = set(known)
    frames: dict[str, int] = {}
    files: dict[str, list[tuple[Path, int]]] = {}
    for path, runs in labels.items():
        line = 1
        for name, length in zip(runs.names, runs.lengths, strict=True):
            if name not in actions:
                frames[name] = frames.get(name, 0) + length
                files.setdefault(name, []).append((path, line))
            line += length
    return [
        f"labels are in the mapping, {name!r} is not in {mapping}{nearest(name, known)}: {frames[name]} frames in "
        f"{len({path for path, _ in places})} files, first {places[0][0]} line {places[0][1]}; correct or add it"
        for name, places in sorted(files.items())
    ]


def fitted(
    video: str, n_features: int, labels: Labels, policy: LengthPolicy, tolerance: int
) -> tuple[int, Labels, str | None]:
    """Features and labels of one clip brought to one length.

    Args:
        video: its id.
        n_features: frames of its features.
        labels: of its frames.
        policy: what to do with a difference beyond the tolerance.
        tolerance: frames; up to it the longer of the two loses its last frames.

    Returns:
        The frames to keep, their labels, and a line about the difference where there is one.

    Raises:
        StoreError: they differ by more than the tolerance and the policy is `error`.
    """
    n_labels = labels.n_frames
    if n_features == n_labels:
        return n_features, labels, None
    what = f"{video}: {n_features} frames of features, {n_labels} labels"
    beyond = abs(n_features - n_labels) > tolerance
    if beyond and policy == "error":
        raise StoreError(
            f"features and labels differ by at most {tolerance} frames, {video} has {n_features} frames of features "
            f"and {n_labels} labels: correct it, or choose --length-tolerance or --length-policy crop or resample"
        )
    if beyond and policy == "resample":
        return n_features, labels.resampled(n_features), f"{what}: labels resampled"
    kept = min(n_features, n_labels)
    return kept, labels.cropped(kept), f"{what}: the last {abs(n_features - n_labels)} dropped"
