"""Gives each row of a sweep further seeds until its results are clear: which cells are needed, and their source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sweeps.service.plan.plan import Part
from sweeps.service.plan.running import RunningPlan
from sweeps.service.plan.seeds import check_tables, needed
from sweeps.service.run.budget.admission import balanced
from sweeps.service.run.source import Exhausted, Training, TrainingQueue, TrialSource, priority_first
from sweeps.service.run.worker import Outcome
from sweeps.service.spec.seeds import SeedRule
from sweeps.service.triage.failures import FAILURES
from sweeps.service.trials.cell_results import CellResult, keys_to_run, read_result
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial, by_training


def in_order(
    parts: Sequence[Part], priority: Collection[str], *, by_seed: bool
) -> Callable[[Iterable[Trial]], list[Trial]]:
    """Returns what puts trials into the order in which they run.

    Args:
        parts: the tables.
        priority: the rows that run first, as `TABLE: ROW`.
        by_seed: a budget limits the sweep, so that each row gets a seed before any gets the next.
    """

    def order(trials: Iterable[Trial]) -> list[Trial]:
        ordered = priority_first(parts, balanced(trials), priority)
        return balanced(ordered) if by_seed else ordered

    return order


class GrowingSeeds:
    """Further seeds of the rows that are not clear; a `Growth`.

    Attributes:
        trials: key -> trial of each cell that a row can need.
        folder: the results folder.
        order: puts trials into the order in which they run.

    Args:
        rule: the rule.
        parts: the tables with all seeds that the rule allows.
        results: states and scores of their cells, by key.

    Raises:
        InputError: a table in which nothing can be compared, see `check_tables`.
    """

    def __init__(
        self,
        rule: SeedRule,
        parts: Sequence[Part],
        trials: Mapping[str, Trial],
        results: Mapping[str, CellResult],
        *,
        folder: ResultsFolder,
        order: Callable[[Iterable[Trial]], list[Trial]],
    ) -> None:
        check_tables(part.experiment for part in parts)
        self.trials, self.folder, self.order = trials, folder, order
        self._rule, self._parts, self._results = rule, tuple(parts), results

    def needed(self, *, at_most: bool = False) -> tuple[Part, ...]:
        """The tables with the cells that are needed as far as the results tell, or with all that can be needed."""
        return self.needed_with(self._results, keys_to_run(self._results), at_most=at_most)

    def further(self) -> list[Trial]:
        """The missing trials that are not needed as far as the results tell, but can be."""
        now = {cell.key for part in self.needed() for cell in part.cells}
        waiting = set(keys_to_run(self._results)) - now
        cells = (cell for part in self.needed(at_most=True) for cell in part.cells)
        return list({cell.key: self.trials[cell.key] for cell in cells if cell.key in waiting}.values())

    def needed_with(
        self, results: Mapping[str, CellResult], waiting: Collection[str], *, at_most: bool = False
    ) -> tuple[Part, ...]:
        """The tables with the cells that are needed with some results, while some keys have yet to end."""
        waits = set(waiting).__contains__
        return tuple(needed(part, self._rule, results, waits, at_most=at_most) for part in self._parts)

    def is_over(self, plan: object, results: Mapping[str, CellResult]) -> bool:
        """Whether every cell that a row needs has ended."""
        known = {**self._results, **results}
        waiting = set(keys_to_run(known))
        return not any(cell.key in waiting for part in self.needed_with(known, waiting) for cell in part.cells)

    def source(self, running: RunningPlan, extended: Callable[[], None]) -> TrialSource:
        """Returns the source of all trainings."""
        return _Source(self, running, {**self._results, **running.results}, extended)


class _Source:
    """Supplies what the plan needs now, and extends it when trials have ended.

    A row gets its next seed only when all its earlier ones have ended, and those of the default row: which seeds are
    trained follows from the results alone, whatever the order in which they arrive.

    Args:
        growth: which cells are needed.
        running: the plan.
        results: states and scores of all cells that can be needed, by key.
        extended: called after each extension of the plan.
    """

    def __init__(
        self,
        growth: GrowingSeeds,
        running: RunningPlan,
        results: Mapping[str, CellResult],
        extended: Callable[[], None],
    ) -> None:
        self._growth, self._running, self._extended = growth, running, extended
        self._results = dict(results)
        self._waiting = set(keys_to_run(results))
        self._supplied: set[str] = set()
        self._queue = TrainingQueue((), growth.folder.is_held)
        self._update()

    def next_training(self) -> Training | None:
        """The next training that no other process holds; None if further ones depend on those that run.

        Raises:
            Exhausted: no row needs a further seed.
        """
        if not self._queue.waiting and not self._queue.running:
            raise Exhausted
        training = self._queue.take()
        self._supplied.update(trial.key for trial in training or ())
        return training

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Extends the plan by the seeds that are needed after the end of a trial."""
        self._queue.ended(trial)
        result = self._read(trial.identity, trial.evaluation)
        self._results[trial.key] = result
        if result.is_finished or outcome.state in FAILURES:
            self._waiting.discard(trial.key)
        self._update()

    def _update(self) -> None:
        """Extends the plan as far as known results go, and lines up what is to run."""
        running, has_grown = self._running, False
        while True:
            parts = self._growth.needed_with(self._results, self._waiting)
            if [len(part.cells) for part in parts] == [len(part.cells) for part in running.plan.parts]:
                break
            further = {cell.key: cell for part in parts for cell in part.cells if cell.key not in running.cells}
            results = {key: self._read(cell.identity, cell.evaluation) for key, cell in further.items()}
            self._results |= results
            self._waiting = (self._waiting - results.keys()) | set(keys_to_run(results))
            trials = {key: self._growth.trials[key] for key in further}
            running.extend(replace(running.plan, parts=parts), trials, results)
            has_grown = True
        left = [
            running.trials[key]
            for key in running.to_run
            if key in self._waiting
            and key not in self._supplied
            and running.cells[key].identity not in self._queue.running
        ]
        self._queue.waiting = by_training(self._growth.order(left))
        if has_grown:
            self._extended()

    def _read(self, identity: str, evaluation: str) -> CellResult:
        return read_result(self._growth.folder.reading(identity), evaluation)
