"""The one shipper to MLflow, and the one module that imports it.

Trials know nothing of a tracking server: they write their folders, and a `Tracker` beside the driver makes the server
show what the folders say. Each call compares what a run shall be with what it is known to be and sends the
difference, so that sending again changes nothing, a kill at any moment leaves nothing that the next call does not
complete, and a run that was deleted is made anew. mlflow is imported by `Tracker.open`.
"""

from __future__ import annotations

import contextlib
import getpass
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from mucon import failpoints
from mucon.errors import InputError
from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.track.changes import OWNER_TAG, PARENT_TAG, Run, Shipment, calls, changes
from sweeps.service.track.description import description, script_of
from sweeps.service.track.names import safe_name
from sweeps.service.track.records import STATUS, TrialRecord, artifacts, read_record
from sweeps.service.track.server import (
    artifact_location,
    check_connection,
    checked_uri,
    run_page,
    set_environment,
    ui_command,
)
from sweeps.service.trials import lease
from sweeps.service.trials.folder import State, TrialFolder

PATIENCE = 20.0
"""Seconds for which `finish` asks a server that does not answer again."""
PAGE = 1000
LEFT_TO_DO = {State.MISSING, State.RUNNING, State.LOST, State.STOPPED}


class Tracker:
    """Shows a sweep and its trials on a tracking server: one parent run for the sweep, one child for each trial.

    Args:
        uri: `sqlite:///PATH`, `http(s)://HOST:PORT` or `postgresql+psycopg2://USER@HOST:PORT/NAME`.
        experiment_name: MLflow's experiment; sweeps that share trials are in one.
        sweep: found again by its name.
        rows: trial identity -> the row of the table to which it belongs, for names.

    Raises:
        InputError: an address that no tracking server has, or a sweep's name that no tag can hold.
    """

    def __init__(self, uri: str, experiment_name: str, sweep: SweepInfo, rows: Mapping[str, str] | None = None) -> None:
        if safe_name(sweep.name) != sweep.name:
            raise InputError(f"a sweep's name has letters, digits and _ - . only, {sweep.name!r} has others: rename it")
        self.uri = checked_uri(uri)
        self.experiment_name = experiment_name
        self.sweep = sweep
        self.rows = dict(rows or {})
        self._runs: dict[str, Run] = {}
        self._seen: dict[str, tuple[object, State | None]] = {}
        self._client: Any = None
        self._experiment = ""
        self._parent = Run(run_id="")

    def __enter__(self) -> Tracker:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def where(self) -> str:
        """How people look at the sweep: the parent run's page, behind the command that serves a bare database."""
        page = run_page(self.uri, self._experiment, self._parent.run_id)
        return page if self.uri.startswith("http") else f"{ui_command(self.uri)}   then {page}"

    @property
    def links(self) -> dict[str, str]:
        """Trial identity -> the page of its run, of those known; the sweep's own page under the empty text."""
        ids = {"": self._parent.run_id, **{identity: run.run_id for identity, run in self._runs.items()}}
        return {identity: run_page(self.uri, self._experiment, run_id) for identity, run_id in ids.items()}

    def open(self) -> None:
        """Connects, finds or makes the experiment and the parent run, and asks which trials the server has how far.

        Raises:
            InputError: the server does not answer or refuses.
        """
        set_environment()
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        try:
            check_connection(self.uri)
            self._client = MlflowClient(self.uri, self.uri)
            self._experiment = self._find_experiment()
            self._find_parent()
            for run in self._search(f"tags.`sweep.{self.sweep.name}` LIKE '%'"):
                self._runs[run.tags["trial"]] = run
        except (MlflowException, OSError) as error:
            raise InputError(
                f"a tracking server answers, the one at {self.uri} does not ({_one_line(error)}): "
                "start it, or name another with --tracking-uri"
            ) from error

    def ship(self, folders: Iterable[Path]) -> Shipment:
        """Brings the runs of trials to what their folders say; what the server does to it is told, not raised.

        A server that cannot be reached ends the call; the next call tries everything again.

        Args:
            folders: of trials, `RESULTS/trials/IDENTITY`.
        """
        from mlflow.exceptions import MlflowException

        shipped: list[str] = []
        pending: dict[str, str] = {}
        unreachable: str | None = None
        for folder in map(TrialFolder, folders):
            try:
                if not self._is_seen(folder):
                    if unreachable is not None:
                        pending[folder.identity] = unreachable
                        continue
                    self._ship_one(folder)
                if self._seen[folder.identity][1] is not None:
                    shipped.append(folder.identity)
            except InputError as error:
                pending[folder.identity] = error.line
            except (MlflowException, OSError) as error:
                pending[folder.identity] = _one_line(error)
                unreachable = self._silence()
        return Shipment(shipped=tuple(shipped), pending=pending, unreachable=unreachable)

    def finish(self, folders: Iterable[Path], tables: Mapping[str, Path], patience: float = PATIENCE) -> Shipment:
        """The last call: ships everything, hangs the tables on the parent run and ends it.

        Args:
            folders: of all trials of the sweep.
            tables: name -> file; Markdown stands in the parent's description too.
            patience: seconds for which a server that does not answer is asked again.
        """
        from mlflow.exceptions import MlflowException

        every = list(folders)
        deadline = time.monotonic() + patience
        while True:
            try:
                if self._is_gone(self._parent):
                    self._find_parent()
                    self._seen.clear()
                shipment = self.ship(every)
                if shipment.unreachable is None:
                    self._finish_parent(every, tables)
            except (MlflowException, OSError) as error:
                pending = {path.name: _one_line(error) for path in every if not self._is_seen(TrialFolder(path))}
                shipment = Shipment(pending=pending, unreachable=_one_line(error))
            if shipment.unreachable is None or time.monotonic() >= deadline:
                return shipment
            time.sleep(min(1.0, patience))

    def close(self) -> None:
        """Ends the parent run as killed, unless `finish` has ended it; a server that is not there is not waited for."""
        if self._parent.run_id and self._parent.status == "RUNNING":
            from mlflow.exceptions import MlflowException

            with contextlib.suppress(MlflowException, OSError):
                check_connection(self.uri)
                self._client.set_terminated(self._parent.run_id, "KILLED")
                self._parent.status = "KILLED"

    def _ship_one(self, folder: TrialFolder) -> None:
        """Brings one run to what its folder says; a run that was deleted meanwhile is made anew."""
        from mlflow.exceptions import MlflowException

        check_connection(self.uri)
        signature = _signature(folder)
        record = read_record(folder)
        if record is not None:
            run = self._run_of(record)
            try:
                self._send(run, record, folder)
            except MlflowException:
                if not self._is_gone(run):
                    raise
                del self._runs[record.identity]
                self._send(self._run_of(record), record, folder)
        self._seen[folder.identity] = (signature, record.state if record else None)

    def _send(self, run: Run, record: TrialRecord, folder: TrialFolder) -> None:
        """Parameters, values and tags, then the data set, then the artifacts, and the end last: it stands for all.

        A run that is finished is left as it is while the same trial is being trained in another results folder.
        """
        from mlflow.entities import Metric, Param, RunTag

        if run.status == STATUS[State.FINISHED] and record.state is not State.FINISHED:
            return
        change = changes(run, record, self._tags(run, record))
        for points, params, tags in calls(change):
            self._client.log_batch(
                run.run_id,
                [Metric(point.name, point.value, point.timestamp, point.step) for point in points],
                [Param(name, value) for name, value in params.items()],
                [RunTag(name, value) for name, value in tags.items()],
            )
            failpoints.reach("sweeps.tracking.batch")
        run.params |= set(change.params)
        run.tags |= change.tags
        if not run.has_data:
            self._send_data(run, record)
        status = STATUS[record.state]
        if record.state is State.FINISHED and run.status != status:
            self._client.log_dict(run.run_id, dict(record.config), "config.json")
            for path, place in artifacts(folder):
                send = self._client.log_artifacts if path.is_dir() else self._client.log_artifact
                send(run.run_id, str(path), place or None)
                failpoints.reach("sweeps.tracking.artifact")
        name = self._name(record) if self._is_named_here(run, record) else run.name
        if record.ended is None and (run.status, run.name) != (status, name):
            self._client.update_run(run.run_id, status=status, name=name)
        elif record.ended is not None:
            if run.name != name:
                self._client.update_run(run.run_id, name=name)
            if run.status != status:
                self._client.set_terminated(run.run_id, status, record.ended)
        run.name, run.status = name, status

    def _send_data(self, run: Run, record: TrialRecord) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        data = record.data
        dataset = Dataset(data.name, data.digest, "local", data.source, data.schema, data.profile)
        tags = [InputTag("mlflow.data.context", "training")]
        self._client.log_inputs(run.run_id, datasets=[DatasetInput(dataset, tags)])
        run.has_data = True

    def _run_of(self, record: TrialRecord) -> Run:
        """The trial's one run in this experiment: known, found, or made.

        Two shippers, or a request that was answered too late and sent again, can make two: the smaller id counts, for
        all of them, and the other is deleted.
        """
        identity = record.identity
        if identity not in self._runs:
            found = self._search(f"tags.trial = '{identity}'")
            if not found:
                self._client.create_run(
                    self._experiment,
                    start_time=record.started,
                    tags={
                        "trial": identity,
                        OWNER_TAG: self.sweep.name,
                        PARENT_TAG: self._parent.run_id,
                        **self._source_tags(),
                    },
                    run_name=self._name(record),
                )
                failpoints.reach("sweeps.tracking.created")
                found = self._search(f"tags.trial = '{identity}'")
            self._runs[identity], *others = sorted(found, key=lambda run: run.run_id)
            for other in others:
                self._client.delete_run(other.run_id)
        return self._runs[identity]

    def _tags(self, run: Run, record: TrialRecord) -> dict[str, str]:
        """What this sweep says of a trial's run; where it stands is said by the sweep that trained it."""
        row = self.rows.get(record.identity, "")
        tags = {f"sweep.{self.sweep.name}": row or "used"}
        if run.tags.get(OWNER_TAG) == self.sweep.name:
            tags |= {PARENT_TAG: self._parent.run_id} | ({"row": row} if row else {})
        return tags

    def _is_named_here(self, run: Run, record: TrialRecord) -> bool:
        return run.tags.get(OWNER_TAG) == self.sweep.name and record.identity in self.rows

    def _name(self, record: TrialRecord) -> str:
        row = self.rows.get(record.identity, record.identity[:8])
        return f"{row}, seed {record.seed}, split {record.split}"

    def _source_tags(self) -> dict[str, str]:
        return {
            "mlflow.user": getpass.getuser(),
            "mlflow.source.type": "LOCAL",
            "mlflow.source.name": script_of(self.sweep.command),
        }

    def _find_experiment(self) -> str:
        """The experiment's id; one that was deleted is restored, one that is missing is made, once."""
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(self.experiment_name)
        if found is None:
            tags = {"mlflow.experimentKind": "custom_model_development"}
            try:
                return str(self._client.create_experiment(self.experiment_name, artifact_location(self.uri), tags))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = self._client.get_experiment_by_name(self.experiment_name)
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def _find_parent(self) -> None:
        found = self._search(f"tags.sweep = '{self.sweep.name}'")
        if found:
            self._parent = min(found, key=lambda run: run.run_id)
        else:
            tags = {"sweep": self.sweep.name, **self._source_tags()}
            made = self._client.create_run(self._experiment, tags=tags, run_name=self.sweep.name)
            self._parent = _known(made)
        self._client.set_tag(self._parent.run_id, "mlflow.note.content", description(self.sweep, {}))
        if self._parent.status != "RUNNING":
            self._client.update_run(self._parent.run_id, status="RUNNING")
            self._parent.status = "RUNNING"

    def _finish_parent(self, folders: Iterable[Path], tables: Mapping[str, Path]) -> None:
        """Tables, description and counts; the sweep is finished when no trial has anything left to do."""
        from mlflow.entities import RunTag

        run_id = self._parent.run_id
        for path in tables.values():
            self._client.log_artifact(run_id, str(path), "tables")
        whole = {"name": self.sweep.name, "title": self.sweep.title, "command": self.sweep.command}
        self._client.log_dict(run_id, {**whole, "config": dict(self.sweep.config), "rows": self.rows}, "sweep.json")
        states = Counter(self._seen.get(path.name, (None, None))[1] or State.MISSING for path in folders)
        counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        tags = {"mlflow.note.content": description(self.sweep, tables), "trials": counts or "none"}
        self._client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.items()])
        self._parent.status = "KILLED" if states.keys() & LEFT_TO_DO else "FINISHED"
        self._client.set_terminated(run_id, self._parent.status)

    def _search(self, condition: str) -> list[Run]:
        found: list[Run] = []
        token = None
        while True:
            page = self._client.search_runs([self._experiment], condition, max_results=PAGE, page_token=token)
            found += [_known(run) for run in page]
            token = page.token
            if not token:
                return found

    def _is_gone(self, run: Run) -> bool:
        """Whether a run was deleted, in whatever way."""
        from mlflow.exceptions import MlflowException

        try:
            return bool(self._client.get_run(run.run_id).info.lifecycle_stage == "deleted")
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return True
            raise

    def _silence(self) -> str | None:
        """What the server fails with when it is asked for next to nothing, or None when it answers."""
        from mlflow.exceptions import MlflowException

        try:
            check_connection(self.uri)
            self._client.get_experiment(self._experiment)
        except (MlflowException, OSError) as error:
            return _one_line(error)
        return None

    def _is_seen(self, folder: TrialFolder) -> bool:
        return folder.identity in self._seen and self._seen[folder.identity][0] == _signature(folder)


def _known(run: Any) -> Run:
    return Run(
        run_id=run.info.run_id,
        status=run.info.status,
        name=run.info.run_name,
        tags=dict(run.data.tags),
        params=set(run.data.params),
        has_data=bool(run.inputs and run.inputs.dataset_inputs),
    )


def _signature(folder: TrialFolder) -> tuple[int, bool, bool, int]:
    """Changes whenever a trial's record does: the journal and the evaluations only grow, a lease ends."""
    path = folder.journal_path
    trained = folder.trained()
    held = not trained and lease.holder(folder.path) is not None
    return path.stat().st_size if path.exists() else 0, trained, held, len(folder.other_evaluations())


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
