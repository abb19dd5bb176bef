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

from mucon.config import flatten
from mucon.errors import InputError, Problem
from storage import failpoints
from sweeps.service.plan.sweep_folder import Links, Outcome, SweepInfo
from sweeps.service.text import param_text, redacted
from sweeps.service.track.changes import (
    NAMES_TAG,
    NOTE_TAG,
    OWNER_TAG,
    PARENT_TAG,
    Run,
    Shipment,
    batches,
    changes,
    kept_tags,
)
from sweeps.service.track.description import description, source_tags, trial_description
from sweeps.service.track.names import METRIC_NAMES, safe_name
from sweeps.service.track.records import STATUS, Point, TrialRecord, artifacts, read_record
from sweeps.service.track.server import ServerError, check_connection, checked_uri, run_page, ui_command
from sweeps.service.trials import lease
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
INCOMPLETE_STATES = {State.MISSING, State.RUNNING, State.LOST, State.STOPPED}
"""A sweep with a trial in one of these states is not finished."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A trial's directory when its run was last brought up to date.

    Attributes:
        state: the recorded state; None if the trial had not started.
        journal_bytes: size of the journal. Every evaluation appends to it, before it begins and when it ends.
        n_results: number of results.
        is_held: whether a process held the trial.
    """

    state: State | None
    journal_bytes: int
    n_results: int
    is_held: bool


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
        self._runs: dict[str, Run] = {}
        self._seen: dict[str, _Seen] = {}
        self._connection: Client | None = None
        self._parent = Run(run_id="")

    def __enter__(self) -> Tracker:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def links(self) -> Links:
        """The pages of the sweep's run, of all runs and of the known runs of its trials."""
        return Links(
            sweep=self._page(self._parent.run_id),
            runs=self._page(),
            serve=None if self.uri.startswith("http") else ui_command(self.uri),
            trials={identity: self._page(run.run_id) for identity, run in self._runs.items()},
        )

    def open(self) -> None:
        """Connects, finds or creates the experiment and the parent run, and finds the runs of the sweep's trials.

        Raises:
            InputError: the server does not respond or rejects a request.
        """
        from sweeps.service.track.client import Client  # imports mlflow, which takes seconds

        try:
            self._connection = Client(self.uri, self.experiment_name)
            self._find_parent()
            runs: dict[str, list[Run]] = {}
            for run in self._client.search(f"tags.`sweep.{self.sweep.name}` LIKE '%' AND tags.trial LIKE '%'"):
                runs.setdefault(run.tags["trial"], []).append(run)
            self._runs = {trial: one for trial, (one, *others) in runs.items() if one.is_current and not others}
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
                if self._client.is_gone(self._parent.run_id):
                    self._find_parent()
                    self._seen.clear()
                shipment = self.ship(every)
                if shipment.unreachable is None:
                    self._finish_parent(every, tables, outcome or Outcome())
            except (ServerError, OSError) as error:
                pending = {folder.identity: _one_line(error) for folder in every if not self._is_current(folder)}
                shipment = Shipment(pending=pending, unreachable=_one_line(error))
            if shipment.unreachable is None or time.monotonic() >= deadline:
                return shipment
            time.sleep(min(1.0, patience))

    def close(self) -> None:
        """Ends the parent run as killed, unless `finish` has ended it; does not wait for the server."""
        if self._parent.run_id and self._parent.status == "RUNNING":
            with contextlib.suppress(ServerError, OSError):
                check_connection(self.uri)
                self._client.end(self._parent.run_id, "KILLED")
                self._parent.status = "KILLED"

    @property
    def _client(self) -> Client:
        assert self._connection is not None, "open the tracker first"
        return self._connection

    def _page(self, run_id: str = "") -> str:
        return run_page(self.uri, self._client.experiment, run_id)

    def _ship_one(self, folder: TrialFolder) -> None:
        """Brings one run up to date; a run that was deleted meanwhile is created again."""
        check_connection(self.uri)
        journal_bytes, n_results, is_held = _signature(folder)  # before reading: changes from here on are seen later
        reading = TrialReading(folder)
        record = read_record(reading)
        if record is not None:
            run = self._run_of(record)
            try:
                self._send(run, record, reading)
            except ServerError:
                if not self._client.is_gone(run.run_id):
                    raise
                del self._runs[record.identity]
                self._send(self._run_of(record), record, reading)
        self._seen[folder.identity] = _Seen(record.state if record else None, journal_bytes, n_results, is_held)

    def _send(self, run: Run, record: TrialRecord, reading: TrialReading) -> None:
        """Sends parameters, values and tags, then the dataset and the artifacts, and last the status, which marks them.

        A finished run does not change while the same trial is trained in another results folder.
        """
        if run.status == STATUS[State.FINISHED] and record.state is not State.FINISHED:
            return
        change = changes(run, record, self._tags(run, record, reading.folder))
        for points, params, tags in batches(change):
            self._client.log(run.run_id, points, params, tags)
            failpoints.reach("sweeps.tracking.batch")
        run.params |= set(change.params)
        run.tags |= change.tags
        if not run.has_data:
            self._client.log_data(run.run_id, record.data)
            run.has_data = True
        status = STATUS[record.state]
        if record.state is State.FINISHED and run.status != status:
            self._client.log_json(run.run_id, record.config, "config.json")
            for path, place in artifacts(reading):
                self._client.log_files(run.run_id, path, place)
                failpoints.reach("sweeps.tracking.artifact")
        name = self._name(record) if self._is_named_here(run, record) else run.name
        if record.ended is None and (run.status, run.name) != (status, name):
            self._client.update(run.run_id, status=status, name=name)
        elif record.ended is not None:
            if run.name != name:
                self._client.update(run.run_id, name=name)
            if run.status != status:
                self._client.end(run.run_id, status, record.ended)
        run.name, run.status = name, status

    def _run_of(self, record: TrialRecord) -> Run:
        """The trial's only run in this experiment; it is created if the server has none.

        Two trackers, or a request that was sent twice, can create two runs: every tracker keeps the one with the
        smallest id and deletes the others. Servers cannot rename metrics: a run with the names of an older program is
        replaced by a new one with its tags, which is deleted only once the new one exists. A finished one stays while
        the trial has no result here.
        """
        identity = record.identity
        if identity not in self._runs:
            condition = f"tags.trial = '{identity}'"
            runs = self._client.search(condition)
            older = [run for run in runs if not run.is_current]
            if older and record.state is not State.FINISHED:
                finished = [run for run in older if run.status == STATUS[State.FINISHED]]
                if finished:
                    return finished[0]
            if len(older) == len(runs):
                tags = {"trial": identity, OWNER_TAG: self.sweep.name, PARENT_TAG: self._parent.run_id}
                tags |= {
                    **source_tags(self.sweep.command),
                    **(kept_tags(older[0]) if older else {}),
                    NAMES_TAG: METRIC_NAMES,
                }
                self._client.create_run(self._name(record), tags, record.started)
                failpoints.reach("sweeps.tracking.created")
                runs = self._client.search(condition)
            ordered = sorted(runs, key=lambda run: (not run.is_current, run.run_id))
            self._runs[identity] = ordered[0]
            for other in ordered[1:]:
                self._client.delete_run(other.run_id)
        return self._runs[identity]

    def _tags(self, run: Run, record: TrialRecord, folder: TrialFolder) -> dict[str, str]:
        """The tags that this sweep sets; parent and row are set by the sweep that trained the trial."""
        row = self.rows.get(record.identity, "")
        tags = {f"sweep.{self.sweep.name}": row or "used"}
        if run.tags.get(OWNER_TAG) == self.sweep.name:
            tags |= {PARENT_TAG: self._parent.run_id} | ({"row": row} if row else {})
        shown = tags.get("row", run.tags.get("row", ""))
        return tags | {NOTE_TAG: trial_description(record, shown, folder.run_path)}

    def _is_named_here(self, run: Run, record: TrialRecord) -> bool:
        return run.tags.get(OWNER_TAG) == self.sweep.name and record.identity in self.rows

    def _name(self, record: TrialRecord) -> str:
        """What differs between runs comes first, because the server's pages cut long names."""
        row = self.rows.get(record.identity, record.identity[:8])
        split = f" split {record.split}" if len(self.sweep.config.get("splits", ())) > 1 else ""
        return f"s{record.seed}{split} {row.replace(', ', ' ')}"

    def _find_parent(self) -> None:
        runs = self._client.search(f"tags.sweep = '{self.sweep.name}'")
        if runs:
            self._parent = min(runs, key=lambda run: run.run_id)
        else:
            self._parent = self._client.create_run(
                self.sweep.name, {"sweep": self.sweep.name, **source_tags(self.sweep.command)}
            )
        self._client.log(self._parent.run_id, tags={NOTE_TAG: description(self.sweep, {})})
        if self._parent.status != "RUNNING":
            self._client.update(self._parent.run_id, status="RUNNING")
            self._parent.status = "RUNNING"

    def _finish_parent(self, folders: Iterable[TrialFolder], tables: Mapping[str, Path], outcome: Outcome) -> None:
        """Sends tables, description, scores of the best row and counts, and ends the parent run.

        A score is sent if the run lacks it or has another value, which becomes its next step. Parameters of a run
        cannot change: they are those of the first run of the sweep; its description has those of the last.
        """
        run_id = self._parent.run_id
        for path in tables.values():
            self._client.log_files(run_id, path, "tables")
        whole = {"name": self.sweep.name, "title": self.sweep.title, "command": self.sweep.command}
        self._client.log_json(run_id, {**whole, "config": dict(self.sweep.config), "rows": self.rows}, "sweep.json")
        seen = [self._seen.get(folder.identity) for folder in folders]
        states = Counter((one.state if one else None) or State.MISSING for one in seen)
        counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        now = int(1000 * time.time())
        points = []
        for name, value in outcome.metrics.items():
            last = self._client.last_point(run_id, safe_name(name))
            if last is None or last.value != value:
                points.append(Point(safe_name(name), value, now, 0 if last is None else last.step + 1))
        settings = {path: value for path, value in flatten(self.sweep.config).items() if path != "seeds"}
        params = {safe_name(path): param_text(value) for path, value in settings.items()}
        params = {name: value for name, value in params.items() if name not in self._parent.params}
        notes = {NOTE_TAG: description(self.sweep, tables), "trials": counts or "none", **outcome.tags}
        self._client.log(run_id, points, params, notes)
        self._parent.params |= set(params)
        self._parent.status = "KILLED" if states.keys() & INCOMPLETE_STATES else "FINISHED"
        self._client.end(run_id, self._parent.status)

    def _silence(self) -> str | None:
        """The error of a minimal request to the server; None if it responds."""
        try:
            self._client.check()
        except (ServerError, OSError) as error:
            return _one_line(error)
        return None

    def _is_current(self, folder: TrialFolder) -> bool:
        """Whether the directory has not changed since its run was brought up to date."""
        seen = self._seen.get(folder.identity)
        if seen is None:
            return False
        if seen.state is State.FINISHED:  # only a further evaluation can change it
            return seen.journal_bytes == _journal_bytes(folder)
        return (seen.journal_bytes, seen.n_results, seen.is_held) == _signature(folder)


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


def _signature(folder: TrialFolder) -> tuple[int, int, bool]:
    """Journal size, number of results and whether a process holds the trial: changes whenever the record does."""
    size = _journal_bytes(folder)
    if not size:  # not started
        return 0, 0, False
    return size, TrialReading(folder).n_results, lease.holder(folder.path) is not None


def _journal_bytes(folder: TrialFolder) -> int:
    try:
        return folder.journal_path.stat().st_size
    except FileNotFoundError:
        return 0


def _one_line(error: Exception) -> str:
    return " ".join(redacted(str(error)).split())[:MAX_MESSAGE_CHARACTERS]
