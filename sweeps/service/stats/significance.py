"""Significance tests over seeds and splits.

Pure functions of arrays. An array of scores is `[k B R]`: k approaches (rows of a table), B blocks (splits), R
replicates (seeds). A test that cannot decide for scores of that shape returns a reason instead of a p.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from mucon.errors import InputError, Problem

LEVEL = 0.05
"""Significance level of all tests, as in the paper."""
MIN_SEEDS = 5
"""Seeds of each row from which rows are tested; fewer seeds give no p, no bold and no interval."""
SEEDS_NOTE = (
    "the test covers new seeds on these recordings, not new recordings: seeds share the split's training and test "
    "recordings"
)
"""Scope of a p of `welch_over_seeds`."""
REPLICATES_NOTE = (
    "seeds within a split are pseudo-replicates, not independent recordings: the test compares the rows on these "
    "splits, not on new recordings; p is from the chi-squared distribution, whose false positive rate with 3 seeds on "
    "1 split is 10 % (5 seeds: 5.6 %)"
)
"""Scope of a p of `friedman_with_replicates`."""
WELCH = "Welch's t"
FRIEDMAN = "Friedman with replicates"
Floats = NDArray[np.float64]

_DIGITS = 12
"""Significant digits at which values count as equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a test: a p, or the reason why there is none.

    Attributes:
        test: name of the test, such as `WELCH` or `FRIEDMAN`.
        n: seeds of the approach with fewer, values of each approach (splits x seeds), or videos whose values differ.
        counted: n as text, such as `5 seeds on 4 splits`.
        smallest_p: smallest attainable p for that many values without ties, before Holm's adjustment; None if p has no
            such bound.
        comparisons: number of tests in Holm's adjustment.
        statistic: t, chi squared, or the smaller sum of signed ranks; None without p.
        p: two-sided; None if the values are too few to decide.
        adjusted_p: p after Holm's adjustment; None without p or before the adjustment.
        direction: 1 if the first of two approaches is better (mean or ranks), -1 if the second is, otherwise 0.
        reason: why p is None, with the number of seeds or videos that would be enough.
    """

    test: str
    n: int
    counted: str
    smallest_p: float | None = None
    comparisons: int = 1
    statistic: float | None = None
    p: float | None = None
    adjusted_p: float | None = None
    direction: int = 0
    reason: str | None = None

    @property
    def significant(self) -> bool:
        """Whether the adjusted p, or p before the adjustment, is below `LEVEL`."""
        decisive = self.p if self.adjusted_p is None else self.adjusted_p
        return decisive is not None and decisive < LEVEL


def welch_over_seeds(
    first: ArrayLike, second: ArrayLike, *, higher_is_better: bool = True, comparisons: int = 1, splits: int = 1
) -> Outcome:
    """Tests whether two approaches differ over seeds: Welch's t test, two-sided.

    Each value is the mean of one seed over the splits, so that differences between splits do not count as deviation.
    Below `MIN_SEEDS` seeds there is no p. If neither approach varies over seeds (to 12 digits), p is 1 for equal means,
    otherwise that of the exact permutation test for values that do not overlap. See `SEEDS_NOTE`.
    Source: Welch (1947).

    Args:
        first: `[R]`, mean over splits of each seed.
        second: `[S]`, values of the other approach; S may differ from R.
        higher_is_better: False for errors and times.
        comparisons: number of tests in the later adjustment by Holm.
        splits: number of splits behind each value, for the text.

    Raises:
        InputError: a NaN or infinite value.

    >>> outcome = welch_over_seeds([5, 4, 6, 3, 7], [1, 2, 1.5, 0, 2.5])
    >>> round(outcome.statistic, 3), round(outcome.p, 4), outcome.direction, outcome.counted
    (4.35, 0.0039, 1, '5 seeds on 1 split')
    >>> print(welch_over_seeds([0.5, 0.6], [0.1, 0.2]).reason)
    2 seeds on 1 split cannot tell these rows apart; at least 5 seeds are needed
    """
    samples = [np.asarray(values, dtype=np.float64) for values in (first, second)]
    for sample in samples:
        check_finite(sample)
    sizes = [len(sample) for sample in samples]
    counted = f"{count_text(min(sizes), 'seed')} on {count_text(splits, 'split')}"
    shared = Outcome(test=WELCH, n=min(sizes), counted=counted, comparisons=comparisons)
    if min(sizes) < MIN_SEEDS:
        return replace(shared, reason=f"{counted} cannot tell these rows apart; at least {MIN_SEEDS} seeds are needed")
    largest = max(float(np.abs(sample).max()) for sample in samples)
    difference = float(rounded(np.array(samples[0].mean() - samples[1].mean()), largest))
    varies = any(rounded_range(sample) for sample in samples)
    errors = [float(sample.var(ddof=1)) / len(sample) for sample in samples]
    if varies:
        statistic = difference / math.sqrt(sum(errors))
        freedom = sum(errors) ** 2 / sum(error**2 / (n - 1) for error, n in zip(errors, sizes, strict=True))
        p = float(2 * special.stdtr(freedom, -abs(statistic)))
    else:
        statistic = math.copysign(math.inf, difference) if difference else 0.0
        p = 2 / math.comb(sum(sizes), sizes[0]) if difference else 1.0
    direction = int(np.sign(difference)) * (1 if higher_is_better else -1)
    return replace(shared, statistic=statistic, p=p, direction=direction)


def smallest_pairwise_p(samples: Sequence[Sequence[float]]) -> float:
    """The smallest p of `welch_over_seeds` between any two samples with enough seeds; 1 without such a pair.

    >>> round(smallest_pairwise_p([[5, 4, 6, 3, 7], [1, 2, 1.5, 0, 2.5], [1, 2, 3, 4, 4.5], [9]]), 4)
    0.0039
    """
    tested = [np.asarray(sample, dtype=np.float64) for sample in samples if len(sample) >= MIN_SEEDS]
    sizes = np.array([len(sample) for sample in tested])
    means = np.array([sample.mean() for sample in tested])
    errors = np.array([sample.var(ddof=1) / len(sample) if rounded_range(sample) else 0.0 for sample in tested])
    first, second = np.triu_indices(len(tested), k=1)
    sums = errors[first] + errors[second]
    varies = sums > 0
    plain = [
        welch_over_seeds(tested[i], tested[j]).p or 0.0 for i, j in zip(first[~varies], second[~varies], strict=True)
    ]
    first, second, sums = first[varies], second[varies], sums[varies]
    statistics = np.abs(means[first] - means[second]) / np.sqrt(sums)
    freedom = sums**2 / (errors[first] ** 2 / (sizes[first] - 1) + errors[second] ** 2 / (sizes[second] - 1))
    return float(min([1.0, *plain, *(2 * special.stdtr(freedom, -statistics))]))


def block_ranks(values: Any, *, higher_is_better: bool = True) -> Floats:
    """Ranks of the values within each block, `[k B R]`: 1 is the worst of a block's k R values, ties share their mean.

    Args:
        values: `[k B R]`, an array or nested sequences.
        higher_is_better: False for errors and times.

    Raises:
        InputError: unequal numbers of seeds, fewer than two approaches, or a NaN or infinite value.

    >>> block_ranks([[[0.5, 0.7]], [[0.5, 0.3]]]).tolist()
    [[[2.5, 4.0]], [[2.5, 1.0]]]
    """
    table = _table(values)
    k, n_blocks, n_seeds = table.shape
    signed = table if higher_is_better else -table
    by_block = signed.transpose(1, 0, 2).reshape(n_blocks, k * n_seeds)
    ranks: Floats = np.stack([_ranks(block) for block in by_block])
    return ranks.reshape(n_blocks, k, n_seeds).transpose(1, 0, 2)


def _ranks(values: Floats) -> Floats:
    """Ranks from 1; ties share their mean, that of the places before which and after which they can be inserted."""
    ascending = np.sort(values)
    ranks: Floats = (ascending.searchsorted(values, "left") + ascending.searchsorted(values, "right") + 1) / 2
    return ranks


def rank_variance(ranks: Floats) -> float:
    """Unbiased variance of the ranks of a block, mean over blocks; `N (N + 1) / 12` without ties, N = k R.

    With the mean over blocks that have different ties, the statistic of `friedman_with_replicates` is a quadratic form
    in the exact covariance of the rank sums, since these add up over independent blocks.
    Source: Benard and van Elteren (1953).

    >>> rank_variance(block_ranks([[[1, 2, 3]], [[4, 5, 6]]]))
    3.5
    """
    n_blocks = ranks.shape[1]
    by_block = ranks.transpose(1, 0, 2).reshape(n_blocks, -1)
    return float(by_block.var(axis=1, ddof=1).mean())


def friedman_with_replicates(values: Any, *, higher_is_better: bool = True, comparisons: int = 1) -> Outcome:
    """Tests whether k approaches differ, with splits as blocks and seeds as replicates (the paper's test).

    Ranks all k R values of a block together; `chi2 = B R Σ_j (mean rank_j - (N + 1) / 2)² / s²`, N = k R, s² of
    `rank_variance`, has k - 1 degrees of freedom. If the values within every block are equal, p = 1. With one seed this
    is Friedman's test, with one split the test of Kruskal and Wallis. See `REPLICATES_NOTE`.
    Source: Mack and Skillings (1980); the paper's section "Statistical Analysis", where it gives p = 1.77e-7 for an
    approach that is better with each of 5 seeds on each of 4 splits.

    Args:
        values: `[k B R]`, an array or nested sequences.
        higher_is_better: False for errors and times.
        comparisons: number of tests in the later adjustment by Holm. There is no p if even the smallest attainable one
            would not stay below 0.05.

    Raises:
        InputError: see `block_ranks`.

    >>> outcome = friedman_with_replicates([[[5, 4, 6, 3, 7]] * 4, [[1, 2, 1.5, 0, 2.5]] * 4])
    >>> round(outcome.statistic, 4), f"{outcome.p:.3g}", outcome.direction
    (27.2727, '1.77e-07', 1)
    """
    table = _table(values)
    k, n_blocks, n_seeds = table.shape
    counted = f"{count_text(n_seeds, 'seed')} on {count_text(n_blocks, 'split')}"
    smallest = smallest_attainable_p(n_blocks, n_seeds, k)
    shared = Outcome(test=FRIEDMAN, n=n_blocks * n_seeds, counted=counted, smallest_p=smallest, comparisons=comparisons)
    if smallest * comparisons >= LEVEL:
        needed = count_text(seeds_needed(n_blocks, k, comparisons), "seed")
        return replace(shared, reason=too_few(counted, smallest, comparisons, needed))
    ranks = block_ranks(table, higher_is_better=higher_is_better)
    deviations = ranks.mean(axis=(1, 2)) - (k * n_seeds + 1) / 2
    variance = rank_variance(ranks)
    statistic = n_blocks * n_seeds * float(deviations @ deviations) / variance if variance else 0.0
    return replace(
        shared,
        statistic=statistic,
        p=float(special.chdtrc(k - 1, statistic)),
        direction=int(np.sign(deviations[0])) if k == 2 else 0,
    )


def smallest_attainable_p(blocks: int, replicates: int, k: int = 2) -> float:
    """The p of `friedman_with_replicates` for approaches whose values do not overlap and are not tied.

    >>> [round(smallest_attainable_p(1, replicates), 4) for replicates in (2, 3, 5)]
    [0.1213, 0.0495, 0.009]
    """
    statistic = blocks * replicates**2 * (k**2 - 1) / (k * replicates + 1)
    return float(special.chdtrc(k - 1, statistic))


def seeds_needed(blocks: int, k: int = 2, comparisons: int = 1) -> int:
    """Smallest number of seeds for which `friedman_with_replicates` can reach p < 0.05 after Holm's adjustment.

    >>> seeds_needed(1), seeds_needed(1, comparisons=5), seeds_needed(4, comparisons=5)
    (3, 5, 2)
    """
    counts = itertools.count(1)
    return next(seeds for seeds in counts if smallest_attainable_p(max(1, blocks), seeds, k) * comparisons < LEVEL)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusts the p values of simultaneous tests; a test without p counts as one that rejects nothing.

    Source: Holm (1979).

    >>> holm([0.01, 0.04, 0.03]), holm([0.01, None])
    ([0.03, 0.06, 0.06], [0.02, None])
    """
    adjusted: list[float | None] = [None] * len(p_values)
    ascending = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    largest = 0.0
    for rank, (p, place) in enumerate(ascending):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        adjusted[place] = largest
    return adjusted


def _table(values: Any) -> Floats:
    """Validates nested sequences and returns them as `[k B R]`."""
    splits, seeds = {len(row) for row in values}, {len(cell) for row in values for cell in row}
    if len(values) < 2:
        raise InputError(Problem(rule="range", place="rows", value=len(values), expected="at least 2"))
    if len(seeds) > 1 or len(splits) > 1:
        raise InputError(
            Problem(
                rule="shape",
                place="seeds by row and split",
                value=[[len(cell) for cell in row] for row in values],
                expected="equal numbers",
                hint="select the common seeds (`common_seeds`) or train the missing ones",
            )
        )
    table = np.asarray(values, dtype=np.float64).reshape(len(values), splits.pop(), seeds.pop() if seeds else 0)
    check_finite(table)
    return table


def too_few(counted: str, smallest: float, comparisons: int, needed: str) -> str:
    """The reason of an outcome without p.

    >>> print(too_few("3 seeds on 1 split", 0.0495, 5, "5 seeds"))
    too few values: 3 seeds on 1 split (smallest attainable p 0.0495, 0.247 after Holm over 5; p < 0.05 needs 5 seeds)
    """
    adjusted = f", {min(1.0, smallest * comparisons):.3g} after Holm over {comparisons}" if comparisons > 1 else ""
    return f"too few values: {counted} (smallest attainable p {smallest:.3g}{adjusted}; p < {LEVEL} needs {needed})"


def count_text(n: int, unit: str) -> str:
    """A number with its unit, such as `1 seed` and `2 seeds`."""
    return f"{n} {unit}" + ("" if n == 1 else "s")


def check_finite(values: Floats) -> None:
    """Checks that all scores are finite.

    Raises:
        InputError: a value is NaN or infinite.
    """
    if not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InputError(
            Problem(
                rule="range",
                place=f"scores{list(place)}",
                value=float(values[place]),
                expected="a finite number",
                hint="leave out undefined scores",
            )
        )


def rounded(differences: Floats, largest: float) -> Floats:
    """Removes rounding errors of differences of values up to `largest`, which would hide zeros and ties."""
    if not largest:
        return differences
    without: Floats = np.round(differences, _DIGITS - math.ceil(math.log10(largest)))
    return without


def rounded_range(sample: Floats) -> float:
    """Largest less smallest value of a sample without rounding errors."""
    return float(rounded(np.array(np.ptp(sample)), float(np.abs(sample).max())))
