"""Keeps a run of a sweep within its budget: which trials run, when they stop, and what is left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mucon.errors import counted
from sweeps.service.run.budget.admission import BudgetedTrials, CountedTrials, balanced, first_trainings
from sweeps.service.run.budget.estimates import epochs_left, makespan, recorded_speeds, trained
from sweeps.service.run.budget.limits import Budget, Limit
from sweeps.service.run.budget.spending import Spending
from sweeps.service.run.budget.usage import read_all_usage, read_usage
from sweeps.service.run.resources import Placement
from sweeps.service.run.source import TrialSource
from sweeps.service.run.ticker import Ticker
from sweeps.service.run.worker import Outcome
from sweeps.service.text import duration
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder, ask_to_stop
from sweeps.service.trials.trial import Trial, by_training

CHECK_SECONDS = 0.5
"""Seconds between two looks at the budget."""
STOP_REASON = "stopped by the budget"
"""Text of the stop file; workers record it as the reason of their stopped trials."""


class Budgeting:
    """The budget of one run of a sweep; a listener of its trials.

    Args:
        budget: the limits.
        missing: the trials to run, in order; a budget takes one seed of every row before the next.
        started: when the command began, on the monotonic clock.
        sweep: directory of the sweep.
        trials: all trials of the sweep, by key.
        results: their states and scores.
        folder: the results folder.
        placement: where trials run.

    Raises:
        InputError: a record of what trials have used is damaged.
    """

    def __init__(
        self,
        budget: Budget,
        missing: Iterable[Trial],
        *,
        started: float,
        sweep: Path,
        trials: Mapping[str, Trial],
        results: Mapping[str, CellResult],
        folder: ResultsFolder,
        placement: Placement,
    ) -> None:
        self._budget = budget
        self._trials = trials
        self._folder = folder
        self._each, self._slots = placement.each, placement.slots or 1
        needs_hours = budget.gpu_hours is not None or budget.cpu_hours is not None
        used = read_all_usage(sweep) if needs_hours else {}
        self.spending = Spending(budget, started=started, used=used, read=partial(read_usage, sweep))
        self._speeds = recorded_speeds(trials, results, folder, used) if budget.metered else None
        missing = balanced(missing) if budget.limits else list(missing)
        self._trained = trained(trials, results, folder) if budget.trials else set[str]()
        self.chosen = missing
        """The missing trials that the number of trainings allows, in order."""
        if budget.trials is not None:
            self.chosen = first_trainings(missing, self._trained, budget.trials)
        self._counted: CountedTrials | None = None
        self._source: BudgetedTrials | None = None
        self._holds_back = len(self.chosen) < len(missing)
        self.has_stopped = False
        """Whether running trials were asked to stop because a limit was reached."""

    def source(self, planned: TrialSource) -> TrialSource | None:
        """The trainings that the budget covers, and of those that the source adds; None if it covers none now."""
        if self._budget.trials is not None:
            planned = self._counted = CountedTrials(planned, self._trained, self._budget.trials)
        if self._speeds is None:
            return planned
        self._source = BudgetedTrials(
            planned,
            self.spending,
            each=self._each,
            slots=self._slots,
            speeds=self._speeds,
            epochs_left=lambda trial: epochs_left(trial, self._folder),
        )
        return self._source if self._source.covers_any() else None

    @contextlib.contextmanager
    def watched(self, stop_file: Path, tell: Callable[[str], None]) -> Iterator[None]:
        """Meters the trials that run in the block, and asks them to stop once a limit has been reached.

        Args:
            stop_file: the file that asks them to stop; it is removed after the block.
            tell: receives a line when they are asked to stop, or if metering fails.
        """
        if self._source is None:
            yield
            return
        with Ticker(partial(self._check, stop_file, tell), CHECK_SECONDS, tell):
            yield
        if self.has_stopped:  # perhaps after the engine had ended
            stop_file.unlink(missing_ok=True)

    def _check(self, stop_file: Path, tell: Callable[[str], None]) -> None:
        if self._source is not None:
            self._source.update()
            if self.spending.is_over and not stop_file.exists():
                ask_to_stop(stop_file, STOP_REASON)
                if not self.has_stopped:
                    self.has_stopped = True
                    tell("the budget is used up: running trials write a checkpoint and stop")

    def epoch(self, key: str, values: Mapping[str, Any]) -> None:
        """A trial has finished an epoch."""
        if self._source is not None:
            self._source.epoch(key, values)

    def note(self, text: str, key: str | None = None) -> None:
        """Does nothing."""

    def ended(self, key: str, outcome: Outcome) -> None:
        """A trial has ended; the source has been informed."""

    def used_lines(self) -> list[str]:
        """What has been used of the limits on time and hours, as it was last read."""
        used = ", ".join(self._used(limit, 0) for limit in self.spending.limits)
        return [f"budget: {used} used"] if used else []

    def lines(self, results: Mapping[str, CellResult]) -> Iterator[str]:
        """The line at the end of a run: what has been used, what is left, and which larger budget goes on.

        Args:
            results: states and scores at the end.
        """
        if not self._budget.limits:
            return
        waiting = (State.MISSING, State.STOPPED, State.LOST, State.RUNNING)
        left = by_training(balanced(self._trials[key] for key, one in results.items() if one.state in waiting))
        ended = trained(self._trials, results, self._folder)
        used = [self._used(limit, len(ended)) for limit in self._budget.limits]
        parked = any(source is not None and source.holds_back for source in (self._source, self._counted))
        if not left or not (self._holds_back or self.spending.is_over or parked):
            yield f"budget: {', '.join(used)} used"
            return
        seconds = [self._estimate(training[0]) for training in left]
        known = [one for one in seconds if one is not None]
        about = f", about {duration(sum(known))} of training" if known and len(known) == len(seconds) else ""
        options = [self._larger(limit, seconds, len(ended) + len(left)) for limit in self._budget.limits]
        larger = ", ".join(filter(None, options))
        again = f"the same command{f' with {larger}' * bool(larger)}"
        yield f"budget: {', '.join(used)} used; left: {counted(len(left), 'training')}{about}; to go on: {again}"

    def _used(self, limit: Limit, n_trained: int) -> str:
        used = float(n_trained) if limit is self._budget.trials else self.spending.used(limit)
        amount = limit.amount(used)
        return f"{amount if limit is self._budget.time else amount.split()[0]} of {limit}"

    def _estimate(self, trial: Trial) -> float | None:
        return None if self._speeds is None else self._speeds.seconds(trial, epochs_left(trial, self._folder))

    def _larger(self, limit: Limit, seconds: Sequence[float | None], n_trainings: int) -> str:
        """The option that covers the rest, and of the time the start; empty if the limit does.

        Twice the limit if the rest is unknown.
        """
        known = [one for one in seconds if one is not None]
        asked_after = None if self._source is None else self._source.asked_after
        start = self.spending.seconds if asked_after is None else asked_after
        if limit is self._budget.trials:
            needed = float(n_trainings)
        elif len(known) < len(seconds):
            needed = 2 * max(limit.value, start if limit is self._budget.time else self.spending.used(limit))
        elif limit is self._budget.time:
            needed = start + makespan(known, self._slots)
        else:
            share = self._each.gpus if limit is self._budget.gpu_hours else self._each.cpus
            needed = self.spending.used(limit) + sum(known) * share
        if needed <= limit.value:
            return ""
        option = limit.as_option(needed)
        return option if limit.source == limit.option else f"{option} (after raising {limit.source})"
