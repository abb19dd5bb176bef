"""Rounds real lengths to whole frames that fill a recording exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mucon.arrays import Floats, Ints
from mucon.errors import InputError, Problem, check_ranges


def largest_remainder(lengths: ArrayLike, n_frames: int) -> Ints:
    """Whole lengths proportional to `lengths`, at least 1 each, that sum to `n_frames` exactly.

    A segment whose share is below one frame gets one; the others share the remaining frames proportionally. Each share
    is rounded down, and the missing frames go to the largest remainders, to the earlier segment among equals. If all
    shares are at least one frame, each changes by less than one frame.
    Deviation: the published program rounds each length independently, so that they need not sum to T.

    Args:
        lengths: `[M]`, finite and not negative, not all 0; in any unit.
        n_frames: T, at least M.

    Returns:
        `[M]` frames.

    Raises:
        InputError: no segment, fewer frames than segments, or a length that is negative, NaN or infinite.

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
        if small.all():  # one frame per segment, and the quotas of 1 were rounded down
            return result
        left -= int(small.sum())
        free[np.flatnonzero(free)[small]] = False
    whole = np.floor(quotas).astype(np.int64)
    missing = left - int(whole.sum())
    order = np.argsort(whole - quotas, kind="stable")
    whole[order[:missing]] += 1
    result[free] = whole
    return result


def _check(shares: Floats, n_frames: int) -> None:
    if not len(shares):
        raise InputError(Problem(rule="missing", place="lengths", expected="at least one"))
    expected = "a finite length of at least 0"
    check_ranges(
        "", [(f"lengths[{m}]", share, expected, 0 <= share < np.inf) for m, share in enumerate(shares.tolist())]
    )
    check_ranges("", [("sum of the lengths", 0, "above 0", shares.max() > 0)])
    if n_frames < len(shares):
        expected = f"at least {len(shares)} (one per segment)"
        raise InputError(Problem(rule="mismatch", place="n_frames", value=n_frames, expected=expected))
