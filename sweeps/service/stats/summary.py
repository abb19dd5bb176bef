"""Where the mean over seeds lies: Student's t, which holds its level with 3 or 5 seeds (the bootstrap does not)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from mucon.errors import InputError
from sweeps.service.stats.significance import check_finite
from sweeps.service.text import significant


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


@dataclass(frozen=True, slots=True)
class Summary:
    """A score over seeds.

    Attributes:
        mean: of the seeds' values, a fraction.
        std: sample standard deviation (n - 1), None with one seed.
        n: seeds.
        interval: Student's 95 % interval of the mean, lowest and highest; None with one seed.
    """

    mean: float
    std: float | None
    n: int
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary | None:
        """Mean, deviation and interval of at least one value, or None.

        >>> summary = Summary.of([0.25, 0.75, 0.5])
        >>> summary.mean, summary.std, summary.n, [round(end, 3) for end in summary.interval]
        (0.5, 0.25, 3, [-0.121, 1.121])
        """
        if not values:
            return None
        found = t_interval(values)
        half = found.half_width
        return cls(found.mean, found.std, found.n, None if half is None else (found.mean - half, found.mean + half))

    def parts(self, unit: str) -> tuple[str, str | None]:
        """Mean and deviation as the field prints them.

        >>> Summary(0.4901, 0.0203, 5).parts("percent"), Summary(0.774, None, 1).parts("fraction")
        (('49.0', '2.0'), ('0.774', None))
        >>> Summary(1362.4, 702.0, 3).parts("seconds"), Summary(0.0352, 0.0046, 3).parts("seconds")
        (('1362', '702'), ('0.0352', '0.0046'))
        """
        if unit == "seconds":
            return significant(self.mean, 3), None if self.std is None else significant(self.std, 2)
        scale, digits = {"percent": (100, 1), "fraction": (1, 3), "frames": (1, 1)}[unit]
        return f"{scale * self.mean:.{digits}f}", None if self.std is None else f"{scale * self.std:.{digits}f}"

    def text(self, unit: str) -> str:
        """Both as one text.

        >>> Summary(0.4901, 0.0203, 5).text("percent"), Summary(0.774, 0.006, 5).text("fraction")
        ('49.0±2.0', '0.774±0.006')
        """
        mean, std = self.parts(unit)
        return mean if std is None else f"{mean}±{std}"
