"""Kills in the middle of `merge` and `rm`, which the same command completes; real sweeps with `retry` and `--keep`."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from pathlib import Path

import pytest

from mucon.checkpoint_files import OPTIMISER
from storage import failpoints
from sweeps.service.cli import main
from sweeps.service.plan.sweep_folder import SweepInfo, write_sweep
from sweeps.service.run.worker import run_trial
from sweeps.service.track.compare import registered_trials
from sweeps.service.track.sync import sync
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep.merging import content_of
from tests.helpers.tracked import client, run_of, runs
from tests.helpers.trial_folders import evaluate_later, write_trial
from tests.sweeps import small

KILLED = -signal.SIGKILL


def attempt(words: list[str], failpoint: str) -> int | None:
    """The exit status of a command in a process of its own that dies at a failpoint."""

    def run() -> None:
        os.environ[failpoints.VARIABLE] = failpoint
        os._exit(main(arguments=words))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(120)
    return process.exitcode


def record(results: Path, name: str, *trials: str) -> None:
    info = SweepInfo(name=name, title=name, command="", config={})
    write_sweep(ResultsFolder(results), info, "mucon", dict.fromkeys(trials, "row"))


def content(results: Path) -> dict[str, bytes]:
    """What a results folder contains, without leases, and without the times of a merge."""
    found = {}
    for path in results.rglob("*"):
        if path.is_file() and not path.name.startswith("lease-"):
            lines = path.read_bytes().splitlines()
            found[str(path.relative_to(results))] = b"\n".join(line for line in lines if b'"kind": "merge"' not in line)
    return found


def plant(there: Path, here: Path) -> None:
    """A new trial, one that replaces an unfinished one, a further evaluation, other bits, and a sweep of all."""
    folders = [write_trial(there, shape=shape, overlap=overlap) for shape in ("box", "bell") for overlap in (0.0, 0.1)]
    write_trial(here, shape="box", overlap=0.1, epochs=1, status="stopped")
    write_trial(here, shape="bell", overlap=0.0)
    evaluate_later(folders[2], "f" * 16, "alignment", {}, 0.5)
    other = write_trial(here, shape="bell", overlap=0.1)
    training = json.loads(other.training_path.read_text())
    other.training_path.write_text(json.dumps({**training, "weights_sha256": "1" * 64}))
    record(there, "one", *(folder.identity for folder in folders))


def test_a_merge_that_is_killed_at_any_moment_is_completed_by_the_same_command(tmp_path: Path) -> None:
    plant(tmp_path / "there", tmp_path / "undisturbed")
    assert main(arguments=["merge", str(tmp_path / "there"), "--into", str(tmp_path / "undisturbed")]) == 3
    source, expected = content(tmp_path / "there"), content(tmp_path / "undisturbed")
    moments = [f"sweeps.upkeep.copied:{n}:kill" for n in range(1, 6)] + [
        f"sweeps.upkeep.moved:{n}:kill" for n in (1, 2)
    ]
    moments.append("sweeps.upkeep.extended:1:kill")
    for moment in moments:
        here = tmp_path / moment
        plant(tmp_path / f"unused {moment}", here)
        line = ["merge", str(tmp_path / "there"), "--into", str(here)]
        assert attempt(line, moment) == KILLED, moment
        for folder in ResultsFolder(here).trials():
            assert content_of(folder) is not None, "every trial is whole at any time"
        assert main(arguments=line) == 3
        assert content(here) == expected, moment
        told = [records for records in small.journals(here).values() if any(r["kind"] == "merge" for r in records)]
        assert len(told) == 1, "a further evaluation is always followed by a comparison with the tracking server"
    assert content(tmp_path / "there") == source


def test_a_removal_that_is_killed_at_any_moment_is_completed_by_the_same_command(tmp_path: Path) -> None:
    for name, last in (("removing", 3), ("removed", 2)):
        for n in range(1, last + 1):
            results = tmp_path / f"{name}{n}"
            own = [write_trial(results, shape=shape).identity for shape in ("box", "bell")]
            shared = write_trial(results, shape="trapezoid")
            record(results, "one", *own, shared.identity)
            record(results, "two", shared.identity)
            before = content(shared.path)
            line = ["rm", "one", "--results", str(results), "--yes"]
            assert attempt(line, f"sweeps.upkeep.{name}:{n}:kill") == KILLED
            assert main(arguments=line) == 0
            assert [folder.identity for folder in ResultsFolder(results).trials()] == [shared.identity]
            assert content(shared.path) == before
            assert not list((results / "trash").glob("*"))
            assert [path.name for path in (results / "sweeps").iterdir()] == ["two"]
            assert main(arguments=line) == 2, "there is no such sweep any more"


def test_a_merged_folder_is_shipped_once_and_registered_trials_stay(mlflow_uri: str, tmp_path: Path) -> None:
    here, there = ResultsFolder(tmp_path / "here"), ResultsFolder(tmp_path / "there")
    both, other = write_trial(here.path), write_trial(there.path, shape="bell")
    write_trial(there.path)
    record(here.path, "one", both.identity)
    record(there.path, "two", both.identity, other.identity)
    for results in (here, there):
        assert all(shipment.complete for shipment in sync(results, mlflow_uri).values())
    assert main(arguments=["merge", str(there.path), "--into", str(here.path)]) == 0
    for _ in range(2):
        assert all(shipment.complete for shipment in sync(here, mlflow_uri).values())
    assert sorted(run.data.tags["trial"] for run in runs(mlflow_uri)) == sorted([both.identity, other.identity])
    for folder in (both, other):
        history = client(mlflow_uri).get_metric_history(run_of(mlflow_uri, folder).info.run_id, "train/loss/total")
        assert [point.step for point in history] == [1, 2, 3]

    server, run = client(mlflow_uri), run_of(mlflow_uri, other)
    server.create_registered_model("segmenter")
    server.create_model_version("segmenter", f"{run.info.artifact_uri}/model", run.info.run_id)
    assert registered_trials(here, mlflow_uri) == {other.identity}
    line = ["rm", "two", "--results", str(here.path), "--tracking-uri", mlflow_uri, "--yes"]
    assert main(arguments=line) == 0
    assert {folder.identity for folder in here.trials()} == {both.identity, other.identity}
    gc = ["gc", "--orphans", "--results", str(here.path), "--tracking-uri"]
    assert main(arguments=[*gc, "http://127.0.0.1:9"]) == 2, "what is registered is not known"
    assert main(arguments=[*gc, mlflow_uri]) == 0
    assert other.path.exists()


@pytest.mark.service
def test_a_failure_is_left_alone_and_retry_finishes_it_and_keep_reduces_the_others(
    tiny_store: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    adam = {"training.optimiser": "adam", "training.learning_rate": 0.001}
    rows = {shape: {"mask.shape": shape, **adam} for shape in ("box", "bell")}
    line = small.command(small.own_script(tmp_path, "retried", rows), tiny_store, results, "--keep", "1")
    line += ["--max-concurrent", "1"]
    failed = small.run(line, MUCON_FAILPOINT="training.epoch:2:raise")
    assert failed.returncode == 3
    said = small.statuses(results)
    assert ["running", "failed"] in said.values()  # a worker that trains both trials fails once
    again = small.run(line)
    assert again.returncode == 3
    assert small.statuses(results) == said, "the same code would fail again"
    command = f"mucon-sweeps retry retried --results {results}"
    assert command in again.stdout
    retried = small.run([sys.executable, "-m", "sweeps", *command.split()[1:]])
    assert (retried.returncode, retried.stderr) == (0, "")
    resumed = ["running", "failed", "missing", "running", "finished"]
    assert all(now in (resumed, ["running", "finished"]) for now in small.statuses(results).values())
    assert list(small.epochs(results).values()) == [[1, 2, 3]] * 2
    assert len(list(results.glob(f"trials/*/run/checkpoint/{OPTIMISER}"))) == 1
    trial = small.make_trial(tiny_store, mask__shape="bell", training__optimiser="adam", training__learning_rate=0.001)
    assert run_trial(trial, ResultsFolder(tmp_path / "alone"), device="cpu").state is State.FINISHED
    assert small.weights(tmp_path / "alone").items() <= small.weights(results).items()
