"""What stops a shipment holds up nothing and loses nothing: kills, frozen servers, locked databases, many writers."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mucon.errors import EXIT_OK, EXIT_PARTIAL
from sweeps.service.cli import main
from sweeps.service.plan.sweep_folder import SweepInfo, read_links
from sweeps.service.track import shipping, trial_runs
from sweeps.service.track.compare import compare
from sweeps.service.track.shipping import Shipping
from sweeps.service.track.sync import sync
from sweeps.service.track.tracked import is_tracked
from sweeps.service.track.tracker import Tracker
from sweeps.service.trials import lease
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_tracking import INFO, NAME, again, plant, points, process, rows, statuses
from tests.helpers.services import MLflowServer, PostgreSQL, free_port, wait_until
from tests.helpers.tracked import EXPERIMENT
from tests.helpers.trial_folders import (
    append_epoch,
    evaluate_later,
    finish,
    identity_of,
    write_trial,
)

pytestmark = pytest.mark.service


@pytest.mark.repeated(ci=1, soak=20)
@pytest.mark.parametrize(
    "moment", ["sweeps.tracking.created:2", "sweeps.tracking.batch:3", "sweeps.tracking.artifact:9"]
)
def test_the_same_command_completes_a_shipment_that_was_killed(tmp_path: Path, mlflow_uri: str, moment: str) -> None:
    plan = plant(tmp_path / "results")
    killed = process(plan.results.path, mlflow_uri, MUCON_FAILPOINT=f"{moment}:kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not is_tracked(plan.tracked, mlflow_uri)
    assert again(plan.results.path, mlflow_uri) == EXIT_OK
    assert statuses(mlflow_uri) == dict.fromkeys(plan.rows, "FINISHED")
    assert statuses(mlflow_uri, "sweep") == {NAME: "FINISHED"}
    assert set(points(mlflow_uri).values()) == {3}
    assert compare(plan.results, mlflow_uri) == []


def test_the_record_of_what_was_shipped_where_decides_what_is_sent(
    tmp_path: Path, mlflow_uri: str, new_mlflow_uri: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plant(tmp_path / "results")
    path = plan.results.path
    assert again(path, mlflow_uri) == EXIT_OK
    sent: list[str] = []
    update = trial_runs.TrialRuns.update

    def counted(self: trial_runs.TrialRuns, record: Any, reading: Any) -> None:
        sent.append(record.identity)
        update(self, record, reading)

    monkeypatch.setattr(trial_runs.TrialRuns, "update", counted)
    assert is_tracked(plan.tracked, mlflow_uri)
    assert again(path, mlflow_uri) == EXIT_OK
    assert sent == []
    evaluate_later(plan.tracked.folders[1], "b" * 16, "alignment", {}, 0.9)
    assert not is_tracked(plan.tracked, mlflow_uri)
    assert again(path, mlflow_uri) == EXIT_OK
    assert sent == [plan.tracked.folders[1].identity]
    assert points(mlflow_uri, "final_test/alignment/full/mof") == {(sent[0], "final_test/alignment/full/mof"): 1}
    other = new_mlflow_uri(tmp_path / "other")
    assert not is_tracked(plan.tracked, other)
    assert again(path, other) == EXIT_OK
    assert statuses(other) == dict.fromkeys(plan.rows, "FINISHED")
    assert is_tracked(plan.tracked, mlflow_uri)
    Path(mlflow_uri.removeprefix("sqlite:///")).unlink()
    assert not is_tracked(plan.tracked, mlflow_uri)


def test_without_tracking_mlflow_is_not_imported_and_sync_ships_it_later(tmp_path: Path, mlflow_uri: str) -> None:
    plan = plant(tmp_path / "results")
    (plan.results.sweep(NAME) / "sweep.json").unlink(missing_ok=True)
    assert main(None, ["sync", str(plan.results.path), "--tracking-uri", mlflow_uri, "--check"]) == EXIT_PARTIAL
    off = process(plan.results.path)
    assert (off.returncode, off.stdout.splitlines()[-1]) == (EXIT_OK, "False"), off.stderr
    assert "MLflow" not in (plan.folder / f"{NAME}.html").read_text()
    assert read_links(plan.folder).sweep is None
    assert again(plan.results.path, None) == EXIT_OK
    assert main(None, ["sync", str(plan.results.path), "--tracking-uri", mlflow_uri]) == EXIT_OK
    assert statuses(mlflow_uri, "sweep") == {NAME: "FINISHED"}


def test_a_comparison_names_each_difference_and_changes_nothing(
    tmp_path: Path, mlflow_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plant(tmp_path / "results", seeds=5)
    words = ["sync", str(plan.results.path), "--tracking-uri", mlflow_uri]
    first, second, third, fourth, _ = (folder.identity for folder in plan.tracked.folders)
    assert again(plan.results.path, mlflow_uri) == EXIT_OK
    assert main(None, [*words, "--check"]) == EXIT_OK
    database = mlflow_uri.removeprefix("sqlite:///")
    with sqlite3.connect(database) as connection:

        def of(trial: str) -> str:
            query = "select run_uuid from tags where key = 'trial' and value = ?"
            return str(connection.execute(query, (trial,)).fetchone()[0])

        connection.execute(
            "delete from metrics where run_uuid = ? and key = 'train/loss/total' and step > 1", (of(first),)
        )
        connection.execute("update runs set status = 'RUNNING' where run_uuid = ?", (of(second),))
        connection.execute("update runs set lifecycle_stage = 'deleted' where run_uuid = ?", (of(third),))
        connection.execute(
            "update tags set value = ? where run_uuid = ? and key = 'weights_sha256'", ("0" * 64, of(fourth))
        )
    tables = ("metrics", "tags", "runs", "params", "experiments")
    before = [rows(mlflow_uri, f"select * from {table}") for table in tables]
    capsys.readouterr()
    assert main(None, [*words, "--check", "--json"]) == EXIT_PARTIAL
    found = json.loads(capsys.readouterr().out)
    assert {(one["place"], one["kind"]) for one in found["differences"]} == {
        (first, "epochs"),
        (second, "status"),
        (third, "runs"),
        (fourth, "weights"),
    }
    assert not found["equal"]
    assert [rows(mlflow_uri, f"select * from {table}") for table in tables] == before
    assert len(compare(plan.results, f"sqlite:///{tmp_path}/nothing.db")) == 6
    assert not (tmp_path / "nothing.db").exists()


@pytest.mark.repeated(ci=1, soak=20)
def test_a_frozen_server_holds_up_neither_the_end_nor_the_exit_and_gets_the_rest_later(
    tmp_path: Path, mlflow_server: MLflowServer, postgresql: PostgreSQL
) -> None:
    """The server is stopped with SIGSTOP while a run is open, and continues only after the process has ended."""
    name = f"frozen_{free_port()}"
    results = tmp_path / "results"
    first = write_trial(results, seed=41)
    second = TrialFolder(results / "trials" / identity_of("box", 0.0, 42))
    program = (
        "import sys; from pathlib import Path; from sweeps.service.plan.sweep_folder import SweepInfo\n"
        "from sweeps.service.track import shipping; from sweeps.service.track.tracker import Tracker\n"
        "from sweeps.service.trials.folder import TrialFolder\n"
        "uri, name, *paths = sys.argv[1:]; folders = [TrialFolder(Path(path)) for path in paths]\n"
        "shipping.END_SECONDS, shipping.NOTICE_SECONDS, shipping.SHIP_SECONDS = 3.0, 1.0, 0.2\n"
        f"tracker = Tracker(uri, {EXPERIMENT!r}, SweepInfo(name=name, title='t', command='c', config={{}}))\n"
        "ships = shipping.Shipping(tracker, folders, lambda line: print('told', line, flush=True))\n"
        "sys.stdin.readline(); print(ships.links() is None, list(ships.finish({}).pending))"
    )
    words = [sys.executable, "-c", program, mlflow_server.uri, name, str(first.path), str(second.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as ships:
        assert ships.stdin is not None
        assert ships.stdout is not None
        wait_until(lambda: statuses(postgresql.uri).get(first.identity) == "FINISHED", 120, "the first shipment")
        os.killpg(mlflow_server.process.pid, signal.SIGSTOP)
        try:
            write_trial(results, seed=42)
            assert ships.stdout.readline().startswith("told")
            output, _ = ships.communicate("go on\n", timeout=60)
        finally:
            os.killpg(mlflow_server.process.pid, signal.SIGCONT)
    assert output.startswith("True ")
    assert second.identity in output
    assert sync(ResultsFolder(results), mlflow_server.uri)["other_trials"].complete
    assert statuses(postgresql.uri)[second.identity] == "FINISHED"
    assert {points(postgresql.uri)[one.identity, "train/loss/total"] for one in (first, second)} == {3}


@pytest.mark.repeated(ci=1, soak=20)
def test_a_locked_database_is_told_once_and_has_everything_once_it_is_free(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "SHIP_SECONDS", 0.1)
    folders = [
        write_trial(tmp_path / "results", seed=1),
        TrialFolder(tmp_path / "results/trials" / identity_of("box", 0.0, 2)),
    ]
    told: list[str] = []
    ships = Shipping(Tracker(mlflow_uri, EXPERIMENT, INFO), folders, told.append)
    wait_until(lambda: statuses(mlflow_uri).get(folders[0].identity) == "FINISHED", 120, "the first shipment")
    with sqlite3.connect(mlflow_uri.removeprefix("sqlite:///"), check_same_thread=False) as database:
        database.execute("begin exclusive")
        with monkeypatch.context() as patch:  # a free database may be slow to answer, too
            patch.setattr(shipping, "NOTICE_SECONDS", 0.5)
            write_trial(tmp_path / "results", seed=2)
            wait_until(lambda: len(told) == 1, 60, "the notice of the lock")
        database.rollback()
    wait_until(lambda: len(told) == 2, 60, "the notice of the end of the lock")
    assert ships.finish({}).complete
    assert len(told) == 2
    assert statuses(mlflow_uri) == dict.fromkeys((folder.identity for folder in folders), "FINISHED")
    assert set(points(mlflow_uri).values()) == {3}


@pytest.mark.repeated(ci=1, soak=20)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_eight_trials_that_log_each_epoch_at_once_lose_nothing(
    tmp_path: Path,
    mlflow_uri: str,
    postgresql: PostgreSQL,
    kind: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shipping, "SHIP_SECONDS", 0.05)
    if kind == "postgresql":
        request.getfixturevalue("mlflow_server")  # makes the tables
    uri = mlflow_uri if kind == "sqlite" else postgresql.uri
    results = ResultsFolder(tmp_path / "results")
    folders = [write_trial(results.path, seed=seed, status="running", epochs=0) for seed in range(51, 59)]
    held = [lease.acquire(folder.path) for folder in folders]
    info = SweepInfo(name=f"eight_{kind}", title="t", command="c", config={})
    ships = Shipping(Tracker(uri, info.name, info, results=results), folders)  # the server has its own artifacts

    def train(folder: TrialFolder) -> None:
        for step in range(1, 21):
            append_epoch(folder, step)
            time.sleep(0.1)
        finish(folder, epochs=20)

    threads = [threading.Thread(target=train, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in held:
        assert one is not None
        one.release()
    assert ships.finish({}).complete
    mine = {folder.identity for folder in folders}
    assert {trial: status for trial, status in statuses(uri).items() if trial in mine} == dict.fromkeys(
        mine, "FINISHED"
    )
    counted = {key: times for key, times in points(uri).items() if key[0] in mine}
    assert set(counted.values()) == {20}
    assert len(counted) == 8 * 3
