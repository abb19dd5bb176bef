"""Sources of trainings: the engine takes one at a time while others run.

Retries, budgets, priorities and searches are other sources; the engine does not change for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from sweeps.service.plan.plan import Part, Plan
from sweeps.service.plan.running import RunningPlan
from sweeps.service.run.worker import Outcome
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.trial import Trial, by_training

Training = tuple[Trial, ...]
"""The trials that share one training: it is trained once, then evaluated for each of them."""


class Exhausted(Exception):  # a state, not an error
    """The source has no further training, now or later."""


class TrialSource(Protocol):
    """Supplies trainings; all calls come from one thread of the driver."""

    def next_training(self) -> Training | None:
        """The next training; None if there is none at the moment but may be later.

        Raises:
            Exhausted: there will be no further one.
        """

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Receives how a trial ended, before the next training is asked for."""


class Growth(Protocol):
    """Chooses further trials of a sweep by the results of earlier ones, such as a search."""

    def is_over(self, plan: Plan, results: Mapping[str, CellResult]) -> bool:
        """Whether the sweep needs no trial besides those of its plan, as far as results on disk tell."""

    def source(self, running: RunningPlan, extended: Callable[[], None]) -> TrialSource:
        """Returns the source of all trainings, those of the plan included.

        Args:
            running: the source extends it before it supplies a trial that the plan does not contain.
            extended: to be called after each extension, in the thread that asks the source.
        """


def priority_first(parts: Iterable[Part], trials: Iterable[Trial], rows: Collection[str]) -> list[Trial]:
    """The trials with those of some rows first; otherwise in their order, so that rows get their seeds in turn.

    Args:
        parts: the tables.
        trials: some of their trials.
        rows: the rows that run first, as `TABLE: ROW`.
    """
    first = {
        cell.key for part in parts for cell in part.cells if f"{part.experiment.name}: {cell.variant.name}" in rows
    }
    return sorted(trials, key=lambda trial: trial.key not in first)


class TrainingQueue:
    """The trainings that wait, in order, and those that have been taken and have not ended.

    A training that continues an equal one with an earlier end waits for its end, so that their common epochs are
    trained once.

    Attributes:
        waiting: the trainings that wait.

    Args:
        is_held: whether another process currently holds the training with an identity.
    """

    def __init__(self, waiting: Iterable[Training], is_held: Callable[[str], bool]) -> None:
        self.waiting = list(waiting)
        self._running: dict[str, set[str]] = {}
        self._is_held = is_held

    @property
    def running(self) -> Collection[str]:
        """Identities of the trainings that have been taken and have not ended."""
        return self._running.keys()

    def take(self) -> Training | None:
        """Takes the first training that no other process holds, or the first one if all are held.

        Returns:
            None if there is none, or if all continue a training that has not ended.
        """
        unfinished: set[str] = set()
        held = None
        for i, training in enumerate(self.waiting):
            if training[0].continues:
                unfinished = unfinished or {*self._running, *(other[0].identity for other in self.waiting)}
                if not unfinished.isdisjoint(training[0].continues):
                    continue
            if not self._is_held(training[0].identity):
                return self._taken(i)
            held = i if held is None else held
        return None if held is None else self._taken(held)

    def _taken(self, i: int) -> Training:
        training = self.waiting.pop(i)
        self._running[training[0].identity] = {trial.key for trial in training}
        return training

    def ended(self, trial: Trial) -> None:
        """Records that a trial has ended; its training has when all its trials have."""
        running = self._running.get(trial.identity, set())
        running.discard(trial.key)
        if not running:
            self._running.pop(trial.identity, None)


class PlannedTrials:
    """The trials of a plan, in order; trainings that another process holds come last.

    Args:
        trials: the missing trials.
        is_held: whether another process currently holds the training with an identity.
    """

    def __init__(self, trials: Iterable[Trial], is_held: Callable[[str], bool] = lambda _: False) -> None:
        self._queue = TrainingQueue(by_training(trials), is_held)

    def next_training(self) -> Training | None:
        """The next training that no other process holds, or the next one if all are held; None if it has to wait.

        Raises:
            Exhausted: all have been supplied.
        """
        if not self._queue.waiting:
            raise Exhausted
        return self._queue.take()

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Lets the trainings start that continue this one, once its last trial has ended."""
        self._queue.ended(trial)
