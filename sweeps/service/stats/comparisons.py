"""Rows of a table against each other: which cells they share, each row against the default, and which rows are bold."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mucon.errors import InputError
from sweeps.service.stats.significance import (
    Floats,
    Outcome,
    friedman_with_replicates,
    holm,
    wilcoxon_over_videos,
)

SeedValues = Mapping[tuple[str, int], float]
"""A row's score: (split, seed) -> value; what is not finished or not defined has no entry."""
VideoValues = Mapping[tuple[str, int], Mapping[str, float | None]]
"""A row's score of each test video: (split, seed) -> video -> value, None where it is undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What rows have in common.

    Attributes:
        values: `[k B R]`, rows x splits x seeds.
        splits: in the order of `values`.
        seeds: in the order of `values`.
    """

    values: Floats
    splits: tuple[str, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A row against another one, in p values that are adjusted over all comparisons of the table.

    Attributes:
        seeds: the paper's test, splits as blocks and seeds as replicates.
        videos: the test over test videos, mean over seeds per video; None where the score has no value per video.
    """

    seeds: Outcome
    videos: Outcome | None

    @property
    def decisive(self) -> Outcome:
        """The paper's test; where the seeds are too few for it and the videos are enough, that over videos."""
        return self.videos if self.seeds.p is None and self.videos and self.videos.p is not None else self.seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bold:
    """The rows that are bold.

    Attributes:
        best: the row with the best mean over whole seeds; None where no row has a value.
        rows: bold ones in the order of the table: the best, and those that were tested and cannot be told from it.
        against_best: for each row its test against the best; None for the best and for rows without a value.
    """

    best: int | None
    rows: tuple[int, ...]
    against_best: tuple[Outcome | None, ...]


def split_names(rows: Sequence[SeedValues]) -> tuple[str, ...]:
    """The splits on which any of the rows has a value, sorted."""
    return tuple(sorted({split for row in rows for split, _ in row}))


def seed_means(row: SeedValues, splits: Sequence[str]) -> dict[int, float]:
    """Seed -> mean over the splits, for the seeds that have them all.

    >>> seed_means({("1", 1): 0.4, ("2", 1): 0.6, ("1", 2): 0.9}, ("1", "2"))
    {1: 0.5}
    """
    seeds = sorted({seed for _, seed in row})
    whole = [seed for seed in seeds if all((split, seed) in row for split in splits)]
    return {seed: statistics.fmean(row[split, seed] for split in splits) for seed in whole}


def common_seeds(rows: Sequence[SeedValues], splits: Sequence[str] | None = None) -> Common:
    """The seeds that every row has on every split, which tests with replicates need.

    Args:
        rows: at least one.
        splits: names of the splits that count; by default all on which any row has a value.

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
    """The mean over seeds of each video that every row defines with every one of the seeds.

    A video that some seed leaves undefined is left out, since its mean would be over other seeds than its neighbour's.

    Args:
        rows: values by video; those of cells that are not named are ignored.
        splits: names.
        seeds: common to the rows.

    Returns:
        `[k V]`, and (split, video) of each.

    >>> row = {("1", 1): {"a": 0.2, "b": 0.5}, ("1", 2): {"a": 0.6, "b": None}}
    >>> common_videos([row], ("1",), (1, 2))
    (array([[0.4]]), (('1', 'a'),))
    """
    found, names = [], []
    for split in splits if seeds else ():
        cells = [[row.get((split, seed), {}) for seed in seeds] for row in rows]
        videos = sorted(set.intersection(*(set(cell) for of_row in cells for cell in of_row)))
        values = np.array(
            [[[cell[video] for video in videos] for cell in of_row] for of_row in cells], dtype=np.float64
        ).mean(axis=1)  # None is NaN, and so is a mean with it
        defined = ~np.isnan(values).any(axis=0)
        found.append(values[:, defined])
        names += [(split, video) for video, counts in zip(videos, defined, strict=True) if counts]
    means = np.concatenate(found, axis=1) if found else np.zeros((len(rows), 0))
    return means, tuple(names)


def compare_with_default(
    rows: Sequence[SeedValues],
    default: int,
    videos: Sequence[VideoValues] | None = None,
    *,
    higher_is_better: bool = True,
) -> tuple[Comparison | None, ...]:
    """Each row against the default row: the paper's test and, beside it, that over test videos.

    Both are adjusted by Holm over rows - 1 comparisons, also where a row is not there yet: a p does not change while
    other rows are being trained. Each pair is tested on the seeds that both have on every split of the table. A
    direction of 1 says that the row is better than the default.

    Args:
        rows: the scores by cell.
        default: number of the default row.
        videos: the same by video, or None where the score has no value per video.
        higher_is_better: False for errors and times.

    Returns:
        For each row; None for the default row.

    Raises:
        InputError: no such row, or different numbers of rows with and without videos.
    """
    return _compare(rows, default, videos, higher_is_better=higher_is_better)


def best_rows(
    rows: Sequence[SeedValues], videos: Sequence[VideoValues] | None = None, *, higher_is_better: bool = True
) -> Bold:
    """Which rows are bold: the best one, and every row that cannot be told from it at 5 %.

    The best row is that with the best mean over whole seeds, as the table shows it. Every other row is tested
    against it as in `compare_with_default` (Holm over rows - 1), and is told from it where its adjusted p is below
    0.05 and the best row has the better ranks, too. The paper's test decides; for a row with too few seeds the test
    over test videos does, and a note says so; a row that neither can judge is bold where its mean is the best one,
    too, and otherwise not, which claims nothing.
    Measured with five seeds on one and on four splits: of equally good rows a given one loses its mark in 1 to 3 % of
    the tables, some one of them in 5 % of the tables with two or three rows and in 7 to 10 % of those with six.

    Args:
        rows: the scores by cell.
        videos: the same by video, or None: then nothing decides where the seeds are too few.
        higher_is_better: False for errors and times.

    Raises:
        InputError: different numbers of rows with and without videos.

    >>> rows = [{("1", seed): value + 0.01 * seed for seed in range(5)} for value in (0.5, 0.495, 0.4)]
    >>> best_rows(rows).rows
    (0, 1)
    """
    sign = 1 if higher_is_better else -1
    splits = split_names(rows)
    of_seeds = [seed_means(row, splits) for row in rows]
    means = {i: statistics.fmean(values.values()) for i, values in enumerate(of_seeds) if values}
    if not means:
        return Bold(best=None, rows=(), against_best=(None,) * len(rows))
    best = max(means, key=lambda i: sign * means[i])
    compared = _compare(rows, best, videos, higher_is_better=higher_is_better)
    judged = [c.decisive if c is not None and i in means else None for i, c in enumerate(compared)]
    adjusted = holm([outcome.p if outcome else None for i, outcome in enumerate(judged) if i != best])
    adjusted.insert(best, None)
    against = tuple(replace(o, adjusted_p=p) if o else None for o, p in zip(judged, adjusted, strict=True))
    kept = [o is not None and o.p is not None and not (o.significant and o.direction < 0) for o in against]
    level = [i in means and math.isclose(means[i], means[best], rel_tol=0, abs_tol=1e-9) for i in range(len(rows))]
    return Bold(
        best=best,
        rows=tuple(i for i in range(len(rows)) if level[i] or kept[i]),
        against_best=against,
    )


def _compare(
    rows: Sequence[SeedValues], other: int, videos: Sequence[VideoValues] | None, *, higher_is_better: bool
) -> tuple[Comparison | None, ...]:
    if not 0 <= other < len(rows):
        raise InputError(f"a table's rows are compared with one of them, there is no row {other} among {len(rows)}")
    if videos is not None and len(videos) != len(rows):
        raise InputError(f"every row has its videos' scores, there are {len(rows)} rows and {len(videos)} with videos")
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
