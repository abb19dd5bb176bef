"""Compares two trained models on the same test videos."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from mucon.errors import InputError, Problem
from mucon.metrics.catalogue import Metric
from sweeps.service.stats.significance import LEVEL, Floats, Outcome, check_finite, count_text, holm, rounded, too_few

VIDEOS_NOTE = (
    "the test compares these two trained models on new recordings; it says nothing about their settings, as other "
    "seeds of the same settings may differ as much"
)
"""Scope of a p of `wilcoxon_over_videos`."""
WILCOXON = "Wilcoxon signed-rank"

_EXACT_UP_TO = 50
"""Differing videos up to which Wilcoxon's distribution is exact."""


Rows = Sequence[Mapping[str, Any]]
"""`per_video` of a result: for each video `id` and prediction -> metric -> value, None if undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A metric of two trained models.

    Attributes:
        metric: the metric.
        first: mean over the compared units of the first model, in the unit of the result files.
        second: that of the second model.
        outcome: the test of their difference, adjusted by Holm over all tests; direction 1: the first is better.
        videos: ids of the videos that both models define.
    """

    metric: Metric
    first: float
    second: float
    outcome: Outcome
    videos: tuple[str, ...] = ()


def compare_models(
    first: Rows, second: Rows, prediction: str, metrics: Sequence[Metric], groups: Mapping[str, str] | None = None
) -> tuple[Compared, ...]:
    """Compares two trained models, see `compare_pairs`."""
    return compare_pairs([(first, second)], prediction, metrics, groups)[0]


def compare_pairs(
    pairs: Sequence[tuple[Rows, Rows]],
    prediction: str,
    metrics: Sequence[Metric],
    groups: Mapping[str, str] | None = None,
) -> list[tuple[Compared, ...]]:
    """Compares pairs of trained models, each on the videos that both were evaluated on; Holm over all tests.

    Args:
        pairs: `per_video` of the results of the first and the second model.
        prediction: name of the compared prediction.
        metrics: the compared metrics; those that are undefined for every video are left out.
        groups: video -> group, such as the subject. Videos of one group are not independent: with groups, the compared
            units are the groups, each with the mean of its videos.

    Raises:
        InputError: the models of a pair have no video in common.
    """
    found = [_tested(pair, prediction, metrics, groups) for pair in pairs]
    adjusted = iter(holm([one.outcome.p for tested in found for one in tested]))
    return [
        tuple(replace(one, outcome=replace(one.outcome, adjusted_p=next(adjusted))) for one in tested)
        for tested in found
    ]


def _tested(
    pair: tuple[Rows, Rows], prediction: str, metrics: Sequence[Metric], groups: Mapping[str, str] | None
) -> list[Compared]:
    first, second = ({row["id"]: row.get(prediction, {}) for row in rows} for rows in pair)
    common = sorted(first.keys() & second.keys())
    if not common:
        message = "the two models have no scored video in common"
        raise InputError(Problem(rule="mismatch", place="test videos", value=0, message=message))
    compared = []
    for metric in metrics:
        of_both = {id: (first[id].get(metric.name), second[id].get(metric.name)) for id in common}
        defined = {id: values for id, values in of_both.items() if None not in values}
        if defined:
            means = unit_means(defined, groups)
            outcome = wilcoxon_over_videos(*means.T, higher_is_better=metric.higher_is_better)
            ours, theirs = map(float, means.mean(axis=0))
            compared.append(Compared(metric=metric, first=ours, second=theirs, outcome=outcome, videos=tuple(defined)))
    return compared


def unit_means(values: Mapping[str, ArrayLike], groups: Mapping[str, str] | None) -> Floats:
    """The mean of each group of videos, or the value of each video without groups: `[U, ...]`.

    Args:
        values: video -> value or values, at least one video.
        groups: as for `compare_pairs`.
    """
    units: dict[str, list[ArrayLike]] = {}
    for id, value in values.items():
        units.setdefault(id if groups is None else groups[id], []).append(value)
    return np.array([np.mean(np.asarray(unit, dtype=np.float64), axis=0) for unit in units.values()])


def wilcoxon_over_videos(
    first: ArrayLike, second: ArrayLike, *, higher_is_better: bool = True, comparisons: int = 1
) -> Outcome:
    """Tests whether two trained models differ over the test videos: Wilcoxon's signed-rank test, two-sided.

    Videos with equal values (to 12 digits) are left out, as by Wilcoxon; if all are equal, p = 1. The distribution is
    exact, with or without ties, up to 50 differing videos, otherwise normal (corrected for ties, not for continuity).
    See `VIDEOS_NOTE`.
    Source: Wilcoxon (1945).

    Args:
        first: `[V]`, the value of each video.
        second: `[V]`, values of the other model for the same videos.
        higher_is_better: False for errors.
        comparisons: see `friedman_with_replicates`.

    Raises:
        InputError: different numbers of videos, or a NaN or infinite value.

    >>> outcome = wilcoxon_over_videos([3, 4, 5, 6, 7, 8, 9], [1, 1, 1, 1, 1, 1, 9])
    >>> outcome.p, outcome.counted, outcome.smallest_p, outcome.direction
    (0.03125, '6 of 7 videos differ', 0.015625, 1)
    """
    ours, theirs = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if ours.shape != theirs.shape or ours.ndim != 1:
        raise InputError(
            Problem(
                rule="shape",
                place="values by video",
                value=(ours.shape, theirs.shape),
                expected="two vectors with one value per video",
            )
        )
    check_finite(ours)
    check_finite(theirs)
    differences = rounded(ours - theirs, max(np.abs(ours).max(initial=0), np.abs(theirs).max(initial=0)))
    different = differences[differences != 0] * (1 if higher_is_better else -1)
    n, n_videos = len(different), len(ours)
    counted = f"{n} of {count_text(n_videos, 'video')} differ" + ("s" if n_videos == 1 else "")
    smallest = _smallest_signed_rank_p(n_videos)
    shared = Outcome(test=WILCOXON, n=n, counted=counted, smallest_p=smallest, comparisons=comparisons)
    if smallest * comparisons >= LEVEL:
        needed = next(v for v in itertools.count(1) if _smallest_signed_rank_p(v) * comparisons < LEVEL)
        videos = count_text(n_videos, "video")
        return replace(shared, reason=too_few(videos, smallest, comparisons, count_text(needed, "video")))
    if not n:
        return replace(shared, statistic=0.0, p=1.0)
    ranks = stats.rankdata(np.abs(different))
    better, worse = float(ranks[different > 0].sum()), float(ranks[different < 0].sum())
    statistic = min(better, worse)
    p = _exact_signed_rank_p(ranks, statistic) if n <= _EXACT_UP_TO else float(stats.wilcoxon(different).pvalue)
    return replace(shared, statistic=statistic, p=p, direction=int(np.sign(better - worse)))


def _exact_signed_rank_p(ranks: Floats, statistic: float) -> float:
    """Twice the probability that a random subset of the ranks sums up to the statistic or less."""
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
