"""Compares rows of a table over their seeds: each row against the default row, and which rows are bold."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mucon.errors import InputError, Problem
from sweeps.service.stats.significance import (
    MIN_SEEDS,
    Floats,
    Outcome,
    friedman_with_replicates,
    holm,
    smallest_pairwise_p,
    welch_over_seeds,
)

SeedValues = Mapping[tuple[str, int], float]
"""Scores of a row: (split, seed) -> value; without an entry if the cell is not finished or the score is undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Values of the seeds that all rows have on every split.

    Attributes:
        values: `[k B R]`, rows x splits x seeds.
        splits: names `[B]`.
        seeds: `[R]`.
    """

    values: Floats
    splits: tuple[str, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Tests of one row against another; p values are adjusted over all comparisons of the table.

    Attributes:
        seeds: Welch's test over seeds, which decides.
        paper: the paper's test, with splits as blocks and seeds as replicates; without p below `MIN_SEEDS` seeds.
    """

    seeds: Outcome
    paper: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Bold:
    """The bold rows of a column.

    Attributes:
        best: index of the row with the best mean over complete seeds; None if no row has a value.
        rows: indices of the bold rows; empty if no row is significantly worse than the best.
        against_best: test of each row against the best; None for the best and for rows without a value.
    """

    best: int | None
    rows: tuple[int, ...]
    against_best: tuple[Outcome | None, ...]

    @property
    def level(self) -> tuple[int, ...]:
        """The best row, first, and every row with a value that is not shown to be worse."""
        others = (i for i, outcome in enumerate(self.against_best) if outcome is not None and not outcome.significant)
        return () if self.best is None else (self.best, *others)


def split_names(rows: Sequence[SeedValues]) -> tuple[str, ...]:
    """The splits on which any row has a value, sorted."""
    return tuple(sorted({split for row in rows for split, _ in row}))


def seed_means(row: SeedValues, splits: Sequence[str]) -> dict[int, float]:
    """Seed -> mean over the splits, for the seeds with a value on every split.

    >>> seed_means({("1", 1): 0.4, ("2", 1): 0.6, ("1", 2): 0.9}, ("1", "2"))
    {1: 0.5}
    """
    seeds = sorted({seed for _, seed in row})
    whole = [seed for seed in seeds if all((split, seed) in row for split in splits)]
    return {seed: statistics.fmean(row[split, seed] for split in splits) for seed in whole}


def common_seeds(rows: Sequence[SeedValues], splits: Sequence[str] | None = None) -> Common:
    """Selects the seeds that every row has on every split, as tests with replicates need them.

    Args:
        rows: at least one.
        splits: names; by default all splits on which any row has a value.

    >>> common = common_seeds([{("1", 1): 0.5, ("1", 2): 0.6}, {("1", 1): 0.4}])
    >>> common.values.tolist(), common.seeds
    ([[[0.5]], [[0.4]]], (1,))
    """
    used = split_names(rows) if splits is None else tuple(splits)
    seeds = sorted({seed for row in rows for _, seed in row})
    kept = [seed for seed in seeds if all((split, seed) in row for row in rows for split in used)]
    values = np.array([[[row[split, seed] for seed in kept] for split in used] for row in rows], dtype=np.float64)
    return Common(values=values.reshape(len(rows), len(used), len(kept)), splits=used, seeds=tuple(kept))


def compare_with_default(
    rows: Sequence[SeedValues], default: int, *, higher_is_better: bool = True
) -> tuple[Comparison | None, ...]:
    """Tests each row against the default row: Welch's test over seeds, and the paper's test.

    Both are adjusted by Holm over rows - 1 comparisons, including rows without values yet: p does not change while
    other rows are being trained. Welch's test uses the complete seeds of each row, the paper's test the seeds that both
    have on every split of the table. Direction 1 means that the row is better than the default row.

    Args:
        rows: scores by cell.
        default: index of the default row.
        higher_is_better: False for errors and times.

    Returns:
        A comparison per row; None for the default row.

    Raises:
        InputError: no row with that index.
    """
    if not 0 <= default < len(rows):
        raise InputError(Problem(rule="range", place="row", value=default, expected=f"0 to {len(rows) - 1}"))
    splits = split_names(rows)
    values = [[*seed_means(row, splits).values()] for row in rows]
    others = [i for i in range(len(rows)) if i != default]
    welch = partial(
        welch_over_seeds,
        higher_is_better=higher_is_better,
        comparisons=len(others),
        splits=max(1, len(splits)),
    )
    by_seed = _adjusted([welch(values[i], values[default]) for i in others])
    papers = _adjusted([_paper(rows[i], rows[default], splits, higher_is_better, len(others)) for i in others])
    pairs: list[Comparison | None] = [
        Comparison(seeds=seeds, paper=paper) for seeds, paper in zip(by_seed, papers, strict=True)
    ]
    pairs.insert(default, None)
    return tuple(pairs)


def best_rows(rows: Sequence[SeedValues], *, higher_is_better: bool = True) -> Bold:
    """Selects the bold rows: the best row and every row that is not significantly worse at 5 %, if any row is.

    The best row has the best mean over complete seeds, as printed in the table. Every other row is tested against it by
    Welch's test over seeds, adjusted by Holm over rows - 1. As the best row is chosen by its mean, no adjusted p is
    smaller than that of the clearest difference between any two rows, adjusted over all pairs: among equally good rows,
    however many, at most 5 % of the tables have bold. A column without a significant difference has no bold, nor has a
    column whose best row has fewer than `MIN_SEEDS` seeds; rows with fewer seeds are not bold.

    Args:
        rows: scores by cell.
        higher_is_better: False for errors and times.

    >>> rows = [{("1", seed): value + 0.01 * seed for seed in range(5)} for value in (0.5, 0.495, 0.4)]
    >>> best_rows(rows).rows
    (0, 1)
    >>> best_rows(rows[:2]).rows
    ()
    """
    sign = 1 if higher_is_better else -1
    splits = split_names(rows)
    by_seed = [[*seed_means(row, splits).values()] for row in rows]
    means = {i: statistics.fmean(values) for i, values in enumerate(by_seed) if values}
    if not means:
        return Bold(best=None, rows=(), against_best=(None,) * len(rows))
    best = max(means, key=lambda i: sign * means[i])
    clearest = min(1.0, math.comb(len(means), 2) * smallest_pairwise_p(by_seed))
    welch = partial(
        welch_over_seeds,
        higher_is_better=higher_is_better,
        comparisons=len(rows) - 1,
        splits=max(1, len(splits)),
    )
    outcomes = [welch(values, by_seed[best]) if values and i != best else None for i, values in enumerate(by_seed)]
    adjusted = holm([None if outcome is None else outcome.p for i, outcome in enumerate(outcomes) if i != best])
    adjusted.insert(best, None)
    against = tuple(
        outcome and replace(outcome, adjusted_p=None if p is None else max(p, clearest))
        for outcome, p in zip(outcomes, adjusted, strict=True)
    )
    tested = [i for i, outcome in enumerate(against) if i == best or (outcome is not None and outcome.p is not None)]
    worse = [i for i in tested if (outcome := against[i]) is not None and outcome.significant]
    return Bold(best=best, rows=tuple(i for i in tested if worse and i not in worse), against_best=against)


def _paper(
    row: SeedValues, other: SeedValues, splits: Sequence[str], higher_is_better: bool, comparisons: int
) -> Outcome:
    common = common_seeds([row, other], splits=splits)
    outcome = friedman_with_replicates(common.values, higher_is_better=higher_is_better, comparisons=comparisons)
    if outcome.p is not None and len(common.seeds) < MIN_SEEDS:
        reason = f"{outcome.counted}; at least {MIN_SEEDS} seeds are needed"
        return replace(outcome, p=None, statistic=None, direction=0, reason=reason)
    return outcome


def _adjusted(outcomes: Sequence[Outcome]) -> list[Outcome]:
    p_values = holm([outcome.p for outcome in outcomes])
    return [replace(outcome, adjusted_p=p) for outcome, p in zip(outcomes, p_values, strict=True)]
