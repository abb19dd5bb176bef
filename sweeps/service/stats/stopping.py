"""Choice of an epoch or of a seed by a score without labels: how well its ranks follow those of the accuracy."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MIN_POINTS = 3
"""Fewest points of which a rank correlation is computed."""
EPOCH = "epoch"
"""Name of the score that is the number of the epoch: whoever trains to the end takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A training after some epochs.

    Attributes:
        epoch: number of finished epochs.
        value: accuracy on the scored part.
        scores: name -> score of the training at this epoch, the higher the better.
    """

    epoch: int
    value: float
    scores: Mapping[str, float]


Training = Sequence[Point]
"""The points of a training in the order of their epochs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a score chooses.

    Attributes:
        over_epochs: rank correlation of score and accuracy over the epochs of each training that has one.
        over_seeds: the same over the trainings of a split at their last epochs, mean over the splits; None if no split
            has one.
        at_epoch: accuracy of each training at the epoch with its highest score, the first one of equals.
        of_seed: last accuracy of the training with the highest last score, mean over the splits.
    """

    over_epochs: tuple[float, ...]
    over_seeds: float | None
    at_epoch: tuple[float, ...]
    of_seed: float


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None for fewer than three points, or if one side has equal values only.

    >>> rank_correlation([1, 2, 3, 4], [0.1, 0.2, 0.4, 0.3]), rank_correlation([1, 1, 1], [1, 2, 3])
    (0.8, None)
    """
    if len(xs) < MIN_POINTS or len(set(xs)) == 1 or len(set(ys)) == 1:
        return None
    from scipy import stats  # takes half a second, and only this command needs it

    return round(float(stats.spearmanr(xs, ys).statistic), 9)


def choices(trainings: Mapping[tuple[str, int], Training]) -> dict[str, Choice]:
    """What each score chooses that all points have; the epoch's own number is one of them.

    Args:
        trainings: (split, seed) -> points of a training, at least one.
    """
    points = [point for training in trainings.values() for point in training]
    names = [name for name in points[0].scores if all(name in point.scores for point in points)]
    by_split: dict[str, list[Training]] = {}
    for (split, _), training in trainings.items():
        by_split.setdefault(split, []).append(training)

    def score(point: Point, name: str) -> float:
        return point.epoch if name == EPOCH else point.scores[name]

    def choice(name: str) -> Choice:
        ends = [[(score(one[-1], name), one[-1].value) for one in of_split] for of_split in by_split.values()]
        over_seeds = [rho for pairs in ends if (rho := rank_correlation(*zip(*pairs, strict=True))) is not None]
        return Choice(
            over_epochs=tuple(
                rho
                for one in trainings.values()
                if (rho := rank_correlation([score(p, name) for p in one], [p.value for p in one])) is not None
            ),
            over_seeds=statistics.fmean(over_seeds) if over_seeds else None,
            at_epoch=tuple(max(one, key=lambda point: score(point, name)).value for one in trainings.values()),
            of_seed=statistics.fmean(max(pairs, key=lambda pair: pair[0])[1] for pairs in ends),
        )

    return {name: choice(name) for name in (EPOCH, *names)}


def best_epoch(trainings: Iterable[Training]) -> int:
    """The epoch with the highest mean accuracy over the trainings, of those that all of them have; the first of equals.

    >>> points = [Point(epoch=n, value=value, scores={}) for n, value in ((1, 0.5), (2, 0.7), (3, 0.6))]
    >>> best_epoch([points, points[:2]])
    2
    """
    values = [{point.epoch: point.value for point in training} for training in trainings]
    common = sorted(set.intersection(*(set(one) for one in values)))
    return max(common, key=lambda epoch: statistics.fmean(one[epoch] for one in values))
