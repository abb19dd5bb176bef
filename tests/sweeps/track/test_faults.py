"""Faults while results are sent: kills, servers and databases that do not respond, wrong addresses."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from sqlalchemy.engine import make_url

from sweeps.service.plan.sweep_folder import SweepInfo, write_sweep
from sweeps.service.track.content.changes import Shipment
from sweeps.service.track.server import artifact_location, checked_uri, exists, ui_command
from sweeps.service.track.shipping import Shipping
from sweeps.service.track.sync import sync
from sweeps.service.track.tracker import Tracker
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.refusals import refused
from tests.helpers.services import Gate, MLflowServer, PostgreSQL, wait_until
from tests.helpers.tracked import (
    EXPERIMENT,
    artifacts_of,
    client,
    everything,
    finished,
    parent_of,
    run_of,
    runs,
    tracker,
)
from tests.helpers.trial_folders import identity_of, write_trial

pytestmark = pytest.mark.service


@pytest.fixture
def gate(mlflow_server: MLflowServer) -> Iterator[Gate]:
    between = Gate(int(mlflow_server.uri.rpartition(":")[2]))
    yield between
    between.shut()


@pytest.mark.parametrize(
    ("moment", "count"),
    [("sweeps.tracking.created", 2), ("sweeps.tracking.batch", 2), ("sweeps.tracking.artifact", 5)],
)
def test_after_a_kill_the_next_shipment_leaves_no_duplicates_and_nothing_missing(
    tmp_path: Path, mlflow_uri: str, new_mlflow_uri: Callable[[Path], str], moment: str, count: int
) -> None:
    folders = [write_trial(tmp_path, seed=seed) for seed in (1, 2, 3)]
    rows = {folder.identity: "box, 0 %" for folder in folders}
    program = (
        "import sys, json; from pathlib import Path; from sweeps.service.plan.sweep_folder import SweepInfo\n"
        "from sweeps.service.track.tracker import Tracker; from sweeps.service.trials.folder import TrialFolder\n"
        "uri, rows, *folders = sys.argv[1:]\n"
        "sweep = SweepInfo(name='ablation_masks', title='Mask shapes and overlap', command='python x.py', config={})\n"
        f"tracker = Tracker(uri, {EXPERIMENT!r}, sweep, json.loads(rows)); tracker.open()\n"
        "tracker.finish([TrialFolder(Path(folder)) for folder in folders], {})\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, mlflow_uri, json.dumps(rows), *(str(folder.path) for folder in folders)],
        env={**os.environ, "MUCON_FAILPOINT": f"{moment}:{count}:kill"},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert 0 < len(runs(mlflow_uri)) < 3
    with tracker(mlflow_uri, rows) as shipping:
        assert shipping.finish(folders, {}).complete
    interrupted = everything(mlflow_uri)
    fresh = new_mlflow_uri(tmp_path / "fresh")
    with tracker(fresh, rows) as shipping:
        shipping.finish(folders, {})
    for content in (interrupted, undisturbed := everything(fresh)):
        for trial in content.values():
            trial["tags"].pop("mlflow.source.name")
    assert interrupted == undisturbed
    assert parent_of(mlflow_uri).info.status == "FINISHED"


@pytest.mark.parametrize(
    ("uri", "rule"),
    [
        ("./mlruns", "unsupported"),
        ("file:///data/mlruns", "unsupported"),
        ("http://127.0.0.1:9", "unreachable"),
        ("postgresql+psycopg2://sweep@127.0.0.1:9/mlflow", "unreachable"),
        ("postgresql+nodriver://sweep@127.0.0.1:9/mlflow", "missing"),
        ("sqlite:///{folder}/notes.txt", "type"),
        ("sqlite:///{folder}/notes.txt/mlflow.db", "unreadable"),
    ],
)
def test_a_wrong_address_is_refused_before_anything_runs(tmp_path: Path, uri: str, rule: str) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but a page of notes")
    uri = uri.format(folder=tmp_path)
    with refused(rule, place="--tracking-uri", value=uri, n=1):
        tracker(uri).open()


@pytest.mark.parametrize(
    ("uri", "checked"),
    [
        ("http://host:5000/", "http://host:5000"),
        ("postgresql://u@host/mlflow", "postgresql+psycopg2://u@host/mlflow"),
        ("mysql://u@host/mlflow", "mysql://u@host/mlflow"),
    ],
)
def test_addresses_take_the_form_of_mlflows_client(uri: str, checked: str) -> None:
    assert checked_uri(uri) == checked


@pytest.mark.parametrize("name", ["plain", "a?b=c", "50%20x", "h#x", "ü '\"&;"])
def test_the_database_of_a_results_folder_lies_in_it_whatever_its_name_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    uri = ResultsFolder(path).tracking_uri
    assert checked_uri(uri) == uri
    assert make_url(uri).database == str(path / "mlflow.db")
    assert not make_url(uri).query
    assert unquote(str(artifact_location(uri))) == str(path / "mlartifacts")
    assert shlex.split(ui_command(uri))[-1] == uri
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert checked_uri(f"{uri}?timeout=5") == f"{uri}?timeout=5"
    assert not exists(uri)
    (path / "mlflow.db").touch()
    assert exists(uri)


@pytest.mark.parametrize("error", [KeyError("trial"), ModuleNotFoundError("pymysql"), SystemExit(1)])
def test_whatever_ends_the_thread_that_ships_is_told_and_no_trial_counts_as_shipped(
    tmp_path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    folders = [write_trial(tmp_path, seed=seed) for seed in (1, 2)]
    ships = tracker(f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setattr(ships, "open", fail)
    shipping = Shipping(ships, folders)
    shipping.links()
    shipment = shipping.finish({})
    assert not shipment.complete
    assert set(shipment.pending) == {folder.identity for folder in folders}
    lines = shipment.lines(tmp_path, ships.uri)
    assert type(error).__name__ in lines[0]
    assert shlex.split(lines[-1].split(": ", 1)[1])[:3] == ["mucon-sweeps", "sync", str(tmp_path)]


def test_a_sweep_that_was_asked_to_stop_leaves_the_rest_to_the_next_command(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [write_trial(tmp_path, seed=seed) for seed in (1, 2)]
    ships, answers = tracker(mlflow_uri), threading.Event()
    connect = ships.open
    monkeypatch.setattr(ships, "open", lambda: answers.wait(60) and connect())  # nothing is sent before the stop
    shipping = Shipping(ships, folders)
    assert shipping.links(until=0.0) is None
    shipment = shipping.finish({}, until=0.0)
    assert shipment.stopped
    assert not shipment.complete
    assert set(shipment.pending) == {folder.identity for folder in folders}
    assert len(shipment.lines(tmp_path, mlflow_uri)) == 2
    assert not Shipment(stopped=True).complete, "the tables of the sweep are missing"
    answers.set()
    shipping.abandon()


def test_mlflow_is_not_imported_before_it_is_needed(tmp_path: Path) -> None:
    program = (
        "import sys; from sweeps.service.track import shipping, sync, tracker\n"
        "from sweeps.service.plan.sweep_folder import SweepInfo\n"
        "sweep = SweepInfo(name='n', title='t', command='c', config={})\n"
        f"tracker.Tracker('sqlite:///{tmp_path}/a.db', 'e', sweep)\n"
        "print('mlflow' in sys.modules, 'ray' in sys.modules)"
    )
    imported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert imported.split() == ["False", "False"]


def test_a_server_that_does_not_respond_for_a_while_has_everything_later(
    tmp_path: Path, mlflow_server: MLflowServer, gate: Gate
) -> None:
    results = tmp_path / "results"
    folders = [TrialFolder(results / "trials" / identity_of("box", 0.0, seed)) for seed in (1, 2, 3)]
    first, second, third = (folder.identity for folder in folders)
    write_trial(results, seed=1)
    sweep = SweepInfo(name="gone_for_a_while", title="t", command="python x.py", config={})
    rows = {folder.identity: "box, 0 %" for folder in folders}
    shipping = Shipping(tracker(gate.uri, rows, sweep), folders[:2])
    wait_until(lambda: finished(mlflow_server.uri, sweep) == {first}, 120, "the first shipment")
    gate.shut()
    write_trial(results, seed=2)
    time.sleep(3)  # shipments that fail
    gate.open()
    wait_until(lambda: finished(mlflow_server.uri, sweep) == {first, second}, 120, "the next shipment")
    shipping.add(folders[2:])
    write_trial(results, seed=3)
    assert shipping.finish({}).complete
    assert finished(mlflow_server.uri, sweep) == {first, second, third}
    assert parent_of(mlflow_server.uri, sweep.name).info.status == "FINISHED"
    assert "predictions/full.json" in artifacts_of(mlflow_server.uri, run_of(mlflow_server.uri, folders[2]).info.run_id)


def test_trials_that_could_not_be_sent_are_reported_and_sent_later(
    tmp_path: Path, mlflow_server: MLflowServer, gate: Gate
) -> None:
    folders = [write_trial(tmp_path, seed=31)]
    sweep = SweepInfo(name="stays_away", title="t", command="python x.py", config={})
    results = ResultsFolder(tmp_path)
    write_sweep(results, sweep, EXPERIMENT, {})
    with tracker(gate.uri, {}, sweep) as shipping:
        shipping.ship(folders)
        gate.shut()
        folders.append(write_trial(tmp_path, seed=32))
        shipment = shipping.finish(folders, {}, patience=0)
    assert shipment.unreachable is not None
    assert list(shipment.pending) == [folders[1].identity]
    lines = shipment.lines(tmp_path, gate.uri)
    assert len(lines) == 3
    assert gate.uri in lines[0]
    assert shipment.unreachable in lines[0]
    assert "1 trial;" in lines[1]
    assert lines[2].split(": ", 1)[1].split() == ["mucon-sweeps", "sync", str(tmp_path), "--tracking-uri", gate.uri]
    write_sweep(results, sweep, EXPERIMENT, {folder.identity: "box, 0 %" for folder in folders})
    assert sync(results, mlflow_server.uri)["stays_away"].complete
    assert finished(mlflow_server.uri, sweep) == {folder.identity for folder in folders}


def test_a_database_that_restarts_under_the_server_loses_nothing(
    tmp_path: Path, mlflow_server: MLflowServer, postgresql: PostgreSQL
) -> None:
    folders = [write_trial(tmp_path, seed=seed) for seed in (11, 12)]
    sweep = SweepInfo(name="database_restarts", title="t", command="python x.py", config={})
    with tracker(mlflow_server.uri, {}, sweep) as shipping:
        assert shipping.ship(folders[:1]).complete
        postgresql.stop()
        try:
            assert shipping.ship(folders).unreachable is not None
        finally:
            postgresql.start()
        assert shipping.finish(folders, {}).complete
    assert finished(mlflow_server.uri, sweep) == {folder.identity for folder in folders}


def test_the_database_is_used_without_a_server_too(
    tmp_path: Path, mlflow_server: MLflowServer, postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # artifacts of a database without a server are stored here
    folder = write_trial(tmp_path, seed=21)
    plain = postgresql.uri.replace("+psycopg2", "")
    sweep = SweepInfo(name="without_server", title="t", command="python x.py", config={})
    with Tracker(plain, "without_server", sweep) as shipping:
        assert shipping.uri == postgresql.uri
        assert shipping.ship([folder]).complete
    server = client(mlflow_server.uri)
    experiment = server.get_experiment_by_name("without_server").experiment_id
    (run,) = server.search_runs([experiment], f"tags.trial = '{folder.identity}'")
    assert run.info.status == "FINISHED"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")
def test_a_user_without_an_entry_in_the_password_database_has_a_number() -> None:
    program = "import os; from sweeps.service.track.content.description import _user; os.setuid(54321); print(_user())"
    kept = {name: value for name, value in os.environ.items() if name not in ("LOGNAME", "USER", "LNAME", "USERNAME")}
    said = subprocess.run([sys.executable, "-c", program], env=kept, capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "54321", said.stderr
