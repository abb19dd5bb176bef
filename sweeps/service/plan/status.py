"""The state of a sweep and of each of its trials, read from the results folder alone."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mucon.errors import InputError
from sweeps.service.plan.plan import FILE, Plan, read_plan
from sweeps.service.trials import lease
from sweeps.service.trials.cell_results import read_result
from sweeps.service.trials.folder import State
from sweeps.service.trials.journal import Record, milliseconds
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder


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
        holder: process that is running it; None if none is.
        since: start of the newest attempt, seconds since 1970; None before the first.
        left: estimated seconds until the end of its training, from the epochs of the newest attempt; None if it is not
            running or its speed is unknown.
        shared: other sweeps that contain the trial, sorted.
    """

    table: str
    row: str
    split: str
    seed: int
    identity: str
    evaluation: str
    state: State
    reason: str | None
    epoch: int
    holder: str | None
    since: float | None
    left: float | None
    shared: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """The state of a sweep.

    Attributes:
        name: name of the sweep.
        title: its caption.
        runner: process that is running the sweep; None if none is.
        cells: its cells, each trial and evaluation once.
    """

    name: str
    title: str
    runner: str | None
    cells: tuple[CellStatus, ...]

    @property
    def counts(self) -> dict[str, int]:
        """State -> number of cells; states without cells are left out."""
        counted = Counter(cell.state for cell in self.cells)
        return {str(state): counted[state] for state in State if counted[state]}

    @property
    def is_complete(self) -> bool:
        """Whether every cell is finished."""
        return all(cell.state is State.FINISHED for cell in self.cells)

    def to_dict(self) -> dict[str, Any]:
        """The status as plain values."""
        return {
            "name": self.name,
            "title": self.title,
            "runner": self.runner,
            "counts": self.counts,
            "cells": [asdict(cell) for cell in self.cells],
        }


def sweep_status(results: ResultsFolder, name: str) -> SweepStatus:
    """The state of a sweep that has run in a results folder.

    Raises:
        InputError: no such sweep, or a damaged plan.
    """
    plan = read_plan(results, name)
    elsewhere = _sweeps_of(results, plan)
    runner = lease.holder(results.running(name))
    return SweepStatus(
        name=plan.name,
        title=plan.title,
        runner=None if runner is None else str(runner),
        cells=tuple(_cells(plan, elsewhere)),
    )


def _sweeps_of(results: ResultsFolder, plan: Plan) -> Mapping[str, tuple[str, ...]]:
    """Trial identity -> the other sweeps that contain it."""
    sweeps: dict[str, list[str]] = {}
    for folder in results.sweeps(FILE):
        if folder.name != plan.name:
            with contextlib.suppress(InputError):  # damaged, which says nothing about this sweep
                for identity in read_plan(results, folder.name).rows:
                    sweeps.setdefault(identity, []).append(folder.name)
    return {identity: tuple(names) for identity, names in sweeps.items()}


def _cells(plan: Plan, elsewhere: Mapping[str, tuple[str, ...]]) -> Iterator[CellStatus]:
    tables = {cell.key: part.experiment.name for part in reversed(plan.parts) for cell in part.cells}
    for cell in plan.cells:
        reading = plan.results.reading(cell.identity)
        result = read_result(reading, cell.evaluation)
        holder = lease.holder(reading.folder.path) if result.state is State.RUNNING else None
        begun = None if reading.damage else _begun(reading.records)
        yield CellStatus(
            table=tables[cell.key],
            row=cell.variant.name,
            split=cell.split,
            seed=cell.seed,
            identity=cell.identity,
            evaluation=cell.evaluation,
            state=result.state,
            reason=result.reason,
            epoch=0 if reading.damage else reading.n_epochs,
            holder=None if holder is None else str(holder),
            since=None if begun is None else begun / 1000,
            left=None if holder is None or begun is None else _left(reading, begun),
            shared=elsewhere.get(cell.identity, ()),
        )


def _begun(records: list[Record]) -> int | None:
    """Time of the newest record that says that the trial runs, in milliseconds since 1970."""
    running = (r for r in reversed(records) if r["kind"] == "status" and r["status"] == State.RUNNING)
    return next((int(record["timestamp"]) for record in running), None)


def _left(reading: TrialReading, begun: int) -> float | None:
    """Seconds until the last epoch at the mean speed of the attempt that began at a time."""
    trained = [record["timestamp"] for record in reading.epochs if record["timestamp"] >= begun]
    if not trained:
        return None
    missing = int(reading.trial["config"]["training"]["epochs"]) - reading.n_epochs
    rest: float = missing * (trained[-1] - begun) / len(trained) - (milliseconds() - trained[-1])
    return max(0.0, rest) / 1000
