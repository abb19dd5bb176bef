"""Whether seeds are enough: the paired difference of two rows, and the power of a paired t test of it."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

from scipy import special

from sweeps.service.stats.comparisons import SeedValues, common_seeds
from sweeps.service.stats.significance import LEVEL, rounded, rounded_range

POWER = 0.8
"""Probability with which a difference is to be shown."""
MOST_SEEDS = 1000
"""Number of seeds up to which `seeds_for` searches."""
_LARGEST_SHIFT = 30.0
"""Noncentrality up to which SciPy's distribution is a number; there, the power is above 0.98 with two pairs or more."""
_NO_LOWER_TAIL = 6.0
"""Noncentrality from which the other tail of t is below 1e-9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """The difference of two rows on the seeds and splits that both have, in the unit of the result files.

    Attributes:
        n_seeds: number of common seeds.
        n_splits: number of splits.
        mean: mean difference, the first row less the second; None without a common seed.
        over_seeds: sample deviation over seeds of the mean difference over splits; None with one seed.
        over_splits: sample deviation over splits of the mean difference over seeds; None with one split.
        needed: seeds for which the test shows `mean` with power `POWER`; None if they are more than `MOST_SEEDS`,
            if the difference is 0, or with a reason.
        detectable: smallest difference that `n_seeds` seeds show with power `POWER`; None with a reason.
        reason: why `needed` and `detectable` cannot be computed.
    """

    n_seeds: int
    n_splits: int
    mean: float | None = None
    over_seeds: float | None = None
    over_splits: float | None = None
    needed: int | None = None
    detectable: float | None = None
    reason: str | None = None


def paired_difference(first: SeedValues, second: SeedValues) -> PairedDifference:
    """The paired difference of two rows over their common seeds, and what a paired t test of it can show.

    Args:
        first: scores by cell.
        second: scores of the other row.

    >>> first = {("1", seed): value for seed, value in enumerate((0.7, 0.9, 0.8, 0.6))}
    >>> second = {("1", seed): value for seed, value in enumerate((0.6, 0.7, 0.8, 0.5))}
    >>> found = paired_difference(first, second)
    >>> round(found.mean, 3), round(found.over_seeds, 3), found.needed, round(found.detectable, 3)
    (0.1, 0.082, 8, 0.174)
    """
    common = common_seeds([first, second])
    n_splits, n_seeds = common.values.shape[1:]
    if not n_seeds:
        return PairedDifference(n_seeds=0, n_splits=n_splits, reason="the two rows have no seed in common")
    largest = float(abs(common.values).max())
    differences = common.values[0] - common.values[1]
    by_seed, by_split = (rounded(differences.mean(axis=axis), largest) for axis in (0, 1))
    mean = float(rounded(differences.mean(), largest))
    over_seeds = float(by_seed.std(ddof=1)) if n_seeds > 1 else None
    over_splits = float(by_split.std(ddof=1)) if n_splits > 1 else None
    needed = detectable = reason = None
    if over_seeds is None:
        reason = "one seed has no deviation, so the seeds needed are unknown"
    elif not rounded_range(by_seed):
        over_seeds, reason = 0.0, "all seeds have the same difference, so the seeds needed are unknown"
    else:
        needed = seeds_for(mean / over_seeds)
        detectable = over_seeds * detectable_effect(n_seeds)
    return PairedDifference(
        n_seeds=n_seeds,
        n_splits=n_splits,
        mean=mean,
        over_seeds=over_seeds,
        over_splits=over_splits,
        needed=needed,
        detectable=detectable,
        reason=reason,
    )


def power_of(effect: float, n: int) -> float:
    """Power of the two-sided paired t test at the level `LEVEL`, from the noncentral t distribution.

    Source: Cohen (1988), chapter 2.

    Args:
        effect: mean of the differences in units of their standard deviation.
        n: number of pairs, at least 2.

    >>> round(power_of(0.5, 34), 3), round(power_of(-0.8, 15), 3), round(power_of(0.0, 10), 3)
    (0.808, 0.821, 0.05)
    """
    return _power_at(abs(effect) * math.sqrt(n), n)


def seeds_for(effect: float) -> int | None:
    """The smallest number of pairs with which the test has power `POWER`; None if it is more than `MOST_SEEDS`.

    >>> seeds_for(0.5), seeds_for(0.8), seeds_for(-2.0), seeds_for(0.01)
    (34, 15, 5, None)
    """
    counts = range(2, MOST_SEEDS + 1)
    place = bisect.bisect_left(counts, True, key=lambda n: power_of(effect, n) >= POWER)
    return counts[place] if place < len(counts) else None


def detectable_effect(n: int) -> float:
    """The smallest effect that n pairs show with power `POWER`, in units of the differences' standard deviation.

    Args:
        n: number of pairs, at least 2.

    >>> round(detectable_effect(34), 3), round(detectable_effect(5), 3), round(detectable_effect(2), 1)
    (0.495, 1.682, 11.5)
    """
    low, high = 0.0, _LARGEST_SHIFT
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _power_at(middle, n) >= POWER else (middle, high)
    return high / math.sqrt(n)


def _power_at(shift: float, n: int) -> float:
    """The power for a noncentrality of t."""
    shift, limit = min(shift, _LARGEST_SHIFT), special.stdtrit(n - 1, 1 - LEVEL / 2)
    below = special.nctdtr(n - 1, shift, -limit) if shift < _NO_LOWER_TAIL else 0.0
    return float(1 - special.nctdtr(n - 1, shift, limit) + below)
