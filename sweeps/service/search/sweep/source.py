"""The source of a search's trainings, between the study and the engine; it needs neither of the two."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from mucon.errors import InputError
from storage.fencing import ALONE, Writer
from sweeps.service.plan.cells import Cell, split_mean
from sweeps.service.plan.running import RunningPlan
from sweeps.service.run.source import Exhausted, Training
from sweeps.service.run.worker import Outcome
from sweeps.service.search.points import Job, Measured, SearchHistory, read_history, write_history
from sweeps.service.search.sweep.rows import PointPlan
from sweeps.service.spec.search import Search
from sweeps.service.triage.causes import OF_MEMORY
from sweeps.service.trials.cell_results import CellResult, keys_to_run, read_result
from sweeps.service.trials.folder import State
from sweeps.service.trials.trial import Trial

UNFINISHED = (State.STOPPED, State.LOST, State.MISSING, State.RUNNING, State.DAMAGED)
"""States of a trial that a later run finishes."""


class Queue(Protocol):
    """Chooses the trainings of a search by the results of earlier ones, see `SearchQueue`."""

    def next(self) -> Job | None:
        """The next training; None if there is none at the moment; raises `Exhausted` if there will be none."""

    def ended(self, job: Job, result: Measured | str) -> None:
        """Takes what a training reached, or why it failed."""

    def history(self, *, with_importance: bool = False) -> SearchHistory:
        """All that is known."""


class SearchGrowth:
    """A plan that grows by the trainings that a study asks for; a `Growth` and the `TrialSource` that it makes.

    A training whose trials have results is not trained: the study receives them at once. At most as many trainings are
    handed out as run at a time, so that each is chosen by all results before it.

    Args:
        queue: the study.
        points: the plan.
        slots: number of trainings at a time.
        most: largest number of trainings of the sweep; None without a limit.
        writer: the right to write into the sweep's folder.

    Attributes:
        has_ended: whether the search asks for no further training.
        history: the search as it is recorded; the importance of the settings once it has ended.
    """

    def __init__(
        self, queue: Queue, points: PointPlan, *, slots: int, most: int | None = None, writer: Writer = ALONE
    ) -> None:
        self._queue, self._points, self._slots, self._most, self._writer = queue, points, slots, most, writer
        self.history = _recorded(points.folder)
        self._results: dict[str, CellResult] = {}
        self._cells: dict[str, Cell] = {}
        self._open: list[tuple[Job, tuple[Cell, ...]]] = []
        self._waiting: deque[Training] = deque()
        self._running: set[str] = set()
        self.has_ended = self._is_stopped = False
        self._running_plan: RunningPlan | None = None
        self._extended: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Plans the trainings of earlier runs, and asks for further ones until one has to be trained."""
        history = self._queue.history()
        failed = {record.point.number for record in history.records if record.state == "failed"}
        for job in earlier_jobs(self._points.search, history):
            self._take(self._points.add(job), repeats=job.point.number not in failed)
        self._fill()
        if not self.has_ended:
            self._record()

    def is_over(self, plan: object, results: object) -> bool:
        """Whether the search asks for no further training."""
        return self.has_ended

    def source(self, running: RunningPlan, extended: Callable[[], None]) -> SearchGrowth:
        """Returns itself; further trainings extend the plan from now on."""
        self._running_plan, self._extended = running, extended
        return self

    def next_training(self) -> Training | None:
        """The next training; None while as many run as fit, or while the study waits for one of them.

        Raises:
            Exhausted: the search is over, it has as many trainings as it may have, or the run is stopping.
        """
        if self._is_stopped:
            raise Exhausted
        if len(self._running) >= self._slots:
            return None
        if not self._waiting:
            self._fill()
        if self._waiting:
            training = self._waiting[0]
            if self._is_beyond(training[0].identity):
                raise Exhausted
            self._waiting.popleft()
            self._running.add(training[0].identity)
            return training
        if not self._running:
            raise Exhausted
        return None

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Passes the end of a trial on to the study, together with those of the other splits."""
        self._running.discard(trial.identity)
        self._is_stopped |= outcome.state is State.STOPPED
        if outcome.state in UNFINISHED:
            self._results[trial.key] = CellResult(outcome.state, outcome.reason)
        else:
            reading = self._points.ground.results.reading(trial.identity)
            self._results[trial.key] = read_result(reading, trial.evaluation)
        self._settle()

    def _is_beyond(self, identity: str) -> bool:
        """Whether a training would be one more than the sweep may have."""
        if self._most is None:
            return False
        begun = {cell.identity for key, cell in self._cells.items() if self._results[key].state is not State.MISSING}
        return len(begun | self._running | {identity}) > self._most

    def _fill(self) -> None:
        """Asks the study until it wants a training that has no result yet."""
        while not self._waiting and not self.has_ended:
            try:
                job = self._queue.next()
            except Exhausted:
                self._record(has_ended=True)
                self.has_ended = True
                return
            if job is None:
                return
            if refusal := self._points.refusal(job.point):
                self._queue.ended(job, refusal)
                continue
            trials = self._points.add(job)
            self._open.append((job, tuple(trials)))
            self._take(trials)
            self._settle()

    def _record(self, *, has_ended: bool = False) -> None:
        """Writes the search into its folder, unless the file says the same."""
        now, kept = self._queue.history(), self.history
        is_same = replace(now, importance=kept.importance, fresh=kept.fresh) == kept
        if is_same and (kept.importance or not has_ended):
            return
        now = replace(self._queue.history(with_importance=True) if has_ended else now, fresh=kept.fresh)
        write_history(self._points.folder, now, self._writer)
        self.history = now

    def _take(self, trials: Mapping[Cell, Trial], *, repeats: bool = True) -> None:
        """Adds the cells of a training, and queues those trials that have no result and do not run for another one.

        Args:
            trials: of the training.
            repeats: whether those that have failed for a reason outside of them are queued, too.
        """
        further = {cell.key: cell for cell in trials if cell.key not in self._cells}
        results = {
            key: read_result(self._points.ground.results.reading(cell.identity), cell.evaluation)
            for key, cell in further.items()
        }
        self._cells |= further
        self._results |= results
        by_key = {trial.key: trial for trial in trials.values()}
        to_run = (key for key in keys_to_run(results) if repeats or results[key].state is not State.FAILED)
        self._waiting.extend((by_key[key],) for key in to_run)
        if self._running_plan is not None and further:
            self._running_plan.extend(self._points.plan, by_key, results)
            self._extended()

    def _settle(self) -> None:
        """Passes on the trainings whose trials all have an outcome, in the order in which they were asked for."""
        for job, cells in list(self._open):
            results = [self._results[cell.key] for cell in cells]
            queued = {trial.key for training in self._waiting for trial in training}
            if any(cell.identity in self._running or cell.key in queued for cell in cells) or any(
                is_open(result) for result in results
            ):
                continue
            self._open.remove((job, cells))
            bad = next((result for result in results if not result.is_finished), None)
            if bad is not None:
                self._queue.ended(job, bad.reason or str(bad.state))
            else:
                self._queue.ended(job, measured_of(self._points.search, cells, self._results) or "a score is undefined")
            self._record()


def is_open(result: CellResult) -> bool:
    """Whether a trial has no outcome of its own: a later run finishes it, or repeats what its surroundings broke.

    A lack of memory counts as its own: a point may be too large for every machine.
    """
    if result.state is not State.FAILED:
        return result.state in UNFINISHED
    return result.failed_code is None and not OF_MEMORY.search(result.reason or "")


def _recorded(folder: Path) -> SearchHistory:
    """The search as an earlier run recorded it; an empty one without such a file, or if it is damaged."""
    try:
        return read_history(folder)
    except InputError:
        return SearchHistory(search={})


def earlier_jobs(search: Search, history: SearchHistory) -> Iterator[Job]:
    """The trainings whose results a study has, point by point."""
    for record in history.records:
        yield from (Job(record.point, 1, rung) for rung in sorted(record.rungs))
        yield from (Job(record.point, seed) for seed in sorted(record.scores))
        if record.state == "failed":
            reached = max(record.rungs, default=0.0)
            rungs = [rung for rung in search.rungs if rung > reached] if not record.n else []
            yield Job(record.point, record.n + 1, next(iter(rungs), None))


def measured_of(search: Search, cells: Collection[Cell], results: Mapping[str, CellResult]) -> Measured | None:
    """What a training reached, as means over the splits; None if a score is undefined on one of them."""
    columns = (*search.objectives, *(bound.column for bound in search.constraints))
    means = [mean for column in columns if (mean := split_mean(cells, results, column)) is not None]
    n = len(search.objectives)
    return Measured(tuple(means[:n]), tuple(means[n:])) if len(means) == len(columns) else None
