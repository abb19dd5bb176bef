"""The state of sweeps and of their trials, read from the results folder alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from mucon.configuration import flatten
from mucon.errors import InputError
from mucon.training_config import last_epoch
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.durations import Passed, missing_epochs, seconds_left
from sweeps.service.plan.plan import FILE, Plan, read_plan
from sweeps.service.plan.sweep_folder import read_sweep
from sweeps.service.triage.failures import FAILURES, Failed, Failure, FailureGroup, group_failures
from sweeps.service.trials import lease
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State
from sweeps.service.trials.journal import milliseconds
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import SLOTS_FILE, ResultsFolder

WAITS_FOR_CORES = "waits for cores that other sweeps use"
"""Why a trial is pending that a process holds."""


class CellState(StrEnum):
    """State of a cell; besides the first four, that of its trial, see `State`."""

    KNOWN = "known"
    """Finished, and contained in another sweep too."""
    MISSING = "missing"
    """It has not started, or only its evaluation is missing, and no process runs the sweep."""
    PENDING = "pending"
    """The same while a process runs the sweep; also of a trial whose process waits for cores that other sweeps use."""
    STALE = "stale"
    """It has not started, and its row, split and seed have a trial with other settings, data or numerics."""
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    DIVERGED = "diverged"
    STOPPED = "stopped"
    LOST = "lost"
    DAMAGED = "damaged"


class SweepState(StrEnum):
    """State of a sweep."""

    RUNNING = "running"
    """A process runs it."""
    FINISHED = "finished"
    """Every cell is finished."""
    FAILED = "failed"
    """No process runs it, and every cell without a result failed or diverged."""
    INCOMPLETE = "incomplete"
    """No process runs it; the same command resumes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStatus:
    """The state of one cell.

    Attributes:
        table: name of its table.
        row: name of its row.
        split: name of the split.
        seed: random seed.
        identity: of its training.
        evaluation: of its evaluation.
        state: state of the evaluation.
        reason: why it is not finished, if recorded.
        epoch: finished epochs.
        holder: process that is running it or waits for cores to run it; None if none is.
        since: start of the newest attempt, seconds since 1970; None before the first, and while it waits.
        ended: end of the newest attempt; None if it is running or has not ended by itself.
        left: estimated seconds until the end of its training, from the epochs of the newest attempt; None if it is not
            running or its speed is unknown.
        shared: other sweeps that contain the trial, sorted.
        earlier: identities of trials of the same row, split and seed that an earlier plan of the sweep contained.
        failure: the error that ended it; None if it did not fail, or if only a reason was recorded.
    """

    table: str
    row: str
    split: str
    seed: int
    identity: str
    evaluation: str
    state: CellState
    reason: str | None
    epoch: int
    holder: str | None
    since: float | None
    ended: float | None
    left: float | None
    shared: tuple[str, ...]
    earlier: tuple[str, ...]
    failure: Failure | None

    @property
    def is_finished(self) -> bool:
        """Whether the cell has a result."""
        return self.state in (CellState.KNOWN, CellState.FINISHED)

    @property
    def has_failed(self) -> bool:
        """Whether the cell's trial ended with an error."""
        return self.state in (CellState.FAILED, CellState.DIVERGED)

    @property
    def name(self) -> str:
        """Row, split and seed."""
        return f"{self.row}, split {self.split}, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """The state of a sweep.

    Attributes:
        name: name of the sweep.
        title: its caption.
        state: state of the whole.
        runner: process that is running the sweep; None if none is.
        since: start of the run if one is running, otherwise the last end of a trial; seconds since 1970, or None.
        at_a_time: number of trials that can run at a time; None if no process runs it or before its trials start.
        left: estimated seconds until all trials have ended; None if no process runs it or the speed is unknown.
        cells: its cells, each trial and evaluation once.
        failures: groups of failed trials.
    """

    name: str
    title: str
    state: SweepState
    runner: str | None
    since: float | None
    at_a_time: int | None
    left: float | None
    cells: tuple[CellStatus, ...]
    failures: tuple[FailureGroup, ...]

    @property
    def counts(self) -> dict[str, int]:
        """State -> number of cells; states without cells are left out."""
        counted = Counter(cell.state for cell in self.cells)
        return {str(state): counted[state] for state in CellState if counted[state]}

    @property
    def n_finished(self) -> int:
        """Number of cells with a result."""
        return sum(cell.is_finished for cell in self.cells)

    @property
    def is_complete(self) -> bool:
        """Whether every cell is finished."""
        return self.n_finished == len(self.cells)

    def to_dict(self) -> dict[str, Any]:
        """The status as plain values."""
        return {**asdict(self), "counts": self.counts}


def sweep_status(results: ResultsFolder, name: str) -> SweepStatus:
    """The state of a sweep that has run in a results folder.

    Raises:
        InputError: no such sweep, or a damaged plan.
    """
    plan = read_plan(results, name)
    return _status(plan, _sweeps_of([plan, *_plans(results, {})]))


def all_statuses(results: ResultsFolder) -> tuple[list[SweepStatus], dict[str, str]]:
    """The states of all sweeps of a results folder, and the name of each that cannot be read, with why."""
    unreadable: dict[str, str] = {}
    plans = _plans(results, unreadable)
    sweeps, found = _sweeps_of(plans), []
    for plan in plans:
        try:
            found.append(_status(plan, sweeps))
        except InputError as error:
            unreadable[plan.name] = error.line
    return found, unreadable


def _plans(results: ResultsFolder, unreadable: dict[str, str]) -> list[Plan]:
    """The plans that can be read; adds the others to `unreadable`."""
    plans = []
    for folder in results.sweeps(FILE):
        try:
            plans.append(read_plan(results, folder.name))
        except InputError as error:
            unreadable[folder.name] = error.line
    return plans


def _sweeps_of(plans: Iterable[Plan]) -> dict[str, set[str]]:
    """Trial identity -> the sweeps that contain it."""
    sweeps: dict[str, set[str]] = {}
    for plan in plans:
        for identity in plan.rows:
            sweeps.setdefault(identity, set()).add(plan.name)
    return sweeps


def _status(plan: Plan, sweeps: Mapping[str, set[str]]) -> SweepStatus:
    runner = lease.holder(plan.results.running(plan.name))
    reading = cache(plan.results.reading)
    results = plan.read_results(reading=reading)
    cells, trained = _cells(plan, results, reading, sweeps, has_runner=runner is not None)
    unfinished = [cell.state for cell in cells if not cell.is_finished]
    failed = [cell for cell in cells if cell.has_failed]
    ends = [cell.ended for cell in cells if cell.ended is not None]
    if runner is not None:
        state = SweepState.RUNNING
    elif not unfinished:
        state = SweepState.FINISHED
    else:
        state = SweepState.FAILED if len(failed) == len(unfinished) else SweepState.INCOMPLETE
    return SweepStatus(
        name=plan.name,
        title=plan.title,
        state=state,
        runner=None if runner is None else str(runner),
        since=max(ends, default=None) if runner is None else _started(plan),
        at_a_time=None if runner is None else _at_a_time(plan.results.running(plan.name)),
        left=None if runner is None else _left(cells, trained, missing_epochs(plan.parts, results)),
        cells=cells,
        failures=group_failures(
            Failed(
                identity=cell.identity,
                name=cell.name,
                state=State(cell.state),
                reason=cell.reason,
                failure=cell.failure,
            )
            for cell in failed
        ),
    )


def _started(plan: Plan) -> float | None:
    """The start of the newest run of a sweep, seconds since 1970; None if it is not recorded."""
    try:
        record = read_sweep(plan.folder)
    except InputError:
        return None
    return None if record is None else record.started


def _at_a_time(scratch: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int((scratch / SLOTS_FILE).read_text(encoding="utf-8"))
    return None


def _left(cells: Sequence[CellStatus], trained: Sequence[Passed], epochs: Mapping[str, int]) -> float | None:
    """Seconds until all trials have ended, if as many run at a time as now."""
    running = {cell.identity: cell.left for cell in cells if cell.state is CellState.RUNNING}
    waiting = {c.identity for c in cells if not c.is_finished and not c.has_failed} - running.keys()
    begun = {identity for identity, left in running.items() if left is None}
    lefts = [left for left in running.values() if left is not None]
    return seconds_left(lefts, trained, [epochs.get(one) for one in waiting | begun], max(len(running), 1))


def _cells(
    plan: Plan,
    results: Mapping[str, CellResult],
    reading: Callable[[str], TrialReading],
    sweeps: Mapping[str, set[str]],
    *,
    has_runner: bool,
) -> tuple[tuple[CellStatus, ...], list[Passed]]:
    """The states of a plan's cells, and what has been trained, or will be at the end of the running trainings."""
    tables = {cell.key: part.experiment.name for part in reversed(plan.parts) for cell in part.cells}
    earlier = _earlier_trials(plan)
    cells, trained = [], {}
    for cell in plan.cells:
        result = results[cell.key]
        others = tuple(sorted(sweeps.get(cell.identity, set()) - {plan.name}))
        status = _cell(cell, tables[cell.key], reading, result, others, earlier, has_runner=has_runner)
        cells.append(status)
        if result.training_seconds is not None:
            trained[cell.identity] = Passed(max(status.epoch, 1), result.training_seconds)
        elif status.left is not None and status.since is not None:
            trained[cell.identity] = _at_its_end(reading(cell.identity), status.since, status.left)
    return tuple(cells), list(trained.values())


def _earlier_trials(plan: Plan) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """Row, split and seed -> recorded trials that earlier plans of the sweep contained and this one does not."""
    try:
        record = read_sweep(plan.folder)
    except InputError:
        record = None
    rows, found = plan.rows, dict[tuple[str, str, str], list[str]]()
    for identity, row in ({} if record is None else record.rows).items():
        if identity not in rows:
            try:
                trial = plan.results.reading(identity).trial
            except InputError:  # removed or damaged
                continue
            found.setdefault((row, str(trial.get("split")), str(trial.get("seed"))), []).append(identity)
    return {place: tuple(identities) for place, identities in found.items()}


def _cell(
    cell: Cell,
    table: str,
    reading: Callable[[str], TrialReading],
    result: CellResult,
    shared: tuple[str, ...],
    earlier: Mapping[tuple[str, str, str], tuple[str, ...]],
    *,
    has_runner: bool,
) -> CellStatus:
    attempt, identity = result.attempt, cell.identity
    holder = lease.holder(reading(identity).folder.path) if result.state is State.RUNNING else None
    older = earlier.get((cell.variant.name, cell.split, str(cell.seed)), ())
    is_waiting = holder is not None and not reading(identity).has_begun(holder)
    if is_waiting:
        state = CellState.PENDING
    elif result.state is State.MISSING and older and not reading(identity).exists:
        state = CellState.STALE
    elif result.state is State.MISSING and has_runner:
        state = CellState.PENDING
    else:
        state = CellState.KNOWN if result.is_finished and shared else CellState(result.state)
    return CellStatus(
        table=table,
        row=cell.variant.name,
        split=cell.split,
        seed=cell.seed,
        identity=identity,
        evaluation=cell.evaluation,
        state=state,
        reason=WAITS_FOR_CORES if is_waiting else result.reason,
        epoch=attempt.epoch,
        holder=None if holder is None else str(holder),
        since=None if is_waiting else attempt.since,
        ended=attempt.ended,
        left=None if holder is None or is_waiting else _training_left(reading(identity), attempt.since),
        shared=shared,
        earlier=older,
        failure=Failure.recorded(reading(identity).last_status) if result.state in FAILURES else None,
    )


def _training_left(reading: TrialReading, since: float | None) -> float | None:
    """Seconds until the last epoch at the mean speed of the attempt that began at a time in seconds since 1970."""
    if since is None:
        return None
    trained, end = _epoch_times(reading, since), _last_epoch(reading)
    if not trained or end is None:
        return None
    pace = (trained[-1] - since) / len(trained)
    return max(0.0, (end - reading.n_epochs) * pace - (milliseconds() / 1000 - trained[-1]))


def _at_its_end(reading: TrialReading, since: float, left: float) -> Passed:
    """The newest attempt of a running training as it is expected to end."""
    trained = _epoch_times(reading, since)
    epochs = len(trained) + (_last_epoch(reading) or 0) - reading.n_epochs
    return Passed(max(epochs, 1), max(trained[-1] - since, 0.0) + left)


def _epoch_times(reading: TrialReading, since: float) -> list[float]:
    """Ends of the epochs from a time on, in seconds since 1970."""
    ends = (record["timestamp"] for record in reading.epochs)
    return [end / 1000 for end in ends if end >= round(1000 * since)]


def _last_epoch(reading: TrialReading) -> int | None:
    """The epoch at which a training ends; None if its settings do not say it."""
    settings = flatten(reading.trial["config"])
    epochs, stop_after = (settings.get(f"training.{name}") for name in ("epochs", "stop_after"))
    return last_epoch(epochs, stop_after if isinstance(stop_after, int) else None) if isinstance(epochs, int) else None
