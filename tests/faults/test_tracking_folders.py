"""Results folders that share a server, are copied or moved, or left runs behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mucon.errors import EXIT_OK
from sweeps.service.cli import main
from sweeps.service.plan.sweep_folder import SweepInfo, hold
from sweeps.service.track import trial_runs
from sweeps.service.track.tracker import Tracker
from sweeps.service.trials import lease
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.writer import writer_of
from tests.helpers.planted_tracking import INFO, NAME, plant, points, process, statuses
from tests.helpers.tracked import EXPERIMENT, client
from tests.helpers.trial_folders import (
    append_epoch,
    evaluate_later,
    finish,
    write_trial,
)

pytestmark = pytest.mark.service


@pytest.mark.repeated(ci=1, soak=20)
def test_two_results_folders_on_one_server_send_each_epoch_once(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder sends, the other one waits for it, takes over what it leaves, and repeats nothing."""
    monkeypatch.setattr(trial_runs, "CLAIM_SECONDS", 0.0)
    names = ("here", "there")
    folders = {name: write_trial(tmp_path / name, status="running", epochs=2) for name in names}
    held = {name: lease.acquire(folders[name].path) for name in names}
    identity = folders["here"].identity
    trackers = {name: Tracker(mlflow_uri, EXPERIMENT, INFO, results=ResultsFolder(tmp_path / name)) for name in names}
    for name in names:
        trackers[name].open()
    here, there = (lambda name=name: trackers[name].ship([folders[name]]) for name in names)  # type: ignore[misc]
    assert here().complete
    assert there().elsewhere == (identity,)
    for name in names:
        append_epoch(folders[name], 3, seed=1 + (name == "there"))
    assert there().elsewhere == (identity,)
    assert here().complete
    assert points(mlflow_uri)[identity, "train/loss/total"] == 3
    append_epoch(folders["there"], 4)
    monkeypatch.setattr(trial_runs, "SILENT_SECONDS", -1.0)  # "here" is silent for long
    assert there().complete
    monkeypatch.setattr(trial_runs, "SILENT_SECONDS", 60.0)
    monkeypatch.setattr(trial_runs, "BEAT_SECONDS", -1.0)  # "here" has slept for longer than the time between two signs
    append_epoch(folders["here"], 4)
    append_epoch(folders["here"], 5)
    assert here().elsewhere == (identity,)
    for name in names:
        one = held[name]
        assert one is not None
        finish(folders[name], epochs=5)
        one.release()
    append_epoch(folders["there"], 5)
    assert there().complete
    assert here().complete
    for name in names:
        evaluate_later(folders[name], "b" * 16, "alignment", {}, 0.9)
        assert trackers[name].finish([folders[name]], {}).complete
    assert points(mlflow_uri)[identity, "train/loss/total"] == 5
    assert points(mlflow_uri, "final_test/alignment")[identity, "final_test/alignment/full/mof"] == 1
    assert statuses(mlflow_uri) == {identity: "FINISHED"}


def test_a_copied_results_folder_has_another_name_on_the_server(tmp_path: Path) -> None:
    first = ResultsFolder(tmp_path / "first")
    name = writer_of(first)
    assert writer_of(first) == name
    shutil.copytree(first.path, tmp_path / "copy")
    assert writer_of(ResultsFolder(tmp_path / "copy")) not in ("", name)
    first.path.rename(tmp_path / "moved")
    assert writer_of(ResultsFolder(tmp_path / "moved")) == name


def test_runs_that_a_dead_sweep_left_running_are_ended_by_the_next_sweep_of_the_folder(
    tmp_path: Path, mlflow_uri: str
) -> None:
    results = ResultsFolder(tmp_path / "results")
    dead, alive = (write_trial(results.path, seed=seed, status="running", epochs=1) for seed in (1, 2))
    held = {folder: lease.acquire(folder.path) for folder in (dead, alive)}
    other = SweepInfo(name="other", title="t", command="c", config={})
    tracker = Tracker(mlflow_uri, EXPERIMENT, other, results=results)
    tracker.open()
    assert tracker.ship([dead, alive]).complete
    assert set(statuses(mlflow_uri).values()) == {"RUNNING"}
    gone = held[dead]
    assert gone is not None
    gone.release()
    with hold(results, "other"):  # its own process ends the run of a trial that has ended
        Tracker(mlflow_uri, EXPERIMENT, replace(INFO, name="third"), results=results).open()
        assert statuses(mlflow_uri) == dict.fromkeys((dead.identity, alive.identity), "RUNNING")
        Tracker(mlflow_uri, EXPERIMENT, other, results=results).open()
        assert statuses(mlflow_uri) == {dead.identity: "KILLED", alive.identity: "RUNNING"}
    Tracker(mlflow_uri, EXPERIMENT, INFO, results=results).open()
    assert statuses(mlflow_uri) == {dead.identity: "KILLED", alive.identity: "RUNNING"}
    assert statuses(mlflow_uri, "sweep") == {"other": "KILLED", "third": "KILLED", NAME: "RUNNING"}


def test_artifacts_follow_a_results_folder_that_was_moved(
    tmp_path: Path, new_mlflow_uri: Callable[[Path], str]
) -> None:
    old, new = (ResultsFolder(tmp_path / name) for name in ("old", "new"))
    plant(old.path, seeds=1)
    new_mlflow_uri(old.path)
    assert process(old.path, old.tracking_uri).returncode == EXIT_OK
    old.path.rename(new.path)
    write_trial(new.path, seed=2)
    assert main(None, ["sync", str(new.path)]) == EXIT_OK
    assert not old.path.exists()
    server = client(new.tracking_uri)
    places = {
        run.info.artifact_uri for run in server.search_runs([server.get_experiment_by_name(EXPERIMENT).experiment_id])
    }
    assert len(places) == 4
    assert all(Path(place).is_relative_to(new.path / "mlartifacts") and Path(place).exists() for place in places)
