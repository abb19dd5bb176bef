"""Brings the runs of a tracking server up to date with the trials' directories.

Trials do not access the tracking server. Each call of a `Tracker` compares the expected content of a run with its known
content and sends the difference. Therefore sending again changes nothing, the next call completes what a kill has
interrupted, and a deleted run is created again.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.errors import InputError, Problem
from sweeps.service.plan.sweep_folder import Links, Outcome, SweepInfo
from sweeps.service.track.content.changes import Shipment
from sweeps.service.track.content.names import safe_name
from sweeps.service.track.content.records import read_record
from sweeps.service.track.orphans import end_orphans
from sweeps.service.track.probe import probe
from sweeps.service.track.server import (
    ServerError,
    check_connection,
    checked_uri,
    one_line,
    run_page,
    ui_command,
    unreachable,
)
from sweeps.service.track.sweep_run import SweepRun
from sweeps.service.track.trial_runs import SentElsewhereError, TrialRuns
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.seen import Seen, signature
from sweeps.service.trials.writer import writer_of

if TYPE_CHECKING:
    from sweeps.service.track.client import Client

TRACKING_EXPERIMENT = "mucon"
"""The MLflow experiment of all sweeps, because sweeps share trials."""
PATIENCE_SECONDS = 12.0
"""Seconds during which `finish` retries if the server does not respond."""
ELSEWHERE_SECONDS = 60.0
"""Seconds during which `finish` waits for another results folder that sends one of the trials."""


@dataclass(frozen=True, slots=True)
class _Connected:
    """What an open tracker has: the connection, the sweep's run and the runs of its trials."""

    client: Client
    parent: SweepRun
    trials: TrialRuns


class Tracker:
    """Shows a sweep and its trials on a tracking server: one parent run per sweep, one child run per trial.

    Args:
        uri: `sqlite:///PATH`, `http(s)://HOST:PORT` or `postgresql+psycopg2://USER@HOST:PORT/NAME`.
        experiment_name: MLflow's experiment; sweeps that share trials belong to the same one.
        sweep: the sweep, whose name identifies its parent run.
        rows: trial identity -> row of the table, for the names of the runs.
        results: the results folder, whose runs no other folder sends; None: no other folder uses the server.
        shipped: trial identity -> bytes of the journal up to which the server has the trial.

    Raises:
        InputError: an unsupported address, or a sweep's name that is not a valid tag.
    """

    def __init__(
        self,
        uri: str,
        experiment_name: str,
        sweep: SweepInfo,
        rows: Mapping[str, str] | None = None,
        results: ResultsFolder | None = None,
        shipped: Mapping[str, int] | None = None,
    ) -> None:
        if safe_name(sweep.name) != sweep.name:
            raise InputError(
                Problem(rule="type", place="--name", value=sweep.name, expected="letters, digits and _ - . only")
            )
        self.uri = checked_uri(uri)
        self.experiment_name = experiment_name
        self.sweep = sweep
        self.rows = dict(rows or {})
        self._results = results
        self._shipped = dict(shipped or {})
        self._seen: dict[str, Seen] = {}
        self._connected: _Connected | None = None
        self._looked = 0.0

    def __enter__(self) -> Tracker:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def links(self) -> Links:
        """The pages of the sweep's run, of all runs and of the known runs of its trials."""
        return Links(
            sweep=self._page(self._open.parent.run_id),
            runs=self._page(),
            serve=None if self.uri.startswith("http") else ui_command(self.uri),
            trials={identity: self._page(run.run_id) for identity, run in dict(self._open.trials.known).items()},
        )

    @property
    def answered(self) -> float:
        """Time of the server's last answer or of the last look at a directory, as `time.monotonic`; 0 before `open`."""
        return 0.0 if self._connected is None else max(self._looked, self._connected.client.answered)

    @property
    def waiting(self) -> float:
        """Seconds since the request that the server has not answered yet; 0 without one."""
        return 0.0 if self._connected is None else self._connected.client.waiting

    @property
    def settled(self) -> dict[str, int]:
        """Trial identity -> bytes of the journal, of each trial that has ended and whose run has everything."""
        return {
            identity: seen.journal_bytes
            for identity, seen in dict(self._seen).items()
            if seen.state not in (None, State.RUNNING) and not seen.is_held
        }

    def check(self) -> None:
        """Sends one request, and opens the tracker if only MLflow's client can tell whether the server accepts it.

        Raises:
            InputError: the server does not answer, is no MLflow server or rejects the request.
        """
        if not probe(self.uri, self.experiment_name):
            self.open()

    def open(self) -> None:
        """Connects, finds or creates the experiment and the parent run, and finds the runs of the sweep's trials.

        Runs of this results folder that a kill has left running are ended. Does nothing if the tracker is open.

        Raises:
            InputError: the server does not respond or rejects a request.
        """
        if self._connected is not None:
            return
        from sweeps.service.track.client import Client  # imports mlflow, which takes seconds

        results = self._results
        try:
            writer = "" if results is None else writer_of(results)
            client = Client(self.uri, self.experiment_name, None if results is None else results.path, writer)
            parent = SweepRun(client, self.sweep, self.rows, writer)
            trials = TrialRuns(client, self.sweep, self.rows, parent, writer)
            if results is not None:
                end_orphans(client, results, writer, {*self.rows, self.sweep.name})
        except (ServerError, OSError) as error:
            raise unreachable(self.uri, error) from error
        for identity, size in self._shipped.items():
            state = trials.state_shown(identity)
            if state is not None:
                self._seen[identity] = Seen(state, size, 0, is_held=False)
        self._connected = _Connected(client, parent, trials)

    def has_all(self, folder: TrialFolder) -> bool:
        """Whether the trial is finished and its run had everything when it was last looked at."""
        seen = self._seen.get(folder.identity)
        return seen is not None and seen.state is State.FINISHED

    def is_current(self, folder: TrialFolder) -> bool:
        """Whether the directory has not changed since its run was brought up to date."""
        seen = self._seen.get(folder.identity)
        return seen is not None and seen.is_current(folder)

    def ship(self, folders: Iterable[TrialFolder]) -> Shipment:
        """Brings the runs of trials up to date; failures are returned, not raised.

        A server that does not respond ends the call; the next call tries everything again.

        Args:
            folders: directories of the trials.
        """
        shipped: list[str] = []
        pending: dict[str, str] = {}
        elsewhere: list[str] = []
        refused: list[str] = []
        silence: str | None = None
        for folder in folders:
            if silence is None:
                self._looked = time.monotonic()
            try:
                if not self.is_current(folder):
                    if silence is not None:
                        pending[folder.identity] = silence
                        continue
                    self._ship_one(folder)
                elif self._seen[folder.identity].state is State.RUNNING and silence is None:
                    self._open.trials.beat(folder.identity)
                if self._seen[folder.identity].state is not None:
                    shipped.append(folder.identity)
            except InputError as error:
                pending[folder.identity] = error.line
            except SentElsewhereError as error:
                pending[folder.identity] = str(error)
                elsewhere.append(folder.identity)
            except (ServerError, OSError) as error:
                pending[folder.identity] = one_line(error)
                refused.append(folder.identity)
                silence = self._silence()
            except (AttributeError, KeyError, TypeError, ValueError) as error:  # an odd directory; the others go on
                pending[folder.identity] = f"{type(error).__name__}: {one_line(error)}"
        return Shipment(
            shipped=tuple(shipped),
            pending=pending,
            unreachable=silence,
            refused=tuple(refused),
            elsewhere=tuple(elsewhere),
        )

    def finish(
        self,
        folders: Iterable[TrialFolder],
        tables: Mapping[str, Path],
        patience: float = PATIENCE_SECONDS,
        outcome: Outcome | None = None,
    ) -> Shipment:
        """Ships everything, attaches the tables to the parent run and ends that run.

        Args:
            folders: directories of all trials of the sweep.
            tables: name -> file; Markdown files are also part of the parent run's description.
            patience: seconds during which a server that does not respond is asked again.
            outcome: what the sweep has found; None: the parent run keeps what it has.
        """
        every = list(folders)
        begun = time.monotonic()
        while True:
            try:
                if self._open.parent.is_gone():
                    self._open.parent.find()
                    self._seen.clear()
                shipment = self.ship(every)
                waits = time.monotonic() < begun + (ELSEWHERE_SECONDS if shipment.elsewhere else 0.0) and patience > 0
                if shipment.unreachable is None and not waits:
                    self._finish_parent(every, tables, outcome)
            except (ServerError, OSError) as error:
                pending = {folder.identity: one_line(error) for folder in every if not self.is_current(folder)}
                shipment, waits = Shipment(pending=pending, unreachable=one_line(error)), False
            failed = shipment.unreachable is not None or shipment.refused
            if not waits and (not failed or time.monotonic() >= begun + patience):
                return shipment
            time.sleep(min(1.0, patience))

    def close(self) -> None:
        """Ends the parent run as killed, unless `finish` has ended it; does not wait for the server."""
        if self._connected is not None:
            with contextlib.suppress(ServerError, OSError):
                check_connection(self.uri)
                self._connected.parent.close()

    @property
    def _open(self) -> _Connected:
        assert self._connected is not None, "open the tracker first"
        return self._connected

    def _page(self, run_id: str = "") -> str:
        return run_page(self.uri, self._open.client.experiment, run_id)

    def _ship_one(self, folder: TrialFolder) -> None:
        check_connection(self.uri)
        size, n_results, is_held = signature(folder)  # before reading: changes from here on are seen later
        reading = TrialReading(folder)
        record = read_record(reading)
        if record is not None:
            self._open.trials.update(record, reading)
        self._seen[folder.identity] = Seen(record.state if record else None, size, n_results, is_held)

    def _finish_parent(
        self, folders: Iterable[TrialFolder], tables: Mapping[str, Path], outcome: Outcome | None
    ) -> None:
        seen = [self._seen.get(folder.identity) for folder in folders]
        states = Counter((one.state if one else None) or State.MISSING for one in seen)
        self._open.parent.finish(states, tables, outcome or Outcome())

    def _silence(self) -> str | None:
        """The error of a minimal request to the server; None if it responds."""
        try:
            self._open.client.check()
        except (ServerError, OSError) as error:
            return one_line(error)
        return None
