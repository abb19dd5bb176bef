"""More than two methods in one order: mean ranks, and which of them cannot be told apart (critical differences)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from sweeps.service.stats.significance import (
    LEVEL,
    Outcome,
    block_ranks,
    friedman_with_replicates,
    rank_variance,
    smallest_attainable_p,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The methods in their order.

    Attributes:
        mean_ranks: of each method as it was given, 1 is the best; over the splits or, with replicates, over all ranks
            of the splits.
        order: numbers of the methods, the best first.
        friedman: whether the methods differ at all.
        critical_difference: mean ranks that are at least so far apart differ; None where friedman has no p.
        groups: the largest sets of neighbours in the order that cannot be told apart, the best first; a method that
            differs from all others is a group of its own. None at all where friedman has no p.
    """

    mean_ranks: tuple[float, ...]
    order: tuple[int, ...]
    friedman: Outcome
    critical_difference: float | None
    groups: tuple[tuple[int, ...], ...]


def ranking(values: Any, *, higher_is_better: bool = True) -> Ranking:
    """Ranks methods over splits, with Friedman's test and Nemenyi's critical difference at 5 %.

    `[k B 1]` with each split's mean over seeds gives the usual diagram, splits as the only repetition: it needs three
    or four of them. `[k B R]` ranks all seeds of a split together, as the paper's test does, which one split with five
    seeds is enough for; then see `REPLICATES_NOTE`. The critical difference is `q s / sqrt(B R)`, q the 95 % point of
    the studentized range of k and s² of `rank_variance`, so that ties are counted; without ties and with R = 1 it is
    `q / sqrt(2) sqrt(k (k + 1) / (6 B))`. Where Friedman's p is not below 0.05, all methods are one group.
    Source: Demšar (2006), equations 6 and 7; Nemenyi (1963).

    Args:
        values: `[k B R]`, an array or nested sequences.
        higher_is_better: False for errors and times.

    Raises:
        InputError: as `block_ranks`.

    >>> found = ranking([[[0.9], [0.8], [0.9], [0.7]], [[0.8], [0.6], [0.8], [0.6]], [[0.1], [0.2], [0.1], [0.2]]])
    >>> found.mean_ranks, round(found.critical_difference, 3), found.groups
    ((1.0, 2.0, 3.0), 1.657, ((0, 1), (1, 2)))
    """
    friedman = friedman_with_replicates(values, higher_is_better=higher_is_better)
    if friedman.p is None and friedman.n:
        friedman = replace(friedman, reason=_too_few(values, friedman))
    ranks = block_ranks(values, higher_is_better=not higher_is_better)
    k, n_blocks, n_seeds = ranks.shape
    if not friedman.n:
        return Ranking(mean_ranks=(), order=(), friedman=friedman, critical_difference=None, groups=())
    mean_ranks = ranks.mean(axis=(1, 2))
    order = tuple(int(i) for i in np.argsort(mean_ranks, kind="stable"))
    difference = None
    groups: tuple[tuple[int, ...], ...] = ()
    if friedman.p is not None:
        q = float(stats.studentized_range.ppf(1 - LEVEL, k, np.inf))
        difference = q * math.sqrt(rank_variance(ranks) / (n_blocks * n_seeds))
        groups = _groups([float(mean_ranks[i]) for i in order], order, difference) if friedman.significant else (order,)
    return Ranking(
        mean_ranks=tuple(float(rank) for rank in mean_ranks),
        order=order,
        friedman=friedman,
        critical_difference=difference,
        groups=groups,
    )


def _too_few(values: Any, friedman: Outcome) -> str:
    """With one value in each split that is a mean over seeds, more splits are what helps."""
    k, n_blocks = len(values), len(values[0])
    if friedman.n > n_blocks:
        return str(friedman.reason)
    needed = next(blocks for blocks in itertools.count(2) if smallest_attainable_p(blocks, 1, k) < LEVEL)
    return (
        f"one value on each split, {n_blocks} in all, is too few: the smallest attainable p is "
        f"{friedman.smallest_p:.3g}, {needed} splits can give less than {LEVEL}"
    )


def _groups(ranks: list[float], order: tuple[int, ...], difference: float) -> tuple[tuple[int, ...], ...]:
    """From each method as far as its neighbours are nearer than the difference, if no group before goes as far."""
    groups, reached = [], 0
    for start, rank in enumerate(ranks):
        end = sum(other - rank < difference for other in ranks[start:]) + start
        if end > reached:
            groups.append(order[start:end])
            reached = end
    return tuple(groups)
