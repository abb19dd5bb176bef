"""Mean over seeds with Student's t interval, which keeps its level with 5 seeds, unlike the bootstrap interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from mucon.errors import InputError, Problem
from mucon.metrics.catalogue import DECIMALS, SCALES, Unit
from sweeps.service.stats.significance import MIN_SEEDS, check_finite
from sweeps.service.text import significant


@dataclass(frozen=True, slots=True)
class Summary:
    """A score over seeds, in the unit of the result files.

    Attributes:
        mean: mean over seeds.
        std: sample standard deviation (n - 1); None with one seed.
        n: number of seeds.
        interval: lower and upper end of Student's interval of the mean; None with fewer than `MIN_SEEDS` seeds, where
            it is too wide to mean anything (two seeds: 9 deviations to either side).
    """

    mean: float
    std: float | None
    n: int
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, values: ArrayLike, confidence: float = 0.95) -> Summary | None:
        """Computes mean, deviation and interval over seeds; None without seeds.

        Splits are paired: a seed's value is its mean over the splits, so that differences between splits do not count
        as deviation.
        Source: Student (1908).

        Args:
            values: `[B, R]`, splits x seeds, or `[R]`.
            confidence: level of the interval, between 0 and 1.

        Raises:
            InputError: a NaN or infinite value, or an invalid confidence level.

        >>> summary = Summary.of([[0.2, 0.4, 0.3, 0.2, 0.4], [0.4, 0.6, 0.5, 0.4, 0.6]])
        >>> low, high = summary.interval
        >>> print(f"{summary.mean:.3f} from {low:.3f} to {high:.3f}, deviation {summary.std:.3f} of {summary.n} seeds")
        0.400 from 0.276 to 0.524, deviation 0.100 of 5 seeds
        >>> Summary.of([0.4]), Summary.of([])
        (Summary(mean=0.4, std=None, n=1, interval=None), None)
        """
        if not 0 < confidence < 1:
            raise InputError(
                Problem(rule="range", place="confidence", value=confidence, expected="a number between 0 and 1")
            )
        table = np.atleast_2d(np.asarray(values, dtype=np.float64))
        if not table.size:
            return None
        check_finite(table)
        seeds = table.mean(axis=0)
        mean, n = float(seeds.mean()), len(seeds)
        if n == 1:
            return cls(mean, None, 1)
        std = float(seeds.std(ddof=1))
        if n < MIN_SEEDS:
            return cls(mean, std, n)
        half = float(special.stdtrit(n - 1, (1 + confidence) / 2)) * std / math.sqrt(n)
        return cls(mean, std, n, (mean - half, mean + half))

    def parts(self, unit: Unit) -> tuple[str, str | None]:
        """Mean and deviation as text, with the decimals of the unit.

        >>> Summary(0.4901, 0.0203, 5).parts("percent"), Summary(0.774, None, 1).parts("fraction")
        (('49.0', '2.0'), ('0.774', None))
        >>> Summary(1362.4, 702.0, 3).parts("seconds"), Summary(0.0352, 0.0046, 3).parts("seconds")
        (('1362', '702'), ('0.0352', '0.0046'))
        """
        scale, digits = SCALES[unit], DECIMALS[unit]
        if digits is None:
            return significant(scale * self.mean, 3), None if self.std is None else significant(scale * self.std, 2)
        return f"{scale * self.mean:.{digits}f}", None if self.std is None else f"{scale * self.std:.{digits}f}"

    def text(self, unit: Unit) -> str:
        """Mean and deviation as `MEAN±STD`, or the mean alone.

        >>> Summary(0.4901, 0.0203, 5).text("percent"), Summary(0.774, 0.006, 5).text("fraction")
        ('49.0±2.0', '0.774±0.006')
        """
        mean, std = self.parts(unit)
        return mean if std is None else f"{mean}±{std}"
