"""The content of a tracking server, read with MLflow's own client."""

from __future__ import annotations

import re
from typing import Any

from mlflow import MlflowClient

from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.track.tracker import Tracker
from sweeps.service.trials.folder import TrialFolder

EXPERIMENT = "mucon"
MASKS = SweepInfo(
    name="ablation_masks",
    title="Mask shapes and overlap",
    command="python sweeps/ablation_masks.py --store stores/tug --seeds 3",
    config={"training": {"epochs": 3}, "store": "stores/tug"},
)


def tracker(uri: str, rows: dict[str, str] | None = None, sweep: SweepInfo = MASKS) -> Tracker:
    return Tracker(uri, EXPERIMENT, sweep, rows)


def client(uri: str) -> MlflowClient:
    return MlflowClient(uri, uri)


def runs(uri: str, condition: str = "tags.trial LIKE '%'") -> list[Any]:
    server = client(uri)
    experiment = server.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        return []
    return list(server.search_runs([experiment.experiment_id], condition, max_results=1000))


def run_of(uri: str, folder: TrialFolder) -> Any:
    (run,) = runs(uri, f"tags.trial = '{folder.identity}'")
    return run


def parent_of(uri: str, sweep: str = MASKS.name) -> Any:
    (run,) = runs(uri, f"tags.sweep = '{sweep}'")
    return run


def artifacts_of(uri: str, run_id: str, path: str | None = None) -> set[str]:
    paths: set[str] = set()
    for item in client(uri).list_artifacts(run_id, path):
        paths |= artifacts_of(uri, run_id, item.path) if item.is_dir else {item.path}
    return paths


def everything(uri: str) -> dict[str, Any]:
    """Everything that the server has of the trials, without random ids and the name and place of the folder."""
    content = {}
    for run in runs(uri):
        metrics = {
            name: [
                (point.step, point.timestamp, point.value)
                for point in client(uri).get_metric_history(run.info.run_id, name)
            ]
            for name in run.data.metrics
        }
        others = ("mlflow.parentRunId", "writer", "heard_at")
        tags = {name: value for name, value in run.data.tags.items() if name not in others}
        tags["mlflow.note.content"] = re.sub(r"\S+/trials/", "RESULTS/trials/", tags["mlflow.note.content"])
        content[run.data.tags["trial"]] = {
            "name": run.info.run_name,
            "status": run.info.status,
            "times": (run.info.start_time, run.info.end_time),
            "params": dict(run.data.params),
            "metrics": metrics,
            "tags": tags,
            "inputs": [
                (item.dataset.name, item.dataset.digest, item.dataset.schema) for item in run.inputs.dataset_inputs
            ],
            "artifacts": artifacts_of(uri, run.info.run_id),
        }
    return content


def finished(uri: str, sweep: SweepInfo) -> set[str]:
    finished_runs = runs(uri, f"tags.`sweep.{sweep.name}` LIKE '%' AND attributes.status = 'FINISHED'")
    return {run.data.tags["trial"] for run in finished_runs}
