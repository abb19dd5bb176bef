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
from sweeps.service.text import redacted
from sweeps.service.track.changes import Shipment
from sweeps.service.track.names import safe_name
from sweeps.service.track.records import read_record
from sweeps.service.track.seen import Seen, signature
from sweeps.service.track.server import ServerError, check_connection, checked_uri, run_page, ui_command
from sweeps.service.track.sweep_run import SweepRun
from sweeps.service.track.trial_runs import TrialRuns
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.reading import TrialReading

if TYPE_CHECKING:
    from sweeps.service.track.client import Client

TRACKING_EXPERIMENT = "mucon"
"""The MLflow experiment of all sweeps, because sweeps share trials."""
PATIENCE_SECONDS = 20.0
"""Seconds during which `finish` retries if the server does not respond."""
MAX_MESSAGE_CHARACTERS = 300
"""Characters of an error message that are shown."""


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

    Raises:
        InputError: an unsupported address, or a sweep's name that is not a valid tag.
    """

    def __init__(self, uri: str, experiment_name: str, sweep: SweepInfo, rows: Mapping[str, str] | None = None) -> None:
        if safe_name(sweep.name) != sweep.name:
            raise InputError(
                Problem(rule="type", place="--name", value=sweep.name, expected="letters, digits and _ - . only")
            )
        self.uri = checked_uri(uri)
        self.experiment_name = experiment_name
        self.sweep = sweep
        self.rows = dict(rows or {})
        self._seen: dict[str, Seen] = {}
        self._connected: _Connected | None = None

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
            trials={identity: self._page(run.run_id) for identity, run in self._open.trials.known.items()},
        )

    def open(self) -> None:
        """Connects, finds or creates the experiment and the parent run, and finds the runs of the sweep's trials.

        Raises:
            InputError: the server does not respond or rejects a request.
        """
        from sweeps.service.track.client import Client  # imports mlflow, which takes seconds

        try:
            client = Client(self.uri, self.experiment_name)
            parent = SweepRun(client, self.sweep, self.rows)
            self._connected = _Connected(client, parent, TrialRuns(client, self.sweep, self.rows, parent))
        except (ServerError, OSError) as error:
            raise unreachable(self.uri, error) from error

    def ship(self, folders: Iterable[TrialFolder]) -> Shipment:
        """Brings the runs of trials up to date; failures are returned, not raised.

        A server that does not respond ends the call; the next call tries everything again.

        Args:
            folders: directories of the trials.
        """
        shipped: list[str] = []
        pending: dict[str, str] = {}
        silence: str | None = None
        for folder in folders:
            try:
                if not self._is_current(folder):
                    if silence is not None:
                        pending[folder.identity] = silence
                        continue
                    self._ship_one(folder)
                if self._seen[folder.identity].state is not None:
                    shipped.append(folder.identity)
            except InputError as error:
                pending[folder.identity] = error.line
            except (ServerError, OSError) as error:
                pending[folder.identity] = _one_line(error)
                silence = self._silence()
            except (AttributeError, KeyError, TypeError, ValueError) as error:  # an odd directory; the others go on
                pending[folder.identity] = f"{type(error).__name__}: {_one_line(error)}"
        return Shipment(shipped=tuple(shipped), pending=pending, unreachable=silence)

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
        deadline = time.monotonic() + patience
        while True:
            try:
                if self._open.parent.is_gone():
                    self._open.parent.find()
                    self._seen.clear()
                shipment = self.ship(every)
                if shipment.unreachable is None:
                    seen = [self._seen.get(folder.identity) for folder in every]
                    states = Counter((one.state if one else None) or State.MISSING for one in seen)
                    self._open.parent.finish(states, tables, outcome or Outcome())
            except (ServerError, OSError) as error:
                pending = {folder.identity: _one_line(error) for folder in every if not self._is_current(folder)}
                shipment = Shipment(pending=pending, unreachable=_one_line(error))
            if shipment.unreachable is None or time.monotonic() >= deadline:
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

    def _silence(self) -> str | None:
        """The error of a minimal request to the server; None if it responds."""
        try:
            self._open.client.check()
        except (ServerError, OSError) as error:
            return _one_line(error)
        return None

    def _is_current(self, folder: TrialFolder) -> bool:
        seen = self._seen.get(folder.identity)
        return seen is not None and seen.is_current(folder)


def unreachable(uri: str, error: Exception) -> InputError:
    """The error for a tracking server that does not respond."""
    return InputError(
        Problem(
            rule="unreachable",
            place="--tracking-uri",
            value=redacted(uri),
            message=f"cannot reach the tracking server at {redacted(uri)} ({_one_line(error)})",
            hint="start it or use another one",
        )
    )


def _one_line(error: Exception) -> str:
    return " ".join(redacted(str(error)).split())[:MAX_MESSAGE_CHARACTERS]
