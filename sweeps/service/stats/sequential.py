"""How many seeds a row needs: a confidence sequence for its difference from the default row, which holds at any time.

An interval for a fixed number of seeds does not keep its level if seeds are added until it excludes 0. With 95 %
probability, all intervals of a confidence sequence contain the true difference, whatever decides when to stop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from sweeps.service.stats.significance import LEVEL, rounded, rounded_range

SCALE = 3.0
"""Scale of the mixture in `critical_t`: the differences to expect, in deviations over seeds.

The level holds with any scale. `benchmarks/sequential_seeds.py` compares some between 3 and 15 seeds: with smaller ones
three or four seeds exclude nothing, with larger ones most differences need more seeds.
"""

SeedOutcomes = Mapping[int, float | None]
"""Seed -> score of a row; None if the seed has ended without one, no entry while it has not ended."""


class Decision(StrEnum):
    """What the seeds say about a row against the default row."""

    OPEN = "open"
    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    """The difference is smaller than the smallest one that matters."""
    NO_VALUES = "closed: no value with two seeds in a row"
    """In the row or in the default row; no further seed is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSeeds:
    """The seeds that a row needs, and what they say.

    Attributes:
        needed: the row needs the seeds 1 to this one.
        decision: see `Decision`.
        pairs: number of seeds with a value in both rows, as far as all seeds before them have ended.
        difference: mean difference from the default row over those seeds; None without one.
        interval: of the true difference, at the level of the sequence; its ends are infinite with few seeds.
    """

    needed: int
    decision: Decision = Decision.OPEN
    pairs: int = 0
    difference: float | None = None
    interval: tuple[float, float] = (-math.inf, math.inf)


def critical_t(n: int, level: float = LEVEL, scale: float = SCALE) -> float:
    """Half the width of the confidence sequence after n values, in standard errors of their mean.

    The mean m is excluded once the mixture likelihood ratio of the t statistic of `x - m` reaches `1 / level`. With the
    right Haar prior on the deviation and a normal one on the standardized mean, of deviation `scale`, the ratio is
    `a^(-1/2) ((1 + t²/(n - 1)) / (1 + t²/(a (n - 1))))^(n/2)`, `a = 1 + n scale²`. For normal values of unknown
    deviation it is a martingale of mean 1 at the true m, so that it reaches `1 / level` at any n with at most the
    probability `level` (Ville's inequality).
    Source: Lai (1976), "On confidence sequences"; Wang and Ramdas (2023), "Anytime-valid t-tests and confidence
    sequences for Gaussian means with unknown variance", the mixture with a Gaussian prior.

    Args:
        n: number of values.
        level: largest probability that the sequence ever excludes the true mean.
        scale: of the mixture.

    Returns:
        The factor; infinite if n values exclude no mean.

    >>> [round(critical_t(n), 1) for n in (2, 3, 5, 10, 15)]
    [inf, 14.6, 5.4, 4.2, 3.9]
    """
    if n < 2:
        return math.inf
    a = 1 + n * scale**2
    ratio = (math.sqrt(a) / level) ** (2 / n)
    return math.sqrt((n - 1) * (ratio - 1) * a / (a - ratio)) if ratio < a else math.inf


def confidence_sequence(differences: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """The interval of the true mean after some values; the intervals of all numbers of values hold together.

    Values that do not vary, such as those of a coarse score, are not normal. They have an interval, without width, once
    `2^(1 - n) <= level`: so rarely have n values the same sign if either sign is equally likely.

    Args:
        differences: `[n]`, in the order of their seeds.
        level: see `critical_t`.

    >>> [round(end, 2) for end in confidence_sequence([2.1, 1.8, 2.4, 2.0, 1.7])]
    [1.34, 2.66]
    >>> confidence_sequence([0.3, 0.4]), confidence_sequence([0.5] * 5), confidence_sequence([0.5] * 6)
    ((-inf, inf), (-inf, inf), (0.5, 0.5))
    """
    n = len(differences)
    factor = critical_t(n, level)
    if math.isinf(factor):
        return -math.inf, math.inf
    mean = math.fsum(differences) / n
    if not rounded_range(np.array(differences)):
        return (mean, mean) if 2 ** (1 - n) <= level else (-math.inf, math.inf)
    half = factor * math.sqrt(math.fsum((value - mean) ** 2 for value in differences) / (n - 1) / n)
    return mean - half, mean + half


def row_seeds(
    row: SeedOutcomes,
    default: SeedOutcomes,
    *,
    least: int,
    most: int,
    margin: float,
    level: float = LEVEL,
    higher_is_better: bool = True,
) -> RowSeeds:
    """The seeds that a row needs until its difference from the default row is known well enough.

    Looks at the seeds 1 to n that have ended in both rows, for growing n, and ends at the first n from `least` on at
    which there is a decision. What has ended besides them does not count, so that neither the order in which trainings
    end nor further seeds change the decision. A seed without a value in either row is left out of the differences.

    Args:
        row: outcomes of the row.
        default: outcomes of the default row.
        least: number of seeds before the first decision, at least 2.
        most: number of seeds after the last one.
        margin: largest difference that does not matter, in the unit of the scores.
        level: see `critical_t`; divided by the number of comparisons, all intervals of a table hold together.
        higher_is_better: False for errors and times.

    >>> default = {1: 0.50, 2: 0.52, 3: 0.49, 4: 0.51}
    >>> found = row_seeds({1: 0.70, 2: 0.72, 3: 0.70, 4: 0.2}, default, least=3, most=15, margin=0.01)
    >>> found.needed, found.decision, round(found.difference, 3)
    (3, <Decision.BETTER: 'better'>, 0.203)
    >>> row_seeds({1: 0.53, 2: 0.50, 3: 0.52}, default, least=3, most=15, margin=0.01).needed
    4
    """
    found = RowSeeds(needed=least)
    differences: list[float] = []
    for seed in range(1, most + 1):
        if seed not in row or seed not in default:
            return found
        value, other = row[seed], default[seed]
        if value is not None and other is not None:
            differences.append(float(rounded(np.array(value - other), max(abs(value), abs(other)))))
        interval = confidence_sequence(differences, level)
        decision = _decision(interval, margin, higher_is_better) if seed >= least else Decision.OPEN
        if seed >= least and decision is Decision.OPEN and any(_fails_twice(one, seed) for one in (row, default)):
            decision = Decision.NO_VALUES
        is_last = seed >= least and (decision is not Decision.OPEN or seed == most)
        found = replace(
            found,
            needed=max(least, seed + (not is_last)),
            decision=decision,
            pairs=len(differences),
            difference=math.fsum(differences) / len(differences) if differences else None,
            interval=interval,
        )
        if is_last:
            break
    return found


def _decision(interval: tuple[float, float], margin: float, higher_is_better: bool) -> Decision:
    low, high = interval
    if low > 0 or high < 0:
        return Decision.BETTER if (low > 0) == higher_is_better else Decision.WORSE
    return Decision.EQUIVALENT if max(-low, high) <= margin else Decision.OPEN


def _fails_twice(outcomes: SeedOutcomes, seed: int) -> bool:
    """Whether two seeds in a row up to one have no value."""
    return any(outcomes[one] is None and outcomes[one + 1] is None for one in range(1, seed))
