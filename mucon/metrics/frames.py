"""How many frames have the right label."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def correct_frames(targets: Ints, predictions: Ints, ignored: Collection[int] = ()) -> tuple[int, int]:
    """How many frames are right, and of how many, leaving out the frames whose *target* is among `ignored`.

    The mean over frames (MoF) of many recordings is the sum of the first over the sum of the second.
    Source: the paper's appendix, MoF and MoF-BG.

    Args:
        targets: `[T]`, true labels.
        predictions: `[T]`.
        ignored: background ids.

    >>> correct_frames(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), ignored=(0,))
    (2, 3)
    """
    equal = targets == predictions
    if not ignored:
        return int(np.count_nonzero(equal)), len(targets)
    counted = ~np.isin(targets, list(ignored))
    return int(np.count_nonzero(equal & counted)), int(np.count_nonzero(counted))


def share(part: int, whole: int) -> float | None:
    """`part / whole`, None where nothing was counted."""
    return part / whole if whole else None
