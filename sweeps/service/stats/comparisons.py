"""Compares rows of a table: common seeds and videos, each row against the default row, and which rows are bold."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mucon.errors import InputError, Problem
from sweeps.service.stats.significance import (
    Floats,
    Outcome,
    friedman_with_replicates,
    holm,
    wilcoxon_over_videos,
)

SeedValues = Mapping[tuple[str, int], float]
"""Scores of a row: (split, seed) -> value; without an entry if the cell is not finished or the score is undefined."""
VideoValues = Mapping[tuple[str, int], Mapping[str, float | None]]
"""Scores of a row by test video: (split, seed) -> video -> value, None if it is undefined."""


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
        seeds: the paper's test, with splits as blocks and seeds as replicates.
        videos: the test over test videos (mean over seeds); None if the score has no value per video.
    """

    seeds: Outcome
    videos: Outcome | None

    @property
    def decisive(self) -> Outcome:
        """The paper's test, or the test over videos if only that has a p."""
        return self.videos if self.seeds.p is None and self.videos and self.videos.p is not None else self.seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bold:
    """The bold rows of a column.

    Attributes:
        best: index of the row with the best mean over complete seeds; None if no row has a value.
        rows: indices of the bold rows: the best, and those that were tested and are not significantly different.
        against_best: test of each row against the best; None for the best and for rows without a value.
    """

    best: int | None
    rows: tuple[int, ...]
    against_best: tuple[Outcome | None, ...]


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


def common_videos(
    rows: Sequence[VideoValues], splits: Sequence[str], seeds: Sequence[int]
) -> tuple[Floats, tuple[tuple[str, str], ...]]:
    """Mean over seeds of each video for which every row has a value with every seed.

    A video that is undefined for some seed is left out: its mean would be over other seeds than those of other videos.

    Args:
        rows: values by video; cells of other splits and seeds are ignored.
        splits: names.
        seeds: common seeds of the rows.

    Returns:
        Means `[k V]`, and (split, video) of each.

    >>> row = {("1", 1): {"a": 0.2, "b": 0.5}, ("1", 2): {"a": 0.6, "b": None}}
    >>> common_videos([row], ("1",), (1, 2))
    (array([[0.4]]), (('1', 'a'),))
    """
    by_split, names = [], []
    for split in splits if seeds else ():
        cells = [[row.get((split, seed), {}) for seed in seeds] for row in rows]
        videos = sorted(set.intersection(*(set(cell) for of_row in cells for cell in of_row)))
        values = np.array(
            [[[cell[video] for video in videos] for cell in of_row] for of_row in cells], dtype=np.float64
        ).mean(axis=1)  # None becomes NaN, and so does its mean
        defined = ~np.isnan(values).any(axis=0)
        by_split.append(values[:, defined])
        names += [(split, video) for video, is_defined in zip(videos, defined, strict=True) if is_defined]
    means = np.concatenate(by_split, axis=1) if by_split else np.zeros((len(rows), 0))
    return means, tuple(names)


def compare_with_default(
    rows: Sequence[SeedValues],
    default: int,
    videos: Sequence[VideoValues] | None = None,
    *,
    higher_is_better: bool = True,
) -> tuple[Comparison | None, ...]:
    """Tests each row against the default row: the paper's test and the test over test videos.

    Both are adjusted by Holm over rows - 1 comparisons, including rows without values yet: p does not change while
    other rows are being trained. Each pair is tested on the seeds that both have on every split of the table. Direction
    1 means that the row is better than the default row.

    Args:
        rows: scores by cell.
        default: index of the default row.
        videos: scores by cell and video; None if the score has no value per video.
        higher_is_better: False for errors and times.

    Returns:
        A comparison per row; None for the default row.

    Raises:
        InputError: no row with that index, or `videos` of another length than `rows`.
    """
    return _compare(rows, default, videos, higher_is_better=higher_is_better)


def best_rows(
    rows: Sequence[SeedValues], videos: Sequence[VideoValues] | None = None, *, higher_is_better: bool = True
) -> Bold:
    """Selects the bold rows: the best row and every row that is not significantly different from it at 5 %.

    The best row has the best mean over complete seeds, as printed in the table. Every other row is tested against it as
    in `compare_with_default` (Holm over rows - 1); it is significantly different if its adjusted p is below 0.05 and
    the best row has the better ranks, too. The paper's test decides; for rows with too few seeds the test over test
    videos does. A row without any p is bold only if its mean equals the best one; no claim is made about such rows.
    Measured with five seeds on one and on four splits: among equally good rows, a given row is not bold in 1 to 3 % of
    the tables, and at least one row is not bold in 5 % of the tables with two or three rows and in 7 to 10 % of the
    tables with six.

    Args:
        rows: scores by cell.
        videos: scores by cell and video; None if the score has no value per video.
        higher_is_better: False for errors and times.

    Raises:
        InputError: `videos` of another length than `rows`.

    >>> rows = [{("1", seed): value + 0.01 * seed for seed in range(5)} for value in (0.5, 0.495, 0.4)]
    >>> best_rows(rows).rows
    (0, 1)
    """
    sign = 1 if higher_is_better else -1
    splits = split_names(rows)
    by_seed = [seed_means(row, splits) for row in rows]
    means = {i: statistics.fmean(values.values()) for i, values in enumerate(by_seed) if values}
    if not means:
        return Bold(best=None, rows=(), against_best=(None,) * len(rows))
    best = max(means, key=lambda i: sign * means[i])
    comparisons = _compare(rows, best, videos, higher_is_better=higher_is_better)
    outcomes = [pair.decisive if pair is not None and i in means else None for i, pair in enumerate(comparisons)]
    adjusted = holm([outcome.p if outcome else None for i, outcome in enumerate(outcomes) if i != best])
    adjusted.insert(best, None)
    against = tuple(replace(o, adjusted_p=p) if o else None for o, p in zip(outcomes, adjusted, strict=True))
    similar = [o is not None and o.p is not None and not (o.significant and o.direction < 0) for o in against]
    equal = [i in means and math.isclose(means[i], means[best], rel_tol=0, abs_tol=1e-9) for i in range(len(rows))]
    return Bold(
        best=best,
        rows=tuple(i for i in range(len(rows)) if equal[i] or similar[i]),
        against_best=against,
    )


def _compare(
    rows: Sequence[SeedValues], other: int, videos: Sequence[VideoValues] | None, *, higher_is_better: bool
) -> tuple[Comparison | None, ...]:
    if not 0 <= other < len(rows):
        raise InputError(Problem(rule="range", place="row", value=other, expected=f"0 to {len(rows) - 1}"))
    if videos is not None and len(videos) != len(rows):
        expected = f"scores by video of {len(rows)} rows"
        raise InputError(Problem(rule="shape", place="videos", value=len(videos), expected=expected))
    splits, comparisons = split_names(rows), len(rows) - 1
    by_seed, by_video = [], []
    for i in range(len(rows)):
        if i == other:
            continue
        common = common_seeds([rows[i], rows[other]], splits=splits)
        by_seed.append(
            friedman_with_replicates(common.values, higher_is_better=higher_is_better, comparisons=comparisons)
        )
        if videos is not None:
            means, _ = common_videos([videos[i], videos[other]], splits, common.seeds)
            by_video.append(wilcoxon_over_videos(*means, higher_is_better=higher_is_better, comparisons=comparisons))
    over_videos: list[Outcome | None] = [*_adjusted(by_video)] if videos is not None else [None] * comparisons
    pairs: list[Comparison | None] = [
        Comparison(seeds=of_seeds, videos=of_videos)
        for of_seeds, of_videos in zip(_adjusted(by_seed), over_videos, strict=True)
    ]
    pairs.insert(other, None)
    return tuple(pairs)


def _adjusted(outcomes: Sequence[Outcome]) -> list[Outcome]:
    p_values = holm([outcome.p for outcome in outcomes])
    return [replace(outcome, adjusted_p=p) for outcome, p in zip(outcomes, p_values, strict=True)]
