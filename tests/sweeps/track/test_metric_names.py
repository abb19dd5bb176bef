"""Names of metrics on the server, runs with the names of earlier programs, and what a sweep's run shows."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.service.plan.sweep_folder import Outcome, SweepInfo, write_sweep
from sweeps.service.track.content.names import METRIC_NAMES
from sweeps.service.track.sync import sync
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.tracked import EXPERIMENT, MASKS, client, everything, parent_of, run_of, runs, tracker
from tests.helpers.trial_folders import EVALUATION, append_epoch, append_status, finish, write_ablation, write_trial

pytestmark = pytest.mark.service

OTHER = SweepInfo(name="seeds_and_splits", title="Seeds", command="python sweeps/seeds_and_splits.py", config={})


def write_old_run(uri: str, folder: TrialFolder, status: str = "FINISHED") -> str:
    """A run as version 1 left it: names with dots, and the marks of what was sent."""
    server = client(uri)
    found = server.get_experiment_by_name(EXPERIMENT)
    experiment = server.create_experiment(EXPERIMENT) if found is None else found.experiment_id
    tags = {"trial": folder.identity, "trained_by": MASKS.name, "row": "box, 0 %", f"sweep.{MASKS.name}": "box, 0 %"}
    marks = {"shipped_step": "3", "weights_sha256": "0" * 64, "mlflow.note.content": ""}
    extra = {f"sweep.{OTHER.name}": "default", "my.tag": "keep me"}
    run = server.create_run(experiment, tags=tags | marks | extra, run_name="box, 0 %, seed 1, split 1").info.run_id
    for step in (1, 2, 3):
        server.log_metric(run, "loss.total", 3.0 / step, step=step)
    server.log_metric(run, "full.mof", 0.71)
    server.set_terminated(run, status)
    return str(run)


def duplicates(uri: str) -> list[tuple[str, str, int]]:
    """(run, metric, step) that the database of a server has more than once."""
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as database:
        keys = Counter(database.execute("select run_uuid, key, step from metrics"))
    return [key for key, count in keys.items() if count > 1]


def test_a_run_with_the_names_of_version_1_is_replaced_once_and_keeps_its_tags(
    tmp_path: Path, mlflow_uri: str, new_mlflow_uri: Callable[[Path], str]
) -> None:
    results = ResultsFolder(tmp_path / "results")
    folders, rows = write_ablation(results.path)
    write_sweep(results, MASKS, EXPERIMENT, rows)
    old = {write_old_run(mlflow_uri, folder) for folder in folders[:2]}
    assert sync(results, mlflow_uri)[MASKS.name].complete
    migrated = everything(mlflow_uri)
    assert not old & {run.info.run_id for run in runs(mlflow_uri)}
    for folder in folders[:2]:
        run = run_of(mlflow_uri, folder)
        assert {name for name in run.data.metrics if not name.startswith(("train/", "final_test/", "time/"))} == set()
        kept = ("my.tag", f"sweep.{OTHER.name}", "metric_names")
        assert [run.data.tags[name] for name in kept] == ["keep me", "default", METRIC_NAMES]
    assert {client(mlflow_uri).get_run(run).info.lifecycle_stage for run in old} == {"deleted"}
    assert duplicates(mlflow_uri) == []
    sync(results, mlflow_uri)
    assert everything(mlflow_uri) == migrated
    elsewhere = new_mlflow_uri(tmp_path / "elsewhere")
    sync(results, elsewhere)
    for identity, fresh in everything(elsewhere).items():
        for name, value in fresh.items():
            assert name == "tags" or migrated[identity][name] == value


def test_after_a_kill_during_the_replacement_the_next_sync_completes_it(tmp_path: Path, mlflow_uri: str) -> None:
    results = ResultsFolder(tmp_path / "results")
    folder = write_trial(results.path)
    write_sweep(results, MASKS, EXPERIMENT, {folder.identity: "box, 0 %"})
    write_old_run(mlflow_uri, folder)
    killed = subprocess.run(
        [sys.executable, "-m", "sweeps", "sync", str(results.path), "--tracking-uri", mlflow_uri],
        env={**os.environ, "MUCON_FAILPOINT": "sweeps.tracking.created:1:kill"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert sync(results, mlflow_uri)[MASKS.name].complete
    run = run_of(mlflow_uri, folder)
    assert (run.info.status, run.data.tags["metric_names"]) == ("FINISHED", METRIC_NAMES)
    assert "loss.total" not in run.data.metrics
    history = client(mlflow_uri).get_metric_history(run.info.run_id, "train/loss/total")
    assert [point.step for point in history] == [1, 2, 3]
    assert duplicates(mlflow_uri) == []


def test_a_finished_run_of_version_1_stays_while_its_trial_has_no_result_here(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path, status="running", epochs=1)
    old = write_old_run(mlflow_uri, folder)
    with tracker(mlflow_uri, {folder.identity: "box, 0 %"}) as shipping:
        shipping.ship([folder])
        assert run_of(mlflow_uri, folder).info.run_id == old
        append_status(folder, "running", 1_780_000_009_000)
        append_epoch(folder, 2)
        finish(folder)
        shipping.ship([folder])
    run = run_of(mlflow_uri, folder)
    assert (run.info.run_id == old, run.info.status) == (False, "FINISHED")


def test_scores_without_background_are_sent_only_where_they_differ(tmp_path: Path, mlflow_uri: str) -> None:
    folders = [write_trial(tmp_path, seed=seed) for seed in (1, 2)]
    for folder, without in zip(folders, (0.6, 0.7), strict=True):
        path = folder.result_path(EVALUATION)
        result = json.loads(path.read_text())
        result["scores"] = {"full": {"mof": 0.7, "mof_without_background": without, "edit": 0.5}}
        path.write_text(json.dumps(result))
    with tracker(mlflow_uri) as shipping:
        shipping.ship(folders)
    with_background, without_background = (set(run_of(mlflow_uri, folder).data.metrics) for folder in folders)
    assert with_background - without_background == {"final_test/full/mof_without_background"}


def test_a_trials_run_says_what_it_is_and_how_to_use_it(tmp_path: Path, mlflow_uri: str) -> None:
    folder, failed = write_trial(tmp_path, seed=2), write_trial(tmp_path, seed=3, status="failed", reason="no cake")
    rows = {folder.identity: "box, 0 %", failed.identity: "box, 0 %"}
    two = SweepInfo(name=MASKS.name, title="t", command="python x.py", config={"splits": ["1", "2"]})
    with tracker(mlflow_uri, rows, two) as shipping:
        shipping.ship([folder, failed])
    run = run_of(mlflow_uri, folder)
    note = run.data.tags["mlflow.note.content"]
    for text in ("box, 0 %", "split 1", "seed 2", "test full MoF 72.0 %", f"mucon predict {folder.run_path} "):
        assert text in note
    assert run.info.run_name == "s2 split 1 box 0 %"
    assert "**failed**: no cake" in run_of(mlflow_uri, failed).data.tags["mlflow.note.content"]
    assert "mucon predict" not in run_of(mlflow_uri, failed).data.tags["mlflow.note.content"]


def test_a_sweeps_run_has_scores_and_settings_and_each_change_of_a_score_is_its_next_step(
    tmp_path: Path, mlflow_uri: str
) -> None:
    folders, rows = write_ablation(tmp_path)
    outcome = Outcome(metrics={"final_test/full/mof": 0.7, "sweep/trials": 6}, tags={"best_row": "box, 0 %"})
    better = Outcome(metrics={"final_test/full/mof": 0.8, "sweep/trials": 6}, tags={"best_row": "bell, 0 %"})
    for one in (outcome, outcome, better, better):
        with tracker(mlflow_uri, rows) as shipping:
            assert shipping.finish(folders, {}, outcome=one).complete
    parent = parent_of(mlflow_uri)
    server = client(mlflow_uri)
    points = [
        (point.step, point.value) for point in server.get_metric_history(parent.info.run_id, "final_test/full/mof")
    ]
    assert points == [(0, 0.7), (1, 0.8)]
    assert len(server.get_metric_history(parent.info.run_id, "sweep/trials")) == 1
    assert (parent.data.metrics["final_test/full/mof"], parent.data.tags["best_row"]) == (0.8, "bell, 0 %")
    assert parent.data.params == {"training.epochs": "3", "store": "stores/tug"}
    assert duplicates(mlflow_uri) == []
