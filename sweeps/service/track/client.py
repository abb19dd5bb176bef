"""The one importer of mlflow: the requests that the tracker sends, with every failure as a `ServerError`.

Importing this module takes seconds; `Tracker.open` does it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sweeps.service.text import redacted
from sweeps.service.track.changes import Run
from sweeps.service.track.records import DataSet, Point
from sweeps.service.track.server import (
    ServerError,
    artifact_location,
    check_connection,
    remove_stray_folders,
    set_environment,
)

set_environment()  # mlflow reads its environment when it is imported

from mlflow import MlflowClient  # noqa: E402
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402

RUNS_PER_PAGE = 1000
"""Number of runs in one response to a search."""


class Client:
    """A connection to one experiment of a tracking server.

    Args:
        uri: address of the server.
        experiment: name of the experiment; a deleted one is restored, a missing one is created.

    Raises (every method):
        ServerError: the server does not respond or rejects the request.
    """

    def __init__(self, uri: str, experiment: str) -> None:
        self._uri = uri
        with _failures():
            check_connection(uri)
            self._client = MlflowClient(uri, uri)
            remove_stray_folders(uri)
            self.experiment = self._find_experiment(experiment)

    def check(self) -> None:
        """Sends a minimal request, which fails only if the server does not respond."""
        with _failures():
            check_connection(self._uri)
            self._client.get_experiment(self.experiment)

    def search(self, condition: str) -> list[Run]:
        """The runs of the experiment that meet a condition in MLflow's filter language."""
        runs: list[Run] = []
        token = None
        with _failures():
            while True:
                page = self._client.search_runs(
                    [self.experiment], condition, max_results=RUNS_PER_PAGE, page_token=token
                )
                runs += [_run(run) for run in page]
                token = page.token
                if not token:
                    return runs

    def create_run(self, name: str, tags: Mapping[str, str], started: int | None = None) -> Run:
        """Creates a run; `started` in milliseconds since 1970, None: now."""
        with _failures():
            return _run(self._client.create_run(self.experiment, start_time=started, tags=tags, run_name=name))

    def delete_run(self, run_id: str) -> None:
        """Deletes a run; it can be restored on the server."""
        with _failures():
            self._client.delete_run(run_id)

    def is_gone(self, run_id: str) -> bool:
        """Whether a run was deleted."""
        try:
            return bool(self._client.get_run(run_id).info.lifecycle_stage == "deleted")
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return True
            raise ServerError(redacted(str(error))) from error
        except Exception as error:
            raise ServerError(redacted(str(error)) or type(error).__name__) from error

    def log(
        self,
        run_id: str,
        points: Iterable[Point] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Sends values, parameters and tags in one request."""
        with _failures():
            self._client.log_batch(
                run_id,
                [Metric(point.name, point.value, point.timestamp, point.step) for point in points],
                [Param(name, value) for name, value in (params or {}).items()],
                [RunTag(name, value) for name, value in (tags or {}).items()],
            )

    def last_point(self, run_id: str, name: str) -> Point | None:
        """The value of a metric at its last step; None without values."""
        with _failures():
            history = self._client.get_metric_history(run_id, name)
        points = [Point(metric.key, metric.value, metric.timestamp, metric.step) for metric in history]
        return max(points, key=lambda point: (point.step, point.timestamp), default=None)

    def log_data(self, run_id: str, data: DataSet) -> None:
        """Sets the recordings as the run's input."""
        dataset = Dataset(data.name, data.digest, "local", data.source, data.schema, data.profile)
        with _failures():
            self._client.log_inputs(
                run_id, datasets=[DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])]
            )

    def log_json(self, run_id: str, value: Mapping[str, Any], name: str) -> None:
        """Uploads a JSON artifact."""
        with _failures():
            self._client.log_dict(run_id, dict(value), name)

    def log_files(self, run_id: str, path: Path, artifact_path: str | None = None) -> None:
        """Uploads a file or directory as artifacts, below a path in the run."""
        with _failures():
            send = self._client.log_artifacts if path.is_dir() else self._client.log_artifact
            send(run_id, str(path), artifact_path or None)

    def update(self, run_id: str, *, status: str | None = None, name: str | None = None) -> None:
        """Changes a run's status or name."""
        with _failures():
            self._client.update_run(run_id, status=status, name=name)

    def end(self, run_id: str, status: str, ended: int | None = None) -> None:
        """Ends a run; `ended` in milliseconds since 1970, None: now."""
        with _failures():
            self._client.set_terminated(run_id, status, ended)

    def _find_experiment(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            tags = {"mlflow.experimentKind": "custom_model_development"}
            try:
                return str(self._client.create_experiment(name, artifact_location(self._uri), tags))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process was faster
                    raise
                experiment = self._client.get_experiment_by_name(name)
        if experiment.lifecycle_stage == "deleted":
            self._client.restore_experiment(experiment.experiment_id)
        return str(experiment.experiment_id)


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # besides MLflow's own: those of requests, of SQLAlchemy and of a missing driver
        raise ServerError(redacted(str(error)) or type(error).__name__) from error


def _run(run: Any) -> Run:
    return Run(
        run_id=run.info.run_id,
        status=run.info.status,
        name=run.info.run_name,
        tags=dict(run.data.tags),
        params=set(run.data.params),
        has_data=bool(run.inputs and run.inputs.dataset_inputs),
    )
