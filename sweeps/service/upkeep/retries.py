"""Trials that have failed or diverged: a run leaves them alone until `retry` queues them again."""

from __future__ import annotations

import os
import shlex
import socket
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from mucon.errors import InputError, Problem
from sweeps.service.plan.plan import read_plan
from sweeps.service.plan.sweep_folder import Rerun, hold, read_sweep
from sweeps.service.text import HIDDEN
from sweeps.service.trials import lease
from sweeps.service.trials.cell_results import CellResult, keys_to_run, read_result
from sweeps.service.trials.folder import State
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.results_folder import ResultsFolder

REASON = "to be tried again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """A cell that runs again.

    Attributes:
        row: name of its row.
        split: name of the split.
        seed: random seed.
        identity: of its training.
        evaluation: of its evaluation.
        state: its state until now, a `State` or `stale`.
        reason: the reason of that state.
    """

    row: str
    split: str
    seed: int
    identity: str
    evaluation: str
    state: str
    reason: str | None


def earlier_failures(results: ResultsFolder, name: str, cells: Mapping[str, CellResult]) -> list[str]:
    """The line that names the failures of earlier runs that a run does not repeat; none without such failures."""
    to_run = set(keys_to_run(cells))
    left = Counter(
        result.state
        for key, result in cells.items()
        if result.state in (State.FAILED, State.DIVERGED) and key not in to_run
    )
    if not left:
        return []
    counts = ", ".join(f"{count} {state}" for state, count in sorted(left.items()))
    which = [f"--{state}" for state in sorted(left)] if State.DIVERGED in left else []
    where = [] if results == ResultsFolder.at(Path("results")) else ["--results", str(results.path)]
    command = shlex.join(["mucon-sweeps", "retry", name, *which, *where])
    return [f"{counts} earlier; to run again: {command}"]


def failures(results: ResultsFolder, name: str, states: Collection[State]) -> list[Retried]:
    """The cells of a sweep in some states.

    Raises:
        InputError: no such sweep, or a damaged plan.
    """
    return [
        Retried(
            row=cell.variant.name,
            split=cell.split,
            seed=cell.seed,
            identity=cell.identity,
            evaluation=cell.evaluation,
            state=result.state,
            reason=result.reason,
        )
        for cell in read_plan(results, name).cells
        if (result := read_result(results.reading(cell.identity), cell.evaluation)).state in states
    ]


def queue(
    results: ResultsFolder, name: str, cells: Collection[Retried], tell: Callable[[str], None] | None = None
) -> None:
    """Records durably that some cells of a sweep are missing, so that the next run of a sweep with them runs them.

    Args:
        results: the results folder.
        name: name of the sweep.
        cells: the cells.
        tell: as for `hold`.

    Raises:
        InputError: the sweep is running.
    """
    with hold(results, name, tell):
        for identity, group in groupby(sorted(cells, key=_identity), key=_identity):
            held = lease.acquire(results.trial(identity).path)
            if held is None:  # another process runs it already
                continue
            with held, Journal(results.trial(identity).journal_path, held.writer()) as written:
                host, pid = socket.gethostname(), os.getpid()
                for cell in group:
                    written.status(State.MISSING, reason=REASON, host=host, pid=pid, evaluation=cell.evaluation)


def _identity(cell: Retried) -> str:
    return cell.identity


def rerun_of(results: ResultsFolder, name: str, given: Mapping[str, str]) -> Rerun:
    """What runs a sweep again, with options that place it in this results folder.

    Args:
        results: the results folder.
        name: name of a sweep that has run.
        given: option -> value, instead of that of the recorded command; with an address, the sweep is tracked.

    Raises:
        InputError: the command is not recorded, its file or directory is gone, or its password is needed.
    """
    record = read_sweep(results.sweep(name))
    place = str(results.sweep(name))
    rerun = None if record is None else record.sweep.rerun
    if record is None or rerun is None:
        message = "how this sweep was started is not recorded here"
        hint = f"run its command: {record.sweep.command}" if record else "run its command"
        raise InputError(Problem(rule="missing", place=place, value="rerun", message=message, hint=hint))
    hint = f"run its command: {record.sweep.command}"
    for path in (rerun.sweep, rerun.folder):
        if os.sep in path and not Path(path).exists():
            message = f"{path}, with which this sweep was started, is gone"
            raise InputError(Problem(rule="missing", place=place, value=path, message=message, hint=hint))
    last = {**given, "--results": str(results.path)}
    without = ["--notify", *(["--tracking"] if "--tracking-uri" in given else [])]
    known = rerun.with_options({}, {*last, *without}).words
    for option, word in pairwise(("", *known)):
        if HIDDEN in word:
            message, hint = "the password of the recorded address is not stored", "pass the whole address"
            if option == "--study-storage":
                hint = "run the command of the search with the whole address, or store the password in ~/.pgpass"
            place = option if option.startswith("--") else "--tracking-uri"
            raise InputError(Problem(rule="missing", place=place, message=message, hint=hint))
    return rerun.with_options(last, without)
