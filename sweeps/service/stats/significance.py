"""Is a difference more than chance? Tests over seeds, splits and test videos.

Pure functions of arrays. An array of scores is `[k B R]`: k approaches (rows of a table), B blocks (splits), R
replicates (seeds). A test that cannot give p < 0.05, whatever the scores, answers in words instead of a number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mucon.errors import InputError

LEVEL = 0.05
"""A difference with a smaller p is called significant, as in the paper."""
REPLICATES_NOTE = (
    "seeds inside a split are pseudo-replicates, not independent recordings: the test says how the methods compare on "
    "these splits, not on new recordings; its p is from the chi-squared distribution, which with 3 seeds on 1 split "
    "calls a difference significant in 10 % of the cases where there is none (5 seeds: 5.6 %)"
)
"""What stands beside a p of `friedman_with_replicates`."""
VIDEOS_NOTE = "a test over test videos speaks of these trained models on new recordings, not of new seeds"
"""What stands beside a p of `wilcoxon_over_videos`."""

FRIEDMAN = "Friedman with replicates"
WILCOXON = "Wilcoxon signed-rank"
Floats = NDArray[np.float64]

_EXACT_UP_TO = 50
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a test says: a number, or in words why it can say nothing.

    Attributes:
        test: its name.
        n: values of each approach (splits x seeds), or videos whose values differ.
        counted: n in words.
        smallest_p: the smallest p that as many values without ties can give, before Holm's adjustment.
        comparisons: tests that are made together, for Holm's adjustment.
        statistic: chi squared, or the smaller sum of signed ranks; None with a reason.
        p: two-sided; None with a reason.
        adjusted_p: after Holm's adjustment over all comparisons, where they were made together.
        direction: of two approaches, 1 where the first has the better ranks, -1 the second, 0 neither.
        reason: why there is no p.
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
        """Whether p, after the adjustment where there is one, is below `LEVEL`."""
        decisive = self.p if self.adjusted_p is None else self.adjusted_p
        return decisive is not None and decisive < LEVEL

    def text(self) -> str:
        """For a note under a table.

        >>> friedman_with_replicates([[[4, 5, 6]], [[1, 2, 3]]]).text()
        'p = 0.0495 (3 seeds on 1 split; smallest attainable 0.0495)'
        >>> friedman_with_replicates([[[4, 5]], [[1, 2]]]).text()
        '2 seeds on 1 split are too few: the smallest attainable p is 0.121, 3 seeds can give less than 0.05'
        """
        if self.p is None:
            return str(self.reason)
        adjusted = "" if self.adjusted_p is None else f", {self.adjusted_p:.3g} after Holm over {self.comparisons}"
        return f"p = {self.p:.3g}{adjusted} ({self.counted}; smallest attainable {self.smallest_p:.3g})"


def block_ranks(values: Any, *, higher_is_better: bool = True) -> Floats:
    """The rank of each value inside its block, `[k B R]`: 1 is the worst of a block's k R values, ties share a mean.

    Args:
        values: `[k B R]`, an array or nested sequences.
        higher_is_better: False for errors and times.

    Raises:
        InputError: unequal numbers of seeds, fewer than two approaches, or a value that is NaN or infinite.

    >>> block_ranks([[[0.5, 0.7]], [[0.5, 0.3]]]).tolist()
    [[[2.5, 4.0]], [[2.5, 1.0]]]
    """
    table = _table(values)
    k, n_blocks, n_seeds = table.shape
    signed = table if higher_is_better else -table
    by_block = signed.transpose(1, 0, 2).reshape(n_blocks, k * n_seeds)
    ranks: Floats = stats.rankdata(by_block, axis=1).reshape(n_blocks, k, n_seeds).transpose(1, 0, 2)
    return ranks


def rank_variance(ranks: Floats) -> float:
    """The unbiased variance of a block's ranks, mean over blocks; `N (N + 1) / 12` where nothing is tied, N = k R.

    Blocks with different ties: the mean over blocks is what makes the statistic of `friedman_with_replicates` a
    quadratic form in the exact covariance of the rank sums, since these add up over independent blocks.
    Source: Benard and van Elteren (1953).

    >>> rank_variance(block_ranks([[[1, 2, 3]], [[4, 5, 6]]]))
    3.5
    """
    n_blocks = ranks.shape[1]
    by_block = ranks.transpose(1, 0, 2).reshape(n_blocks, -1)
    return float(by_block.var(axis=1, ddof=1).mean())


def friedman_with_replicates(values: Any, *, higher_is_better: bool = True, comparisons: int = 1) -> Outcome:
    """The paper's test: do k approaches differ, with the splits as blocks and the seeds as replicates?

    All k R values of a block are ranked together; `chi2 = B R Σ_j (mean rank_j - (N + 1) / 2)² / s²`, N = k R, s² of
    `rank_variance`, has k - 1 degrees of freedom. Where all values of every block are equal nothing differs: p = 1.
    With one seed it is Friedman's test, with one split that of Kruskal and Wallis. See `REPLICATES_NOTE`.
    Source: Mack and Skillings (1980); the paper's section "Statistical Analysis", where it gives p = 1.77e-7 for an
    approach that is better with each of 5 seeds on each of 4 splits.

    Args:
        values: `[k B R]`, an array or nested sequences.
        higher_is_better: False for errors and times.
        comparisons: how many tests Holm's adjustment will be over: the answer is in words where even the smallest p
            would not stay below 0.05.

    Raises:
        InputError: as `block_ranks`.

    >>> outcome = friedman_with_replicates([[[5, 4, 6, 3, 7]] * 4, [[1, 2, 1.5, 0, 2.5]] * 4])
    >>> round(outcome.statistic, 4), f"{outcome.p:.3g}", outcome.direction
    (27.2727, '1.77e-07', 1)
    """
    table = _table(values)
    k, n_blocks, n_seeds = table.shape
    counted = f"{_count(n_seeds, 'seed')} on {_count(n_blocks, 'split')}"
    smallest = smallest_attainable_p(n_blocks, n_seeds, k)
    shared = Outcome(test=FRIEDMAN, n=n_blocks * n_seeds, counted=counted, smallest_p=smallest, comparisons=comparisons)
    if smallest * comparisons >= LEVEL:
        needed = _count(seeds_needed(n_blocks, k, comparisons), "seed")
        return replace(shared, reason=_too_few(counted, n_blocks * n_seeds, smallest, comparisons, needed))
    ranks = block_ranks(table, higher_is_better=higher_is_better)
    deviations = ranks.mean(axis=(1, 2)) - (k * n_seeds + 1) / 2
    variance = rank_variance(ranks)
    statistic = n_blocks * n_seeds * float(deviations @ deviations) / variance if variance else 0.0
    return replace(
        shared,
        statistic=statistic,
        p=float(stats.chi2.sf(statistic, k - 1)),
        direction=int(np.sign(deviations[0])) if k == 2 else 0,
    )


def smallest_attainable_p(blocks: int, replicates: int, k: int = 2) -> float:
    """The p of `friedman_with_replicates` where the approaches do not overlap at all and no value is tied.

    >>> [round(smallest_attainable_p(1, replicates), 4) for replicates in (2, 3, 5)]
    [0.1213, 0.0495, 0.009]
    """
    statistic = blocks * replicates**2 * (k**2 - 1) / (k * replicates + 1)
    return float(stats.chi2.sf(statistic, k - 1))


def seeds_needed(blocks: int, k: int = 2, comparisons: int = 1) -> int:
    """The fewest seeds with which `friedman_with_replicates` can give p < 0.05 after Holm's adjustment.

    >>> seeds_needed(1), seeds_needed(1, comparisons=5), seeds_needed(4, comparisons=5)
    (3, 5, 2)
    """
    counts = itertools.count(1)
    return next(seeds for seeds in counts if smallest_attainable_p(max(1, blocks), seeds, k) * comparisons < LEVEL)


def wilcoxon_over_videos(
    first: ArrayLike, second: ArrayLike, *, higher_is_better: bool = True, comparisons: int = 1
) -> Outcome:
    """Wilcoxon's signed-rank test: do two approaches differ over the test videos? Two-sided. See `VIDEOS_NOTE`.

    Videos with equal values in both (to 12 digits) are left out, as Wilcoxon did; where all are equal p = 1. The
    distribution is exact, ties or not, up to 50 differing videos, else normal (corrected for ties, not for continuity).
    Source: Wilcoxon (1945).

    Args:
        first: a value for each video, mean over seeds.
        second: those of the other approach, of the same videos in the same order.
        higher_is_better: False for errors.
        comparisons: as in `friedman_with_replicates`.

    Raises:
        InputError: different numbers of videos, or a value that is NaN or infinite.

    >>> wilcoxon_over_videos([3, 4, 5, 6, 7, 8, 9], [1, 1, 1, 1, 1, 1, 9]).text()
    'p = 0.0312 (6 of 7 videos differ; smallest attainable 0.0156)'
    """
    ours, theirs = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if ours.shape != theirs.shape or ours.ndim != 1:
        raise InputError(
            f"a paired test has one value for each video on both sides, there are {ours.shape} and {theirs.shape}: "
            "take the videos that both have (`common_videos`)"
        )
    check_finite(ours)
    check_finite(theirs)
    differences = _rounded(ours - theirs, max(np.abs(ours).max(initial=0), np.abs(theirs).max(initial=0)))
    different = differences[differences != 0] * (1 if higher_is_better else -1)
    n, n_videos = len(different), len(ours)
    counted = f"{n} of {_count(n_videos, 'video')} differ" + ("s" if n_videos == 1 else "")
    smallest = _smallest_signed_rank_p(n_videos)
    shared = Outcome(test=WILCOXON, n=n, counted=counted, smallest_p=smallest, comparisons=comparisons)
    if smallest * comparisons >= LEVEL:
        needed = next(v for v in itertools.count(1) if _smallest_signed_rank_p(v) * comparisons < LEVEL)
        videos = _count(n_videos, "test video")
        return replace(shared, reason=_too_few(videos, n_videos, smallest, comparisons, _count(needed, "video")))
    if not n:
        return replace(shared, statistic=0.0, p=1.0)
    ranks = stats.rankdata(np.abs(different))
    better, worse = float(ranks[different > 0].sum()), float(ranks[different < 0].sum())
    statistic = min(better, worse)
    p = _exact_signed_rank_p(ranks, statistic) if n <= _EXACT_UP_TO else float(stats.wilcoxon(different).pvalue)
    return replace(shared, statistic=statistic, p=p, direction=int(np.sign(better - worse)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p of tests that are made together; those without p count as tests that show nothing.

    Source: Holm (1979).

    >>> holm([0.01, 0.04, 0.03]), holm([0.01, None])
    ([0.03, 0.06, 0.06], [0.02, None])
    """
    adjusted: list[float | None] = [None] * len(p_values)
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        adjusted[place] = largest
    return adjusted


def _table(values: Any) -> Floats:
    """Nested sequences as `[k B R]`, checked."""
    splits, seeds = {len(row) for row in values}, {len(cell) for row in values for cell in row}
    if len(values) < 2:
        raise InputError(f"a test compares at least two rows, there are {len(values)}: give the others too")
    if len(seeds) > 1 or len(splits) > 1:
        counts = "; ".join(f"row {i}: {[len(cell) for cell in row]}" for i, row in enumerate(values))
        raise InputError(
            f"a test with replicates has as many seeds in every split of every row, these have seeds per split "
            f"{counts}: take their common seeds (`common_seeds`) or train what is missing"
        )
    table = np.asarray(values, dtype=np.float64).reshape(len(values), splits.pop(), seeds.pop() if seeds else 0)
    check_finite(table)
    return table


def _exact_signed_rank_p(ranks: Floats, statistic: float) -> float:
    """Twice the probability that the ranks with a random sign sum up to the statistic or less."""
    doubled = np.rint(2 * ranks).astype(np.int64)  # tied ranks are halves
    probability = np.zeros(int(doubled.sum()) + 1)
    probability[0] = 1.0
    for rank in doubled:
        with_it = np.concatenate([np.zeros(rank), probability[:-rank]])
        probability = (probability + with_it) / 2
    return min(1.0, 2 * float(probability[: round(2 * statistic) + 1].sum()))


def _smallest_signed_rank_p(n_videos: int) -> float:
    if n_videos <= _EXACT_UP_TO:
        return min(1.0, 2.0 ** (1 - n_videos))
    return float(stats.wilcoxon(np.arange(1.0, n_videos + 1)).pvalue)


def _rounded(differences: Floats, largest: float) -> Floats:
    """Without what is only rounding of values of that size, which would hide zeros and ties."""
    if not largest:
        return differences
    rounded: Floats = np.round(differences, _DIGITS - math.ceil(math.log10(largest)))
    return rounded


def _too_few(counted: str, n: int, smallest: float, comparisons: int, needed: str) -> str:
    together = f", {min(1.0, smallest * comparisons):.3g} after Holm over {comparisons}" if comparisons > 1 else ""
    return (
        f"{counted} {'is' if n == 1 else 'are'} too few: the smallest attainable p is {smallest:.3g}{together}, "
        f"{needed} can give less than {LEVEL}"
    )


def _count(n: int, unit: str) -> str:
    return f"{n} {unit}" + ("" if n == 1 else "s")


def check_finite(values: Floats) -> None:
    """Refuses scores that are no numbers.

    Raises:
        InputError: a value is NaN or infinite.
    """
    if not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InputError(
            f"a score is a finite number, the one at {place} is {values[place]}: leave out what is undefined"
        )
