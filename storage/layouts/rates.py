"""Frame rates of features and labels, as far as their numbers show them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

_RATES = frozenset(Fraction(a, b) for a in range(1, 7) for b in range(1, 7)) | {
    rate for n in (8, 10, 12, 15, 16, 20, 24, 25, 30, 32) for rate in (Fraction(n), Fraction(1, n))
}
"""Frames of features per label that occur in practice."""


def common_rates(counts: Sequence[tuple[int, int]]) -> set[Fraction]:
    """Returns the simple numbers of frames per label that explain all counts; the end may be rounded either way.

    Args:
        counts: frames and labels of each clip.

    >>> common_rates([(40, 10), (41, 11)]), common_rates([(300, 7), (200, 7)])
    ({Fraction(4, 1)}, set())
    """
    return {rate for rate in _RATES if counts and all(_explains(rate, *count) for count in counts)}


def _explains(rate: Fraction, frames: int, labels: int) -> bool:
    by_labels, by_frames = labels * rate, frames / rate
    return frames in (math.floor(by_labels), math.ceil(by_labels)) or labels in (
        math.floor(by_frames),
        math.ceil(by_frames),
    )
