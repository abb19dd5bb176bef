"""What is known of the points of a search, and what follows from each result; knows no study."""

from __future__ import annotations

import bisect
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from sweeps.service.search.points import Job, Measured, Point, PointRecord
from sweeps.service.search.rules import Losses, goes_on, losses
from sweeps.service.spec.search import Search


class Standings:
    """The points of a search and how far they have come.

    A point is trained with seed 1, up to each rung in turn and then to the end, and afterwards with one seed more at a
    time. After each of these stages it goes on if `rules.goes_on` says so of all points that have come as far. The
    base configuration always goes on. A point whose training failed or diverged has failed, and one whose mean breaks
    a constraint after a whole training is infeasible; neither is compared with others.

    Args:
        search: the search.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self._reached: defaultdict[tuple[int, float | None], list[Losses]] = defaultdict(list)
        self.records: dict[int, PointRecord] = {}

    def first(self, point: Point) -> Job:
        """The first training of a point, which is added."""
        self.records[point.number] = PointRecord(point=point, state="running")
        return Job(point, 1, self._search.rungs[0] if self._search.rungs else None)

    def add_known(self, point: Point, scores: Iterable[tuple[int, Measured]]) -> None:
        """Adds a point that is not trained, with its seeds and what they reached."""
        record = PointRecord(point=point, state="complete")
        for seed, reached in scores:
            record = _with_score(self._search, record, seed, reached)
            if _is_feasible(record):
                self._goes_on(record, record.n, None, record.mean)
        self._keep(record if _is_feasible(record) else replace(record, state="infeasible"))

    def ended(self, job: Job, reached: Measured | None, reason: str) -> Job | None:
        """Takes how a training ended.

        Args:
            job: the training.
            reached: what it reached; None if it failed.
            reason: why it failed.

        Returns:
            The next training of the point; None if the point has ended.
        """
        record = self.records[job.point.number]
        if reached is None:
            return self._keep(replace(record, state="failed", reason=reason))
        if job.rung is not None:
            record = replace(record, rungs={**record.rungs, job.rung: reached})
            if not self._goes_on(record, 1, job.rung, reached.objectives):
                return self._keep(replace(record, state="stopped"))
            later = next((rung for rung in self._search.rungs if rung > job.rung), None)
            return self._keep(record, Job(job.point, 1, later))
        record = _with_score(self._search, record, job.seed, reached)
        feasible = _is_feasible(record)
        goes = self._goes_on(record, record.n, None, record.mean) if feasible else record.point.origin == "default"
        if goes and record.n < self._search.seeds:
            return self._keep(record, Job(job.point, job.seed + 1))
        return self._keep(replace(record, state="complete" if feasible else "infeasible"))

    def _goes_on(self, record: PointRecord, seeds: int, rung: float | None, values: tuple[float, ...]) -> bool:
        """Whether a point goes on from a stage, which it enters for the points after it."""
        earlier, one = self._reached[seeds, rung], losses(self._search.objectives, values)
        goes = goes_on(earlier, one)
        bisect.insort(earlier, one)
        return goes or record.point.origin == "default"

    def _keep(self, record: PointRecord, later: Job | None = None) -> Job | None:
        """Keeps what is known of a point, and returns its next training."""
        self.records[record.point.number] = record
        return later


def _with_score(search: Search, record: PointRecord, seed: int, reached: Measured) -> PointRecord:
    """A point with the scores of one seed more."""
    scores = {**record.scores, seed: reached}
    means = map(statistics.fmean, zip(*(one.bounded for one in scores.values()), strict=True))
    bounds = zip(search.constraints, means, strict=True)
    return replace(record, scores=scores, violations=tuple(bound.violation(mean) for bound, mean in bounds))


def _is_feasible(record: PointRecord) -> bool:
    return all(violation <= 0 for violation in record.violations)
