"""Ranks more than two methods: mean ranks and groups that do not differ significantly (critical differences)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sweeps.service.stats.significance import (
    LEVEL,
    Outcome,
    block_ranks,
    friedman_with_replicates,
    rank_variance,
    smallest_attainable_p,
    too_few,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Methods ordered by mean rank.

    Attributes:
        mean_ranks: mean rank of each method in the given order, 1 is the best; over the splits or, with replicates,
            over all ranks of the splits.
        order: indices of the methods, the best first.
        friedman: test of whether the methods differ at all.
        critical_difference: smallest significant difference of two mean ranks; None if `friedman` has no p.
        groups: maximal sets of neighbours in the order that are not significantly different, the best first; a method
            that differs from all others is a group by itself. Empty if `friedman` has no p.
    """

    mean_ranks: tuple[float, ...]
    order: tuple[int, ...]
    friedman: Outcome
    critical_difference: float | None
    groups: tuple[tuple[int, ...], ...]


def ranking(values: Any, *, higher_is_better: bool = True) -> Ranking:
    """Ranks methods over splits, with Friedman's test and Nemenyi's critical difference at 5 %.

    `[k B 1]` with each split's mean over seeds gives the usual diagram; it needs three or four splits. `[k B R]` ranks
    all seeds of a split together, as the paper's test does, and needs one split with five seeds; `REPLICATES_NOTE`
    applies. The critical difference is `q s / sqrt(B R)`, q the 95 % point of the studentized range of k and s² of
    `rank_variance`, which accounts for ties; without ties and with R = 1 it is `q / sqrt(2) sqrt(k (k + 1) / (6 B))`.
    If Friedman's p is not below 0.05, all methods form one group.
    Source: Demšar (2006), equations 6 and 7; Nemenyi (1963).

    Args:
        values: `[k B R]`, an array or nested sequences.
        higher_is_better: False for errors and times.

    Raises:
        InputError: see `block_ranks`.

    >>> ranked = ranking([[[0.9], [0.8], [0.9], [0.7]], [[0.8], [0.6], [0.8], [0.6]], [[0.1], [0.2], [0.1], [0.2]]])
    >>> ranked.mean_ranks, round(ranked.critical_difference, 3), ranked.groups
    ((1.0, 2.0, 3.0), 1.657, ((0, 1), (1, 2)))
    """
    friedman = friedman_with_replicates(values, higher_is_better=higher_is_better)
    if friedman.p is None and friedman.n == len(values[0]) > 0:
        friedman = replace(friedman, reason=_too_few_splits(friedman, len(values)))
    ranks = block_ranks(values, higher_is_better=not higher_is_better)
    k, n_blocks, n_seeds = ranks.shape
    if not friedman.n:
        return Ranking(mean_ranks=(), order=(), friedman=friedman, critical_difference=None, groups=())
    mean_ranks = ranks.mean(axis=(1, 2))
    order = tuple(int(i) for i in np.argsort(mean_ranks, kind="stable"))
    difference = None
    groups: tuple[tuple[int, ...], ...] = ()
    if friedman.p is not None:
        from scipy import stats  # takes half a second, and only sweeps over several splits need it

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


def _too_few_splits(friedman: Outcome, k: int) -> str:
    """The reason for one value per split: more splits would help, more seeds would not."""
    needed = next(blocks for blocks in itertools.count(2) if smallest_attainable_p(blocks, 1, k) < LEVEL)
    counted = f"one value on each of {friedman.n} splits" if friedman.n > 1 else "one value on one split"
    return too_few(counted, smallest_attainable_p(friedman.n, 1, k), 1, f"{needed} splits")


def _groups(ranks: list[float], order: tuple[int, ...], difference: float) -> tuple[tuple[int, ...], ...]:
    """Starts a group at each method, up to the last neighbour within the difference; drops groups inside earlier ones.

    Args:
        ranks: mean ranks in ascending order.
        order: index of the method at each rank.
        difference: the critical difference.
    """
    groups, reached = [], 0
    for start, rank in enumerate(ranks):
        end = sum(other - rank < difference for other in ranks[start:]) + start
        if end > reached:
            groups.append(order[start:end])
            reached = end
    return tuple(groups)
