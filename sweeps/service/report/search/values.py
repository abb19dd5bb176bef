"""What the figures of a search show: its points with their scores in the units of the axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mucon.metrics.catalogue import SCALES
from sweeps.service.report.figures.pictures import with_unit
from sweeps.service.search.points import PointRecord, SearchHistory, State

SHARES = (0.1, 0.25, 0.5, 0.75)
"""Shares of the ranked points up to which each colour of `RAMP` but the last counts, from the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """An objective.

    Attributes:
        title: title of the axis, with its unit.
        scale: factor from a recorded value to the one on the axis.
        higher_is_better: its direction.
    """

    title: str
    scale: float
    higher_is_better: bool

    @classmethod
    def of(cls, objective: Mapping[str, Any]) -> Score:
        """The objective of a record."""
        unit = objective["unit"]
        title = with_unit(objective["title"], unit)
        return cls(title=title, scale=SCALES[unit], higher_is_better=objective["higher_is_better"])

    def better(self, value: float, other: float) -> bool:
        """Whether a value is better than another."""
        return value > other if self.higher_is_better else value < other


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A point of a search.

    Attributes:
        number: its number.
        state: how it ended.
        settings: the settings that have an effect in it.
        means: its mean over seeds for each objective, in the unit of the axis; of a point that stopped at a rung, what
            its first seed reached there; empty without a score.
        stds: the deviation over seeds of each objective; None with fewer than two seeds.
        n: number of its seeds with a whole training.
        is_ranked: whether it can be the best: it has a whole training and keeps all limits.
        is_best: whether it is the best point or, with several objectives, on the Pareto front.
    """

    number: int
    state: State
    settings: Mapping[str, object]
    means: tuple[float, ...] = ()
    stds: tuple[float | None, ...] = ()
    n: int = 0
    is_ranked: bool = False
    is_best: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A search as its figures show it.

    Attributes:
        name: name of the search, with which the names of its files begin.
        about: what the scores are, printed above the axes.
        space: configuration path -> dimension as in the record of the search.
        scores: the objectives.
        dots: the points by number.
        importance: for each objective, configuration path -> share of the variation of the scores.
    """

    name: str
    about: str
    space: Mapping[str, Mapping[str, Any]]
    scores: tuple[Score, ...]
    dots: tuple[Dot, ...]
    importance: tuple[Mapping[str, float], ...] = ()

    @classmethod
    def of(cls, history: SearchHistory, about: str) -> Shown:
        """A search in the units of the axes.

        Args:
            history: the search.
            about: what the scores are.
        """
        search = history.search
        scores = tuple(map(Score.of, search["objectives"]))
        best = set(history.front if len(scores) > 1 else history.best[:1])
        dots = (_dot(record, scores, set(history.best), best) for record in history.records)
        return cls(
            name=search["name"],
            about=about,
            space=search["space"],
            scores=scores,
            dots=tuple(sorted(dots, key=lambda dot: dot.number)),
            importance=history.importance,
        )

    def values(self, path: str) -> list[object]:
        """The values of a setting in the points in which it has an effect."""
        return [dot.settings[path] for dot in self.dots if path in dot.settings]

    def best_so_far(self, index: int) -> list[float | None]:
        """The best mean of an objective up to each point; None before the first."""
        best: float | None = None
        bests = []
        for dot in self.dots:
            if dot.is_ranked and (best is None or self.scores[index].better(dot.means[index], best)):
                best = dot.means[index]
            bests.append(best)
        return bests

    def levels(self) -> dict[int, int]:
        """Number of a ranked point -> place of its colour in `RAMP`, by its rank.

        With several objectives, the points of the Pareto front have the first colour and all others the last but one.
        """
        ranked = [dot for dot in self.dots if dot.is_ranked]
        if len(self.scores) > 1:
            return {dot.number: 0 if dot.is_best else len(SHARES) - 1 for dot in ranked}
        sign = -1 if self.scores[0].higher_is_better else 1
        ranked.sort(key=lambda dot: (sign * dot.means[0], dot.number))
        return {dot.number: sum(rank / len(ranked) >= share for share in SHARES) for rank, dot in enumerate(ranked)}


def _dot(record: PointRecord, scores: tuple[Score, ...], ranked: set[int], best: set[int]) -> Dot:
    means = record.mean
    if not means and record.rung is not None:
        means = record.rungs[record.rung].objectives
    return Dot(
        number=record.point.number,
        state=record.state,
        settings=record.point.settings,
        means=tuple(score.scale * mean for score, mean in zip(scores, means, strict=bool(means))),
        stds=tuple(
            None if math.isnan(std) else score.scale * std
            for score, std in zip(scores, record.std or (math.nan,) * len(scores), strict=True)
        ),
        n=record.n,
        is_ranked=record.point.number in ranked,
        is_best=record.point.number in best,
    )
