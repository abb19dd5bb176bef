"""Whether a difference of two models is larger than that of two seeds of the same settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from mucon.metrics.catalogue import Metric
from sweeps.service.compare.entrants import Entrant
from sweeps.service.stats.significance import LEVEL
from sweeps.service.stats.videos import Compared, unit_means


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A metric over the seeds of a row, as means over the compared videos, in the unit of the result files.

    Attributes:
        row: sweep, row and split.
        n: number of seeds, at least 2.
        std: sample standard deviation.
        low: the lowest value.
        high: the highest value.
    """

    row: str
    n: int
    std: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The difference of two entrants in a metric beside the spread over seeds.

    Attributes:
        difference: second minus first.
        spreads: of the rows of both, one if they are of the same row; empty if no other seed is known.
        limit: 95 % of the differences between trainings of equal settings are at most this large; None without spreads.
            It is wide with few seeds, as their deviation is uncertain.
    """

    difference: float
    spreads: tuple[Spread, ...]
    limit: float | None

    @property
    def is_inside(self) -> bool | None:
        """Whether seeds alone explain the difference; None without spreads, or if no value varies over the seeds."""
        return abs(self.difference) <= self.limit if self.limit else None


def noise(first: Entrant, second: Entrant, compared: Compared, groups: Mapping[str, str] | None) -> Noise:
    """The difference in a metric and the spread over the seeds of both rows.

    The limit is that of Student's t for the difference of two means, with the deviations of the rows; an entrant whose
    row has no other seed is taken to vary as the other one.

    Args:
        first: the first entrant.
        second: the other entrant.
        compared: a metric of both.
        groups: video -> group, see `compare_pairs`.
    """
    own = [_spread(one, compared.metric, compared.videos, groups) for one in (first, second)]
    found = [one for one in own if one is not None]
    spreads = tuple(dict.fromkeys(found))
    limit = None
    if found:
        variances = [(one or found[0]).std ** 2 for one in own]
        counts = (len(first.trainings), len(second.trainings))
        deviation = math.sqrt(sum(variance / n for variance, n in zip(variances, counts, strict=True)))
        freedom = sum(one.n - 1 for one in spreads)
        limit = float(special.stdtrit(freedom, 1 - LEVEL / 2)) * deviation
    return Noise(difference=compared.second - compared.first, spreads=spreads, limit=limit)


def _spread(entrant: Entrant, metric: Metric, videos: Sequence[str], groups: Mapping[str, str] | None) -> Spread | None:
    values = []
    for rows in entrant.seeds.values():
        scores = {row["id"]: row.get(entrant.prediction, {}).get(metric.name) for row in rows}
        defined = {id: scores[id] for id in videos if scores.get(id) is not None}
        if defined:
            values.append(float(unit_means(defined, groups).mean()))
    if len(values) < 2:
        return None
    return Spread(row=entrant.row, n=len(values), std=float(np.std(values, ddof=1)), low=min(values), high=max(values))
