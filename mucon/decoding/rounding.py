"""Real lengths to whole frames that fill a recording exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.errors import InputError


def largest_remainder(lengths: ArrayLike, n_frames: int) -> NDArray[np.int64]:
    """Whole lengths in the proportion of `lengths`, at least 1 each, that sum to `n_frames` exactly.

    A segment whose share is under one frame gets one; the others share what is left in their proportion. Each gets
    its share rounded down, and the frames still missing go to the largest remainders, the earlier segment first
    among equals. A share of at least one frame everywhere therefore moves by less than one frame.
    Deviation: the published program rounds each length by itself, so that they need not sum to T.

    Args:
        lengths: `[M]`, finite and not negative, not all 0; in frames or in any other unit.
        n_frames: T, at least M.

    Returns:
        `[M]`, frames.

    Raises:
        InputError: no segment, fewer frames than segments, or a length that is negative, NaN, infinite.

    >>> largest_remainder([0.2, 2.5, 2.5, 4.8], 10).tolist()
    [1, 2, 2, 5]
    """
    shares = np.asarray(lengths, dtype=np.float64).reshape(-1)
    _check(shares, n_frames)
    shares = shares / shares.max()
    result = np.ones(len(shares), dtype=np.int64)
    free = np.ones(len(shares), dtype=bool)
    left = int(n_frames)
    while True:
        quotas = shares[free] * (left / shares[free].sum())
        small = quotas < 1
        if not small.any():
            break
        if small.all():  # as many frames as segments, and the quotas of 1 were rounded down
            return result
        left -= int(small.sum())
        free[np.flatnonzero(free)[small]] = False
    whole = np.floor(quotas).astype(np.int64)
    missing = left - int(whole.sum())
    order = np.argsort(whole - quotas, kind="stable")
    whole[order[:missing]] += 1
    result[free] = whole
    return result


def _check(shares: NDArray[np.float64], n_frames: int) -> None:
    if not len(shares):
        raise InputError("lengths belong to at least one segment, there is none: give one length for each action")
    wrong = np.flatnonzero(~(np.isfinite(shares) & (shares >= 0)))
    if len(wrong):
        raise InputError(
            f"a segment's length is finite and at least 0, segment {m} has {shares[m]}: correct the length"
            for m in wrong.tolist()
        )
    if not shares.max() > 0:
        raise InputError(f"at least one of {len(shares)} lengths is above 0, all are 0: give their proportions")
    if n_frames < len(shares):
        raise InputError(
            f"each segment has at least one frame, {len(shares)} segments cannot fill {n_frames} frames: "
            "give a shorter transcript or more frames"
        )
