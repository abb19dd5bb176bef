"""Frame-wise accuracy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from mucon.arrays import Ints


@dataclass(frozen=True, slots=True)
class FrameCounts:
    """Correct and counted frames; adds up over recordings."""

    correct: int
    counted: int

    def __add__(self, other: FrameCounts) -> FrameCounts:
        return FrameCounts(self.correct + other.correct, self.counted + other.counted)

    @property
    def value(self) -> float | None:
        """Share of correct frames; None if no frame is counted."""
        return share(self.correct, self.counted)

    def parts(self) -> dict[str, int]:
        """No counts are reported per recording."""
        return {}


def correct_frames(targets: Ints, predictions: Ints, ignored: Collection[int] = ()) -> FrameCounts:
    """Counts correct frames, without the frames whose *target* is among `ignored`.

    The mean over frames (MoF) of many recordings is the value of the sum of their counts.
    Source: the paper's appendix, MoF and MoF-BG.

    Args:
        targets: `[T]`.
        predictions: `[T]`.
        ignored: background ids.

    >>> correct_frames(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), ignored=(0,))
    FrameCounts(correct=2, counted=3)
    """
    equal = targets == predictions
    if not ignored:
        return FrameCounts(int(np.count_nonzero(equal)), len(targets))
    counted = ~np.isin(targets, list(ignored))
    return FrameCounts(int(np.count_nonzero(equal & counted)), int(np.count_nonzero(counted)))


def share(part: int, whole: int) -> float | None:
    """`part / whole`; None if `whole` is 0."""
    return part / whole if whole else None
