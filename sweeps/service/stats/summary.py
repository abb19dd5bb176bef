"""Where the mean over seeds lies: Student's t, which holds its level with 3 or 5 seeds (the bootstrap does not)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from mucon.errors import InputError
from sweeps.service.stats.significance import check_finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Mean over seeds and the interval that holds the mean of all seeds there could be.

    Attributes:
        mean: of the seeds' values.
        std: sample standard deviation (n - 1); None with one seed.
        n: seeds.
        confidence: share of such intervals that hold the mean.
        half_width: the interval is mean ± this; None with one seed.
        reason: why there is no interval.
    """

    mean: float
    std: float | None
    n: int
    confidence: float
    half_width: float | None
    reason: str | None = None


def t_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Student's t interval of the mean over seeds.

    Splits are paired: a seed's value is its mean over the splits, so that what makes a split hard is no deviation.
    Source: Student (1908).

    Args:
        values: `[B R]`, splits x seeds, or `[R]`, the seeds' values.
        confidence: between 0 and 1.

    Raises:
        InputError: no seed, a value that is NaN or infinite, or a confidence that is none.

    >>> interval = t_interval([[0.2, 0.4, 0.3], [0.4, 0.6, 0.5]])
    >>> print(f"{interval.mean:.3f} ± {interval.half_width:.3f}, deviation {interval.std:.3f} of {interval.n} seeds")
    0.400 ± 0.248, deviation 0.100 of 3 seeds
    >>> t_interval([0.4]).reason
    '1 seed has no interval: 2 seeds have one'
    """
    if not 0 < confidence < 1:
        raise InputError(f"a confidence lies between 0 and 1, not {confidence}: the usual one is 0.95")
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if not table.size:
        raise InputError("an interval needs at least one seed, there is none: leave the row without one")
    check_finite(table)
    seeds = table.mean(axis=0)
    n = len(seeds)
    std = half_width = reason = None
    if n > 1:
        std = float(seeds.std(ddof=1))
        half_width = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * std / math.sqrt(n)
    else:
        reason = "1 seed has no interval: 2 seeds have one"
    return Interval(mean=float(seeds.mean()), std=std, n=n, confidence=confidence, half_width=half_width, reason=reason)
