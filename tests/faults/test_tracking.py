"""Faults of tracking servers: what is no server is refused, what stops answering holds up nothing, nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from rich.console import Console

from mucon.errors import EXIT_OK, EXIT_PARTIAL
from sweeps.service.cli import main
from sweeps.service.driver import Options, run_plan
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan, read_plan
from sweeps.service.plan.sweep_folder import SweepInfo, read_links
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.track import probe, shipping, trial_runs
from sweeps.service.track.compare import compare
from sweeps.service.track.shipping import Shipping
from sweeps.service.track.sync import sync
from sweeps.service.track.tracked import is_tracked
from sweeps.service.track.tracker import Tracker
from sweeps.service.trials import lease
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.writer import writer_of
from tests.helpers.planted_sweeps import result_of, split_data
from tests.helpers.refusals import refused
from tests.helpers.services import MLflowServer, PostgreSQL, free_port, wait_until
from tests.helpers.tracked import EXPERIMENT, client
from tests.helpers.trial_folders import (
    EVALUATION,
    append_epoch,
    evaluate_later,
    finish,
    identity_of,
    write_trial,
)

pytestmark = pytest.mark.service

NAME = "planted"
INFO = SweepInfo(name=NAME, title="Planted", command="python x.py", config={})
PROGRAM = (
    "import sys; from pathlib import Path; from rich.console import Console\n"
    "from sweeps.service.driver import Options, run_plan; from sweeps.service.plan.plan import read_plan\n"
    "from sweeps.service.plan.sweep_folder import SweepInfo\n"
    "from sweeps.service.trials.results_folder import ResultsFolder\n"
    "path, uri = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None\n"
    f"info = SweepInfo(name={NAME!r}, title='Planted', command='c', config={{}})\n"
    "options = Options(device='cpu', cpus='1', gpus='0', checkpoint_seconds=0, tracking_uri=uri, info=info)\n"
    f"status = run_plan(read_plan(ResultsFolder.at(path), {NAME!r}), {{}}, options, Console(width=160))\n"
    "print('mlflow' in sys.modules); sys.exit(status)"
)


def plant(path: Path, seeds: int = 3) -> Plan:
    """A results folder with the plan of a sweep whose trials are finished and were never shipped."""
    row = Variant(labels=("box",))
    cells = []
    for seed in range(1, seeds + 1):
        folder = write_trial(path, seed=seed)
        cell = Cell(variant=row, split="1", seed=seed, identity=folder.identity, evaluation=EVALUATION)
        weights = {"weights_sha256": hashlib.sha256(folder.identity.encode()).hexdigest()}
        folder.result_path(EVALUATION).write_text(json.dumps(result_of(cell, {"full": 0.7}, 3, True) | weights))
        cells.append(cell)
    experiment = Experiment(name=NAME, title="Planted", label_titles=("Row",), variants=(row,))
    plan = Plan(
        name=NAME,
        title="Planted",
        parts=(Part(experiment=experiment, cells=tuple(cells), pooling=16),),
        splits={"1": split_data(3)},
        results=ResultsFolder.at(path),
        store="/data/stores/planted",
    )
    plan.write()
    return plan


def again(path: Path, uri: str | None) -> int:
    """The command of the sweep, given again."""
    options = Options(device="cpu", cpus="1", gpus="0", checkpoint_seconds=0, tracking_uri=uri, info=INFO)
    return run_plan(read_plan(ResultsFolder.at(path), NAME), {}, options, Console(width=160))


def process(path: Path, *uri: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), *uri],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def rows(uri: str, query: str) -> list[Any]:
    engine = sqlalchemy.create_engine(uri, poolclass=sqlalchemy.pool.NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sqlalchemy.text(query))]


def statuses(uri: str, tag: str = "trial") -> dict[str, str]:
    """Value of a tag -> status, of the runs that were not deleted; a value of two runs fails the test."""
    found = rows(
        uri,
        "select tags.value, status from runs join tags using (run_uuid)"
        f" where key = '{tag}' and lifecycle_stage = 'active'",
    )
    assert len(dict(found)) == len(found), found
    return dict(found)


def points(uri: str, prefix: str = "train/") -> Counter[tuple[str, str]]:
    """(trial, metric) -> number of values; a step that was sent twice fails the test."""
    found = rows(
        uri,
        "select tags.value, metrics.key, step from metrics join tags on metrics.run_uuid = tags.run_uuid"
        " join runs on runs.run_uuid = tags.run_uuid where tags.key = 'trial' and lifecycle_stage = 'active'",
    )
    assert [row for row, times in Counter(found).items() if times > 1] == []
    return Counter((trial, key) for trial, key, _ in found if key.startswith(prefix))


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """The address of a listener that answers every connection with some bytes, or never."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            held.append(connection)
            if answer is not None:
                connection.recv(65536)
                connection.sendall(answer)
                connection.close()

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    for end in (listener, *held):
        end.close()


def http_answer(status: str, body: str) -> bytes:
    return f"HTTP/1.0 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (http_answer("200 OK", "<html>a page</html>"), "type"),
        (http_answer("404 Not Found", '{"detail": "Not Found"}'), "type"),
        (http_answer("500 Internal", '{"error_code": "INTERNAL_ERROR", "message": "no database"}'), "unreachable"),
        (b"\x15\x03\x01\x00\x02\x02\x50", "unreachable"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "unreachable"),
        (b"", "unreachable"),
        (None, "unreachable"),
    ],
)
def test_what_is_no_mlflow_server_is_refused(answer: bytes | None, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_SECONDS", 1.0)
    with answering(answer) as uri, refused(rule, place="--tracking-uri", value=uri, n=1):
        probe.probe(uri, EXPERIMENT)


def test_a_server_that_asks_for_a_login_is_left_to_mlflows_client_and_refused_by_it() -> None:
    with answering(http_answer("401 Unauthorized", "You are not authenticated")) as uri:
        assert not probe.probe(uri, EXPERIMENT)
        with refused("unreachable", place="--tracking-uri", value=uri, n=1):
            Tracker(uri, EXPERIMENT, INFO).check()


def test_a_database_that_is_missing_or_locked_or_of_another_program_is_refused(
    tmp_path: Path,
    postgresql: PostgreSQL,
    mlflow_server: MLflowServer,
    mlflow_uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "PROBE_SECONDS", 2.0)
    for uri in (mlflow_server.uri, postgresql.uri, mlflow_uri, f"sqlite:///{tmp_path}/new.db"):
        assert probe.probe(uri, EXPERIMENT)
    assert not (tmp_path / "new.db").exists()
    missing = postgresql.uri.replace("/mlflow", "/nothing")
    with refused("unreachable", place="--tracking-uri", value=missing, n=1):
        probe.probe(missing, EXPERIMENT)
    with refused("missing", place="--tracking-uri", n=1):
        probe.probe("mysql://u@127.0.0.1/mlflow", EXPERIMENT)
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("create table songs (title)")
    with refused("type", place="--tracking-uri", n=1):
        probe.probe(f"sqlite:///{tmp_path}/other.db", EXPERIMENT)
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.execute("begin exclusive")
        with refused("unreachable", place="--tracking-uri", value=mlflow_uri, n=1):
            probe.probe(mlflow_uri, EXPERIMENT)


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
    evaluate_later(plan.folders[1], "b" * 16, "alignment", {}, 0.9)
    assert not is_tracked(plan.tracked, mlflow_uri)
    assert again(path, mlflow_uri) == EXIT_OK
    assert sent == [plan.folders[1].identity]
    assert points(mlflow_uri, "test/alignment/full/mof") == {(sent[0], "test/alignment/full/mof"): 1}
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
    first, second, third, fourth, _ = (folder.identity for folder in plan.folders)
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


def test_a_locked_database_is_told_once_and_has_everything_once_it_is_free(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "NOTICE_SECONDS", 0.5)
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
        write_trial(tmp_path / "results", seed=2)
        wait_until(lambda: len(told) == 1, 60, "the notice of the lock")
        database.rollback()
    wait_until(lambda: len(told) == 2, 60, "the notice of the end of the lock")
    assert ships.finish({}).complete
    assert len(told) == 2
    assert statuses(mlflow_uri) == dict.fromkeys((folder.identity for folder in folders), "FINISHED")
    assert set(points(mlflow_uri).values()) == {3}


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
    assert points(mlflow_uri, "test/alignment")[identity, "test/alignment/full/mof"] == 1
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
    Tracker(mlflow_uri, EXPERIMENT, INFO, results=results).open()
    assert statuses(mlflow_uri) == {dead.identity: "KILLED", alive.identity: "RUNNING"}
    assert statuses(mlflow_uri, "sweep") == {"other": "KILLED", NAME: "RUNNING"}


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
