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


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A metric of two trained models.

    Attributes:
        metric: the metric.
        first: mean over the compared units of the first model, in the unit of the result files.
        second: that of the second model.
        outcome: the test of their difference, adjusted by Holm over the metrics; direction 1: the first is better.
    """

    metric: Metric
    first: float
    second: float
    outcome: Outcome


def compare_models(
    first: Sequence[Mapping[str, Any]],
    second: Sequence[Mapping[str, Any]],
    prediction: str,
    metrics: Sequence[Metric],
    groups: Mapping[str, str] | None = None,
) -> tuple[Compared, ...]:
    """Compares two trained models on the videos that both were evaluated on.

    Args:
        first: `per_video` of the first model's result: for each video `id` and prediction -> metric -> value.
        second: that of the second model.
        prediction: name of the compared prediction.
        metrics: the compared metrics; those that are undefined for every video are left out.
        groups: video -> group, such as the subject. Videos of one group are not independent: with groups, the compared
            units are the groups, each with the mean of its videos.

    Raises:
        InputError: the models have no video in common.
    """
    rows = [{row["id"]: row.get(prediction, {}) for row in result} for result in (first, second)]
    common = sorted(rows[0].keys() & rows[1].keys())
    if not common:
        raise InputError(
            Problem(
                rule="mismatch", place="test videos", value=0, message="the two models have no test video in common"
            )
        )
    pairs = []
    for metric in metrics:
        values: dict[str, list[tuple[float, float]]] = {}
        for id in common:
            ours, theirs = (row[id].get(metric.name) for row in rows)
            if ours is not None and theirs is not None:
                values.setdefault(id if groups is None else groups[id], []).append((ours, theirs))
        if values:
            means = np.array([np.mean(unit, axis=0) for unit in values.values()])
            outcome = wilcoxon_over_videos(*means.T, higher_is_better=metric.higher_is_better)
            pairs.append((metric, means.mean(axis=0), outcome))
    adjusted = holm([outcome.p for _, _, outcome in pairs])
    return tuple(
        Compared(metric=metric, first=ours, second=theirs, outcome=replace(outcome, adjusted_p=p))
        for (metric, (ours, theirs), outcome), p in zip(pairs, adjusted, strict=True)
    )


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
        videos = count_text(n_videos, "test video")
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
