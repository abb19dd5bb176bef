"""Which points of a search go on, which are the best, and by how much its best score flatters: pure functions."""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Iterable, Sequence

from sweeps.service.search.points import PointRecord
from sweeps.service.spec.columns import Column

ETA = 3
"""One of so many points goes on to the next rung or the next seed."""
Losses = tuple[float, ...]
"""One number per objective; smaller is better."""


def losses(columns: Sequence[Column], values: Sequence[float]) -> Losses:
    """Scores as numbers of which the smaller one is better."""
    return tuple(-value if column.higher_is_better else value for column, value in zip(columns, values, strict=True))


def goes_on(earlier: Sequence[Losses], one: Losses) -> bool:
    """Whether a point gets its next rung or seed.

    With one objective: it is in the best third of all points that have come as far, itself included; the first one
    always is, and of equal points the earlier one is better. With several: none of them is at least as good in all
    objectives.

    Args:
        earlier: the points that have come as far, in ascending order.
        one: the point.

    >>> goes_on([], (0.5,)), goes_on([(0.5,)], (0.4,)), goes_on([(0.5,)], (0.5,)), goes_on([(0.1,), (0.5,)], (0.2,))
    (True, True, False, False)
    """
    at = bisect.bisect_right(earlier, one)
    if len(one) == 1:
        return at < max(1, (len(earlier) + 1) // ETA)
    return not any(all(a <= b for a, b in zip(other, one, strict=True)) for other in earlier[:at])


def best(columns: Sequence[Column], records: Iterable[PointRecord]) -> tuple[int, ...]:
    """The numbers of the points, the best first, by their mean in the first objective less one standard error.

    The deviation of a seed is pooled over the points, so that a lucky point with one seed does not exceed a point that
    has shown its score with several.

    Args:
        columns: objectives of the search.
        records: the points; those that failed, broke a constraint or have no whole training are left out.
    """
    eligible = [record for record in records if is_eligible(record)]
    repeated = [record for record in eligible if record.n > 1]
    freedom = sum(record.n - 1 for record in repeated)
    pooled = math.sqrt(sum((record.n - 1) * record.std[0] ** 2 for record in repeated) / freedom) if freedom else 0.0

    def rank(record: PointRecord) -> tuple[float, int]:
        return losses(columns[:1], record.mean[:1])[0] + pooled / math.sqrt(record.n), record.point.number

    return tuple(record.point.number for record in sorted(eligible, key=rank))


def front(columns: Sequence[Column], records: Iterable[PointRecord]) -> tuple[int, ...]:
    """The numbers of the points that no other one dominates: at least as good in all objectives, better in one."""
    eligible = [(record.point.number, losses(columns, record.mean)) for record in records if is_eligible(record)]

    def is_dominated(one: Losses) -> bool:
        return any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for _, other in eligible)

    return tuple(number for number, one in eligible if not is_dominated(one))


def is_eligible(record: PointRecord) -> bool:
    """Whether a point can be the best: it has a whole training, did not fail and keeps the constraints."""
    return record.state in ("complete", "running") and record.n > 0 and all(one <= 0 for one in record.violations)


def optimism(column: Column, search: Sequence[float], fresh: Sequence[float]) -> float:
    """By how much a search overstates a point: its mean score less the mean of fresh seeds, in the metric's direction.

    The point was chosen because its score in the search was the best of many, of which luck is a part; fresh seeds
    have no such luck.

    Args:
        column: the metric.
        search: the scores in the search.
        fresh: the scores of seeds that had no part in the choice.

    >>> from sweeps.service.spec.columns import MOF
    >>> optimism(MOF, [0.75], [0.5, 0.75])
    0.125
    """
    difference = statistics.fmean(search) - statistics.fmean(fresh)
    return difference if column.higher_is_better else -difference
