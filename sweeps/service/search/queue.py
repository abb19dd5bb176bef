"""What a search trains next: points, their seeds and rungs; knows neither Ray nor folders of trials."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from optuna.trial import TrialState

from mucon.errors import InputError
from sweeps.service.run.source import Exhausted
from sweeps.service.search.importance import importance
from sweeps.service.search.points import Job, Measured, Origin, Point, SearchHistory
from sweeps.service.search.rules import best, front
from sweeps.service.search.space import Settings, combinations, description, inside, sampler_problems
from sweeps.service.search.standings import Standings
from sweeps.service.search.study import Ending, Result, Study
from sweeps.service.spec.search import Search, active_paths

REPEATS = 10
"""Number of suggestions in succession that equal earlier points, after which others are drawn at random."""
MOST_REPEATS = 100
"""Number of such suggestions after which a space counts as exhausted."""


@dataclass(frozen=True, slots=True)
class Known:
    """A configuration whose scores come from another sweep.

    Attributes:
        name: what a user calls it.
        configuration: path -> value, at least of the dimensions of the space.
        scores: seed -> what its whole training reached; at least one.
    """

    name: str
    configuration: Mapping[str, object] = field(hash=False)
    scores: Mapping[int, Measured] = field(hash=False)


class SearchQueue:
    """Supplies trainings one at a time while others run, and takes their results.

    Every decision follows from the search, the seed of its sampler and the results in their order. The study keeps all
    of them, so that a queue on the study of a killed search continues as if nothing had happened: with one training at
    a time, the whole study is the one of an undisturbed search.

    After an error of the disk or the database, a new queue has to be made on the study.

    Args:
        search: the search.
        study: its study, just opened.
        key: settings -> a text that is the same for settings which lead to the same training.
        base: configuration path -> value of the base configuration, at least of the dimensions of the space.
        known: configurations whose scores are known.
        trials: number of points; that of the search by default.

    Attributes:
        outside: names of the known configurations that are left out: outside of the space, or without a score.

    Raises:
        InputError: the sampler does not fit the space.
        SupersededError: another process has taken over.
    """

    def __init__(
        self,
        search: Search,
        study: Study,
        key: Callable[[Mapping[str, object]], str],
        *,
        base: Mapping[str, object],
        known: Iterable[Known] = (),
        trials: int | None = None,
    ) -> None:
        if problems := list(sampler_problems(search)):
            raise InputError(problems)
        self._search, self._study, self._key = search, study, key
        self._trials = search.trials if trials is None else trials
        self._standings = Standings(search)
        self._numbers: dict[str, int] = {}
        self._twins: defaultdict[int, list[int]] = defaultdict(list)
        self._waiting: list[Job] = []
        self._running: set[Job] = set()
        self._order = self._repeats = self._duplicates = 0
        self._exhausted = False
        self._rest = combinations(search.space)
        random.Random(search.sampler_seed).shuffle(self._rest or [])
        self._restore()
        self.outside = tuple(self._take_over(known, base))
        if not any(one.point.origin == "default" for one in self._standings.records.values()):
            settings = inside(search.space, base)
            if settings is None:
                here = {path: base[path] for path in active_paths(search.space, base) if path in base}
                self._start(json.loads(json.dumps(here)), "default", outside=True)
            else:
                self._start(settings, "default")

    def next(self) -> Job | None:
        """The next training; None if there is none at the moment but may be later.

        Raises:
            Exhausted: there will be no further one.
            SupersededError: another process has taken over.
        """
        points = sum(one.point.origin != "warm start" for one in self._standings.records.values())
        if not self._waiting and points < self._trials and not self._exhausted:
            self._suggest()
        if self._waiting:
            job = self._waiting.pop(0)
            self._running.add(job)
            return job
        if not self._running:
            raise Exhausted
        return None

    def ended(self, job: Job, result: Measured | str) -> None:
        """Takes how a training ended.

        Args:
            job: the training.
            result: what it reached, or why it failed; a score that is no number is a failure.

        Raises:
            KeyError: the training is not running.
            SupersededError: another process has taken over.
        """
        self._running.remove(job)
        number = job.point.number
        if isinstance(result, Measured) and _is_number(result):
            entry = Result(job.seed, job.rung, result)
        else:
            reason = "a score is no number" if isinstance(result, Measured) else result
            entry = Result(job.seed, job.rung, None, reason)
        self._study.record(number, self._order, entry, self._curve(job, entry))
        self._order += 1
        later = self._standings.ended(job, entry.measured, entry.reason)
        if later:
            self._waiting.append(later)
        else:
            self._end([number, *self._twins.pop(number, ())], number)

    def history(self, *, with_importance: bool = False) -> SearchHistory:
        """All that is known, for reports.

        Args:
            with_importance: whether the importance of the settings is computed, which takes seconds.
        """
        records = tuple(one for _, one in sorted(self._standings.records.items()))
        return SearchHistory(
            search=description(self._search, self._trials),
            records=records,
            importance=importance(self._search, records) if with_importance else (),
            best=best(self._search.objectives, records),
            front=front(self._search.objectives, records),
            duplicates=self._duplicates,
            exhausted=self._exhausted,
        )

    def _restore(self) -> None:
        """Applies all results of the study in their order, and ends what a kill has left open."""
        jobs: dict[int, Job | None] = {}
        results: list[tuple[int, int, Result]] = []
        open_trials = {one.number for one in self._study.recorded if not one.ended}
        for one in self._study.recorded:
            if one.same_as is not None:
                self._repeats, self._duplicates = self._repeats + 1, self._duplicates + 1
                self._twins[one.same_as] += [one.number] if one.number in open_trials else []
                continue
            point, self._repeats = Point(one.number, one.settings, one.origin), 0
            self._numbers[self._key(one.settings)] = one.number
            if one.is_known:
                scores = [(result.seed, result.measured) for _, result in one.results if result.measured]
                self._standings.add_known(point, scores)
            else:
                jobs[one.number] = self._standings.first(point)
                results += [(order, one.number, result) for order, result in one.results]
        for order, number, result in sorted(results, key=lambda one: one[0]):
            job = jobs[number]
            if job is None or (job.seed, job.rung) != (result.seed, result.rung):
                raise self._study.damaged(number, f"seed {result.seed} is not the next one")
            jobs[number], self._order = self._standings.ended(job, result.measured, result.reason), order + 1
        self._waiting = [job for _, job in sorted(jobs.items()) if job]
        for number, record in self._standings.records.items():
            if record.state != "running":
                self._end([one for one in (number, *self._twins.pop(number, ())) if one in open_trials], number)

    def _take_over(self, known: Iterable[Known], base: Mapping[str, object]) -> Iterator[str]:
        """Adds known configurations as finished points, and yields the names of those outside of the space."""
        default = inside(self._search.space, base)
        for one in known:
            settings = inside(self._search.space, one.configuration)
            scores = {seed: one for seed, one in sorted(one.scores.items()) if _is_number(one)}
            if settings is None or not scores:
                yield one.name
            elif (key := self._key(settings)) not in self._numbers:
                is_default = default is not None and self._key(default) == key
                self._start(settings, "default" if is_default else "warm start", known=replace(one, scores=scores))

    def _suggest(self) -> None:
        """Starts the next point that equals no earlier one."""
        while self._repeats < MOST_REPEATS:
            from_rest = self._search.sampler == "grid" or (self._repeats >= REPEATS and self._rest is not None)
            sampler = self._search.sampler if self._repeats < REPEATS else "random"
            settings = self._unused() if from_rest else self._study.draw(sampler)
            if settings is None:
                break
            original = self._numbers.get(self._key(settings))
            if original is None:
                self._start(settings, "suggested")
                return
            self._repeats, self._duplicates = self._repeats + 1, self._duplicates + 1
            ending = self._ending(original)
            number = self._study.add(settings, "suggested", same_as=original, ending=ending)
            if ending is None:
                self._twins[original].append(number)
        self._exhausted = True

    def _unused(self) -> Settings | None:
        """The first combination of a finite space that equals no point; None if all have been tried."""
        assert self._rest is not None
        while self._rest and self._key(self._rest[0]) in self._numbers:
            self._rest.pop(0)
        return self._rest[0] if self._rest else None

    def _start(self, settings: Settings, origin: Origin, *, outside: bool = False, known: Known | None = None) -> None:
        """Writes a point into the study and lets its first training wait, unless its scores are known."""
        self._repeats = 0
        number = self._study.next_number
        point = Point(number, settings, origin)
        self._numbers[self._key(settings)] = number
        if known is None:
            self._study.add(settings, origin, outside=outside)
            self._waiting.append(self._standings.first(point))
            return
        self._standings.add_known(point, known.scores.items())
        results = [Result(seed, None, measured) for seed, measured in known.scores.items()]
        ending = self._ending(number)
        self._study.add(settings, origin, source=known.name, results=results, ending=ending)

    def _end(self, trials: Iterable[int], number: int) -> None:
        """Ends trials of the study as a point has ended."""
        ending = self._ending(number)
        assert ending is not None
        for trial in trials:
            self._study.end(trial, ending)

    def _ending(self, number: int) -> Ending | None:
        """How a point has ended for the study; None if it has not."""
        record = self._standings.records[number]
        if record.state == "running":
            return None
        if record.state == "failed":
            return Ending(state=TrialState.FAIL)
        if record.state == "stopped":
            values = record.rungs[max(record.rungs)].objectives if len(self._search.objectives) == 1 else None
            return Ending(state=TrialState.PRUNED, values=values)
        notes = {"seeds": record.n, **({"std": list(record.std)} if record.n > 1 else {})}
        return Ending(state=TrialState.COMPLETE, values=record.mean, violations=record.violations, notes=notes)

    def _curve(self, job: Job, result: Result) -> tuple[int, float] | None:
        """Step and value of a training in the curve of its point: percent of the training, or the mean per seed."""
        if result.measured is None or len(self._search.objectives) > 1 or (self._search.rungs and job.seed > 1):
            return None
        (value,) = result.measured.objectives
        if self._search.rungs:
            return round(100 * (1.0 if job.rung is None else job.rung)), value
        earlier = [one.objectives[0] for one in self._standings.records[job.point.number].scores.values()]
        return job.seed, statistics.fmean([*earlier, value])


def _is_number(measured: Measured) -> bool:
    return all(math.isfinite(one) for values in measured for one in values)
