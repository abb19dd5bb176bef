"""The one importer of mlflow: the requests that the tracker sends, with every failure as a `ServerError`.

Importing this module takes seconds; `Tracker.open` does it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import ssl
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from storage import failpoints
from sweeps.service.imports import quick_imports
from sweeps.service.text import redacted
from sweeps.service.track.content.changes import WRITER_TAG, Run
from sweeps.service.track.content.records import DataSet, Measured, Point
from sweeps.service.track.content.versions import MODEL_DESCRIPTION, TRIALS_TAG, Version
from sweeps.service.track.moved import follow
from sweeps.service.track.server import (
    ServerError,
    artifact_location,
    check_connection,
    database_path,
    exists,
    remove_stray_folders,
    set_environment,
)

set_environment()  # mlflow reads its environment when it is imported

with quick_imports():
    import requests  # mlflow's own client
    from mlflow import MlflowClient
    from mlflow.artifacts import download_artifacts
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelOutput, Metric, Param, RunTag
    from mlflow.exceptions import MlflowException

UPLOAD_SECONDS = 45.0
"""Seconds that the upload of a file may take longer than another request."""
RUNS_PER_PAGE = 1000
"""Number of runs in one response to a search."""


class Client:
    """A connection to one experiment of a tracking server.

    Args:
        uri: address of the server.
        experiment: name of the experiment; a deleted one is restored, a missing one is created.
        results: the results folder, where artifacts of a database without a server are stored.
        writer: name of the results folder on the server.
        create: whether to restore or create the experiment; otherwise a client without it finds no runs.

    Attributes:
        answered: time of the last answer, as `time.monotonic`.

    Raises (every method):
        ServerError: the server does not respond or rejects the request.
    """

    def __init__(
        self, uri: str, experiment: str, results: Path | None = None, writer: str = "", *, create: bool = True
    ) -> None:
        self._uri, self._results, self._writer = uri, results, writer
        self.answered = time.monotonic()
        self._asked: float | None = None
        with self._request():
            check_connection(uri)
            if create and not exists(uri):
                _make_database(uri)
            self._client = MlflowClient(uri, uri)
            remove_stray_folders(uri)
            self.experiment = self._find_experiment(experiment) if create else self._existing_experiment(experiment)

    @property
    def waiting(self) -> float:
        """Seconds since the request that has no answer yet; 0 without one."""
        asked = self._asked
        return 0.0 if asked is None else max(0.0, time.monotonic() - asked)

    def check(self) -> None:
        """Sends a minimal request, which fails only if the server does not respond."""
        with self._request():
            check_connection(self._uri)
            self._client.get_experiment(self.experiment)

    def search(self, condition: str) -> list[Run]:
        """The runs of the experiment that meet a condition in MLflow's filter language."""
        return [_run(run) for run in self._search(condition)]

    def measured(self) -> list[Measured]:
        """All runs of the experiment with the last values of their metrics."""
        return [
            Measured(run.info.run_id, run.info.status, {**run.data.tags, **run.data.params}, dict(run.data.metrics))
            for run in self._search("")
        ]

    def _search(self, condition: str) -> list[Any]:
        runs: list[Any] = []
        token = None
        if not self.experiment:
            return runs
        with self._request():
            while True:
                page = self._client.search_runs(
                    [self.experiment], condition, max_results=RUNS_PER_PAGE, page_token=token
                )
                runs += page
                token = page.token
                if not token:
                    return runs

    def get_run(self, run_id: str) -> Run:
        """A run."""
        with self._request():
            return _run(self._client.get_run(run_id))

    def create_run(self, name: str, tags: Mapping[str, str], started: int | None = None) -> Run:
        """Creates a run; `started` in milliseconds since 1970, None: now."""
        with self._request():
            return _run(self._client.create_run(self.experiment, start_time=started, tags=tags, run_name=name))

    def delete_run(self, run_id: str) -> None:
        """Deletes a run; it can be restored on the server."""
        with self._request():
            self._client.delete_run(run_id)

    def is_gone(self, run_id: str) -> bool:
        """Whether a run was deleted."""
        with self._request():
            try:
                return bool(self._client.get_run(run_id).info.lifecycle_stage == "deleted")
            except MlflowException as error:
                if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                    return True
                raise

    def log(
        self,
        run_id: str,
        points: Iterable[Point] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Sends values, parameters and tags in one request."""
        with self._request():
            self._client.log_batch(
                run_id,
                [Metric(point.name, point.value, point.timestamp, point.step) for point in points],
                [Param(name, value) for name, value in (params or {}).items()],
                [RunTag(name, value) for name, value in (tags or {}).items()],
            )

    def last_point(self, run_id: str, name: str) -> Point | None:
        """The value of a metric at its last step; None without values."""
        return max(self.history(run_id, name), key=lambda point: (point.step, point.timestamp), default=None)

    def history(self, run_id: str, name: str) -> list[Point]:
        """All values of a metric."""
        with self._request():
            history = self._client.get_metric_history(run_id, name)
        return [Point(metric.key, metric.value, metric.timestamp, metric.step) for metric in history]

    def registered(self) -> set[str]:
        """The identities of the trials whose weights registered models have, or from whose runs they come."""
        versions = self.versions()
        with self._request():
            tags = [self._client.get_run(run).data.tags for run in {one.run_id for one in versions if one.run_id}]
        named = {trial for one in versions for trial in one.tags.get(TRIALS_TAG, "").split(",") if trial}
        return named | {run["trial"] for run in tags if "trial" in run}

    def versions(self, name: str | None = None) -> list[Version]:
        """The versions of a registered model, or of all; the oldest first."""
        versions: list[Version] = []
        token = None
        condition = None if name is None else f"name = '{name}'"
        with self._request():
            while True:
                page = self._client.search_model_versions(condition, max_results=RUNS_PER_PAGE, page_token=token)
                versions += map(_version, page)
                token = page.token
                if not token:
                    return sorted(versions, key=lambda one: (one.name, int(one.version)))

    def version(self, name: str, number: str | None, alias: str | None) -> Version | None:
        """The version of a registered model with a number, or with an alias; None if there is none."""
        with self._request():
            try:
                if number is not None:
                    return _version(self._client.get_model_version(name, number))
                return _version(self._client.get_model_version_by_alias(name, str(alias)))
            except MlflowException as error:
                if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                    return None
                raise

    def register(self, run_id: str, folder: Path, name: str, tags: Mapping[str, str], description: str) -> Version:
        """Uploads a folder in MLflow's format as a model of a run, and registers it as a new version.

        Args:
            run_id: the run.
            folder: the folder.
            name: name of the registered model; it is created if there is none.
            tags: tags of the model and the version.
            description: text of the version, in Markdown.
        """
        with self._request(UPLOAD_SECONDS):
            model = self._client.create_logged_model(
                self.experiment, name=name, source_run_id=run_id, tags=dict(tags), model_type="action segmentation"
            )
            self._client.log_model_artifacts(model.model_id, str(folder))
            self._client.finalize_logged_model(model.model_id, "READY")
            self._client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
            with contextlib.suppress(MlflowException):  # it exists, or the next request says what is wrong
                self._client.create_registered_model(name, description=MODEL_DESCRIPTION)
            version = self._client.create_model_version(
                name,
                model.artifact_location,
                run_id,
                tags=dict(tags),
                description=description,
                model_id=model.model_id,
            )
        return _version(version)

    def set_alias(self, name: str, alias: str, version: str) -> None:
        """Moves an alias to a version of a registered model; removes it from the one that had it."""
        with self._request():
            self._client.set_registered_model_alias(name, alias, version)

    def download(self, version: Version, path: str, target: Path) -> None:
        """Copies a folder in the files of a version into an existing folder."""
        with self._request(UPLOAD_SECONDS), tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            place = self._client.get_model_version_download_uri(version.name, version.version).rstrip("/")
            found = download_artifacts(f"{place}/{path}", dst_path=scratch, tracking_uri=self._uri)
            for item in Path(found).iterdir():
                item.rename(target / item.name)

    def log_data(self, run_id: str, data: DataSet) -> None:
        """Sets the recordings as the run's input."""
        dataset = Dataset(data.name, data.digest, "local", data.source, data.schema, data.profile)
        with self._request():
            self._client.log_inputs(
                run_id, datasets=[DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])]
            )

    def log_json(self, run_id: str, value: Mapping[str, Any], name: str) -> None:
        """Uploads a JSON artifact."""
        with self._request():
            self._client.log_dict(run_id, dict(value), name)

    def log_files(self, run_id: str, path: Path, artifact_path: str | None = None) -> None:
        """Uploads a file or directory as artifacts, below a path in the run."""
        with self._request(UPLOAD_SECONDS):
            send = self._client.log_artifacts if path.is_dir() else self._client.log_artifact
            send(run_id, str(path), artifact_path or None)

    def update(self, run_id: str, *, status: str | None = None, name: str | None = None) -> None:
        """Changes a run's status or name."""
        with self._request():
            self._client.update_run(run_id, status=status, name=name)

    def end(self, run_id: str, status: str, ended: int | None = None) -> None:
        """Ends a run; `ended` in milliseconds since 1970, None: now."""
        with self._request():
            self._client.set_terminated(run_id, status, ended)

    @contextlib.contextmanager
    def _request(self, longer: float = 0.0) -> Iterator[None]:
        """Notes when the server was asked and has answered; every failure is a `ServerError`.

        Args:
            longer: seconds that the request may take longer than others before the server counts as silent.
        """
        answered = self.answered
        self._asked = time.monotonic() + longer
        self.answered = max(answered, longer and self._asked)
        try:
            yield
            self.answered = time.monotonic()
        except Exception as error:  # besides MLflow's own: those of requests, of SQLAlchemy and of a missing driver
            self.answered = answered
            raise ServerError(_said(error)) from error
        finally:
            self._asked = None

    def _existing_experiment(self, name: str) -> str:
        """The experiment's number; empty if there is none."""
        experiment = self._client.get_experiment_by_name(name)
        return "" if experiment is None or experiment.lifecycle_stage == "deleted" else str(experiment.experiment_id)

    def _find_experiment(self, name: str) -> str:
        location = artifact_location(self._uri, self._results or Path())
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            tags = {"mlflow.experimentKind": "custom_model_development", WRITER_TAG: self._writer}
            try:
                return str(self._client.create_experiment(name, location, tags))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process was faster
                    raise
                experiment = self._client.get_experiment_by_name(name)
        is_own = self._uri.startswith("sqlite:") or experiment.tags.get(WRITER_TAG) == self._writer != ""
        if self._results is not None and location is not None and is_own:
            follow(self._uri, experiment.artifact_location, location)
        if experiment.lifecycle_stage == "deleted":
            self._client.restore_experiment(experiment.experiment_id)
        return str(experiment.experiment_id)


def _make_database(uri: str) -> None:
    """Makes an SQLite database with MLflow's tables in memory, and puts it into its place unless there is one by now.

    MLflow makes the tables in about a thousand steps, each of which a disk would have to confirm. A kill between two of
    them, or a second process that makes them, too, would leave a database that MLflow can neither use nor complete.
    """
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # a client of a server needs no database

    path = database_path(uri).resolve()  # a link whose target is missing stays a link
    if not path.exists():  # still
        for end in ("-journal", "-wal", "-shm"):  # of a removed database, to which SQLite would restore the new one
            path.with_name(path.name + end).unlink(missing_ok=True)
    memory = f"file:{uuid.uuid4().hex}?mode=memory&cache=shared"
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")  # two containers may have one process number
    try:
        with contextlib.closing(sqlite3.connect(memory, uri=True)) as made:
            SqlAlchemyStore(f"sqlite:///{memory}&uri=true", artifact_location(uri)).engine.dispose()
            with contextlib.closing(sqlite3.connect(unfinished)) as copy:
                copy.execute("pragma journal_mode = off")
                made.backup(copy)
        failpoints.reach("sweeps.tracking.database")
        try:
            path.hardlink_to(unfinished)
        except OSError:  # another process was faster, or a file system without links
            if not path.exists():
                unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _said(error: BaseException) -> str:
    """What an error says, without secrets; of a broken connection only that, as its text has two addresses."""
    causes = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    untrusted = [cause.verify_message for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)]
    if untrusted:
        trusts = "MLFLOW_TRACKING_SERVER_CERT_PATH names the certificates to trust"
        return f"its certificate is not trusted: {untrusted[0]}; {trusts}"
    if any(isinstance(cause, (requests.exceptions.Timeout, TimeoutError)) for cause in causes):
        return "no answer in time"  # an exhausted retry of requests is a ConnectionError that a timeout has caused
    if any(isinstance(cause, requests.exceptions.ConnectionError) for cause in causes):
        return "the connection was refused or broken"
    return redacted(str(error).partition("[SQL:")[0].strip()) or type(error).__name__


def _version(version: Any) -> Version:
    return Version(
        name=version.name, version=str(version.version), run_id=version.run_id or "", tags=dict(version.tags)
    )


def _run(run: Any) -> Run:
    return Run(
        run_id=run.info.run_id,
        status=run.info.status,
        name=run.info.run_name,
        tags=dict(run.data.tags),
        params=set(run.data.params),
        has_data=bool(run.inputs and run.inputs.dataset_inputs),
    )
