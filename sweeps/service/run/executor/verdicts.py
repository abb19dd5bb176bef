"""The driver records failures of trials whose workers are dead, and confirms what workers report."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from storage.fencing import SupersededError
from sweeps.service.run.worker import Outcome
from sweeps.service.text import printable, redacted
from sweeps.service.triage.causes import Cause, cause_of
from sweeps.service.triage.failures import CRASH, Failure
from sweeps.service.triage.output import collect, tail
from sweeps.service.trials import lease, provenance
from sweeps.service.trials.cell_results import read_result
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial

CRASHES = 3
"""Number of crashes of a trial in native code from which it counts as the trial's own failure, as an exception does."""
APPEARANCE_SECONDS = 5.0
"""How long a result of another machine may take to appear in the results folder."""
UNSEEN = {
    State.FAILED: (State.MISSING, State.STOPPED, State.LOST),
    State.LOST: (State.MISSING, State.STOPPED),
}
"""Reported state -> states of a trial's directory in which the worker that reports it has not written there."""


def mark_failed(trial: Trial, results: ResultsFolder, reason: str) -> Outcome:
    """Records a failure on behalf of a worker process that died, or one that the driver has a better reason for.

    Returns:
        The outcome in the directory: not failed if the trial is finished or held by another process.
    """
    folder = results.trial(trial.identity)
    try:
        if not folder.result_path(trial.evaluation).exists() and (held := lease.acquire(folder.path)) is not None:
            with suppress(SupersededError), held:
                _record_failure(trial, TrialFolder(folder.path, held.writer()), results.output(trial.identity), reason)
    except PermissionError as error:
        if cause_of(error, results.path) is Cause.STORAGE:
            raise
        return Outcome(State.FAILED, f"{reason}; it cannot be recorded ({error})")  # a directory of another user
    return Outcome(*TrialReading(folder).state(trial.evaluation))


def _record_failure(trial: Trial, folder: TrialFolder, raw: Path, reason: str) -> None:
    """Records a failure in a directory that this process holds.

    Args:
        trial: the trial.
        folder: its directory, with the right to write.
        raw: what its worker processes printed.
        reason: why it failed.
    """
    with Journal(folder.journal_path, folder.writer) as written:
        last = TrialReading(folder).last_status or {}
        error = Failure.recorded(last) if last.get("status") == State.FAILED else None
        printed = tail(raw)  # of all processes that have died since the last recorded end
        known = error or Failure.in_output(printed)
        facts: dict[str, object] = {} if known is None else {"failure": known.to_dict()}
        facts |= {"code": provenance.code()} if printed.count(CRASH) >= CRASHES else {}
        host, pid, said = socket.gethostname(), os.getpid(), printable(redacted(reason))
        written.status(State.FAILED, reason=said, host=host, pid=pid, evaluation=trial.evaluation, **facts)
        collect(folder, raw)


def recorded(trial: Trial, results: ResultsFolder, outcome: Outcome) -> Outcome:
    """The outcome that a worker reported, if the results folder of this process confirms it; else a failure.

    A worker on a node that sees another folder writes its results there.
    """
    folder = results.trial(trial.identity)
    if outcome.state is State.FINISHED and not _appears(folder.result_path(trial.evaluation), results.path):
        return mark_failed(trial, results, f"reported as finished, but there is no result in {folder.path}")
    if outcome.state in UNSEEN and read_result(TrialReading(folder), trial.evaluation).state in UNSEEN[outcome.state]:
        return mark_failed(trial, results, outcome.reason or "")
    return outcome


def _appears(path: Path, root: Path) -> bool:
    """Whether a file below a folder exists, now or soon: a network file system may show it late.

    Opening a folder makes the client ask the server for changes.
    """
    until = time.monotonic() + APPEARANCE_SECONDS
    while not path.exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
        for folder in reversed(path.relative_to(root).parents):
            with suppress(OSError):
                os.close(os.open(root / folder, os.O_RDONLY))
    return True
