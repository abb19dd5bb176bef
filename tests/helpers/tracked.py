"""What a tracking server shows, asked with MLflow's own client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.track.tracker import Tracker

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
    found = client(uri)
    experiment = found.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        return []
    return list(found.search_runs([experiment.experiment_id], condition, max_results=1000))


def run_of(uri: str, folder: Path) -> Any:
    (run,) = runs(uri, f"tags.trial = '{folder.name}'")
    return run


def parent_of(uri: str, sweep: str = MASKS.name) -> Any:
    (run,) = runs(uri, f"tags.sweep = '{sweep}'")
    return run


def artifacts_of(uri: str, run_id: str, path: str | None = None) -> set[str]:
    found: set[str] = set()
    for item in client(uri).list_artifacts(run_id, path):
        found |= artifacts_of(uri, run_id, item.path) if item.is_dir else {item.path}
    return found


def everything(uri: str) -> dict[str, Any]:
    """All that the server shows of the trials, without the ids that it draws."""
    shown = {}
    for run in runs(uri):
        metrics = {
            name: [
                (point.step, point.timestamp, point.value)
                for point in client(uri).get_metric_history(run.info.run_id, name)
            ]
            for name in run.data.metrics
        }
        tags = {name: value for name, value in run.data.tags.items() if name != "mlflow.parentRunId"}
        shown[run.data.tags["trial"]] = {
            "name": run.info.run_name,
            "status": run.info.status,
            "times": (run.info.start_time, run.info.end_time),
            "params": dict(run.data.params),
            "metrics": metrics,
            "tags": tags,
            "inputs": [(item.dataset.name, item.dataset.digest) for item in run.inputs.dataset_inputs],
            "artifacts": artifacts_of(uri, run.info.run_id),
        }
    return shown


def finished(uri: str, sweep: SweepInfo) -> set[str]:
    found = runs(uri, f"tags.`sweep.{sweep.name}` LIKE '%' AND attributes.status = 'FINISHED'")
    return {run.data.tags["trial"] for run in found}
