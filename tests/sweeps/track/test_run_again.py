"""Runs that are missing, deleted or there twice are put in order by the next shipment."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.service.plan.sweep_folder import write_sweep
from sweeps.service.track.sync import sync
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.tracked import EXPERIMENT, MASKS, artifacts_of, client, everything, parent_of, run_of, runs, tracker
from tests.helpers.trial_folders import (
    append_epoch,
    finish,
    write_ablation,
    write_trial,
)

pytestmark = pytest.mark.service


def test_two_runs_of_one_trial_become_one(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path)
    with tracker(mlflow_uri) as shipping:
        experiment = client(mlflow_uri).get_experiment_by_name(EXPERIMENT).experiment_id
        for _ in range(2):  # as by two trackers at once, or by a request that was sent twice
            client(mlflow_uri).create_run(experiment, tags={"trial": folder.identity, "trained_by": MASKS.name})
        shipping.ship([folder])
    assert run_of(mlflow_uri, folder).info.status == "FINISHED"


def test_runs_that_were_deleted_are_created_again(tmp_path: Path, mlflow_uri: str) -> None:
    results = ResultsFolder(tmp_path / "results")
    folders, rows = write_ablation(results.path)
    lonely = write_trial(results.path, seed=77)
    write_sweep(results, MASKS, EXPERIMENT, rows)
    (results.sweep(MASKS.name) / "table.md").write_text("| mask |\n|---|\n| box |\n")
    assert {name: shipment.complete for name, shipment in sync(results, mlflow_uri).items()} == {
        "ablation_masks": True,
        "other_trials": True,
    }
    before = everything(mlflow_uri)
    assert lonely.identity in before
    assert len(before) == 7
    server = client(mlflow_uri)
    server.delete_run(parent_of(mlflow_uri).info.run_id)
    for folder in folders[:2]:
        server.delete_run(run_of(mlflow_uri, folder).info.run_id)
    sync(results, mlflow_uri)
    assert everything(mlflow_uri) == before
    children = runs(mlflow_uri, "tags.trained_by = 'ablation_masks'")
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent_of(mlflow_uri).info.run_id}
    assert artifacts_of(mlflow_uri, parent_of(mlflow_uri).info.run_id) == {"sweep.json", "tables/table.md"}


def test_a_deleted_experiment_is_restored(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path)
    with tracker(mlflow_uri, rows) as shipping:
        shipping.finish(folders, {})
        before = everything(mlflow_uri)
    server = client(mlflow_uri)
    server.delete_experiment(server.get_experiment_by_name(EXPERIMENT).experiment_id)
    with tracker(mlflow_uri, rows) as shipping:
        assert shipping.finish(folders, {}).complete
    assert everything(mlflow_uri) == before


def test_a_run_that_is_deleted_while_its_trial_runs_is_created_again(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path, status="running", epochs=2)
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
        client(mlflow_uri).delete_run(run_of(mlflow_uri, folder).info.run_id)
        append_epoch(folder, 3)
        finish(folder)
        assert shipping.ship([folder]).pending == {}
    run = run_of(mlflow_uri, folder)
    assert run.info.status == "FINISHED"
    assert len(client(mlflow_uri).get_metric_history(run.info.run_id, "train/loss/total")) == 3


def test_results_can_be_moved_and_shown_elsewhere(
    tmp_path: Path, mlflow_uri: str, new_mlflow_uri: Callable[[Path], str]
) -> None:
    folders, rows = write_ablation(tmp_path / "results")
    write_sweep(ResultsFolder(tmp_path / "results"), MASKS, EXPERIMENT, rows)
    with tracker(mlflow_uri, rows) as shipping:
        shipping.finish(folders, {})
    shutil.copytree(tmp_path / "results", tmp_path / "moved")
    elsewhere = new_mlflow_uri(tmp_path / "elsewhere")
    sync(ResultsFolder(tmp_path / "moved"), elsewhere)
    assert everything(elsewhere) == everything(mlflow_uri)
