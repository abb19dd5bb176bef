from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mucon.errors import InputError
from sweeps.service.plan.sweep_folder import SweepInfo, write_sweep
from sweeps.service.track.shipping import Shipping
from sweeps.service.track.sync import sync
from sweeps.service.track.tracker import Tracker
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
def test_a_shipper_that_is_killed_leaves_no_doubles_and_nothing_missing(
    tmp_path: Path, mlflow_uri: str, new_mlflow_uri: Callable[[Path], str], moment: str, count: int
) -> None:
    folders = [write_trial(tmp_path, seed=seed) for seed in (1, 2, 3)]
    rows = {folder.name: "box, 0 %" for folder in folders}
    program = (
        "import sys, json; from pathlib import Path; from sweeps.service.spec.experiment import SweepInfo\n"
        "from sweeps.service.track.tracker import Tracker\n"
        "uri, rows, *folders = sys.argv[1:]\n"
        "sweep = SweepInfo(name='ablation_masks', title='Mask shapes and overlap', command='python x.py', config={})\n"
        f"tracker = Tracker(uri, {EXPERIMENT!r}, sweep, json.loads(rows)); tracker.open()\n"
        "tracker.finish([Path(folder) for folder in folders], {})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, mlflow_uri, json.dumps(rows), *map(str, folders)],
        env={**os.environ, "MUCON_FAILPOINT": f"{moment}:{count}:kill"},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert 0 < len(runs(mlflow_uri)) < 3
    with tracker(mlflow_uri, rows) as shipping:
        assert shipping.finish(folders, {}).complete
    interrupted = everything(mlflow_uri)
    fresh = new_mlflow_uri(tmp_path / "fresh")
    with tracker(fresh, rows) as shipping:
        shipping.finish(folders, {})
    for shown in (interrupted, undisturbed := everything(fresh)):
        for trial in shown.values():
            trial["tags"].pop("mlflow.source.name")
    assert interrupted == undisturbed
    assert parent_of(mlflow_uri).info.status == "FINISHED"


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("./mlruns", "sqlite:///mlflow.db"),
        ("file:///data/mlruns", "sqlite:///mlflow.db"),
        ("http://127.0.0.1:9", "start it, or name another"),
        ("postgresql+psycopg2://sweep@127.0.0.1:9/mlflow", "start it, or name another"),
        ("postgresql+nodriver://sweep@127.0.0.1:9/mlflow", "pip install"),
        ("sqlite:///{folder}/notes.txt", "a file of another kind"),
    ],
)
def test_a_wrong_address_is_told_before_anything_runs(tmp_path: Path, uri: str, said: str) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but a page of notes")
    with pytest.raises(InputError, match=said):
        tracker(uri.format(folder=tmp_path)).open()


def test_mlflow_is_not_imported_before_it_is_needed(tmp_path: Path) -> None:
    program = (
        "import sys; from sweeps.service.track import shipping, sync, tracker\n"
        "from sweeps.service.spec.experiment import SweepInfo\n"
        "sweep = SweepInfo(name='n', title='t', command='c', config={})\n"
        f"tracker.Tracker('sqlite:///{tmp_path}/a.db', 'e', sweep)\n"
        "print('mlflow' in sys.modules, 'ray' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "False"]


def test_a_server_that_is_gone_for_a_while_holds_nothing_up_and_shows_everything_later(
    tmp_path: Path, mlflow_server: MLflowServer, gate: Gate
) -> None:
    results = tmp_path / "results"
    first, second, third = (results / "trials" / identity_of("box", 0.0, seed) for seed in (1, 2, 3))
    write_trial(results, seed=1)
    sweep = SweepInfo(name="gone_for_a_while", title="t", command="python x.py", config={})
    rows = {folder.name: "box, 0 %" for folder in (first, second, third)}
    shipping = Shipping(tracker(gate.uri, rows, sweep), [first, second, third])
    wait_until(lambda: finished(mlflow_server.uri, sweep) == {first.name}, 120, "the first shipment")
    gate.shut()
    write_trial(results, seed=2)
    time.sleep(3)  # shipments that fail
    gate.open()
    wait_until(lambda: finished(mlflow_server.uri, sweep) == {first.name, second.name}, 120, "the next shipment")
    write_trial(results, seed=3)
    assert shipping.finish({}).complete
    assert finished(mlflow_server.uri, sweep) == {first.name, second.name, third.name}
    assert parent_of(mlflow_server.uri, sweep.name).info.status == "FINISHED"
    assert "predictions/full.json" in artifacts_of(mlflow_server.uri, run_of(mlflow_server.uri, third).info.run_id)


def test_what_a_server_that_stays_away_does_not_know_is_told_and_sent_later(
    tmp_path: Path, mlflow_server: MLflowServer, gate: Gate
) -> None:
    folders = [write_trial(tmp_path, seed=31)]
    sweep = SweepInfo(name="stays_away", title="t", command="python x.py", config={})
    write_sweep(tmp_path, sweep, EXPERIMENT, {})
    with tracker(gate.uri, {}, sweep) as shipping:
        shipping.ship(folders)
        gate.shut()
        folders.append(write_trial(tmp_path, seed=32))
        shipment = shipping.finish(folders, {}, patience=0)
    assert shipment.unreachable is not None
    assert list(shipment.pending) == [folders[1].name]
    lines = shipment.lines(tmp_path, gate.uri)
    assert "cannot be reached" in lines[0]
    assert lines[1].startswith("1 trial not yet in MLflow")
    write_sweep(tmp_path, sweep, EXPERIMENT, {folder.name: "box, 0 %" for folder in folders})
    assert sync(tmp_path, mlflow_server.uri)["stays_away"].complete
    assert finished(mlflow_server.uri, sweep) == {folder.name for folder in folders}


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
    assert finished(mlflow_server.uri, sweep) == {folder.name for folder in folders}


def test_the_database_is_used_without_a_server_too(
    tmp_path: Path, mlflow_server: MLflowServer, postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where artifacts of a database without a server are kept
    folder = write_trial(tmp_path, seed=21)
    plain = postgresql.uri.replace("+psycopg2", "")
    sweep = SweepInfo(name="without_server", title="t", command="python x.py", config={})
    with Tracker(plain, "without_server", sweep) as shipping:
        assert shipping.uri == postgresql.uri
        assert shipping.ship([folder]).complete
    server = client(mlflow_server.uri)
    experiment = server.get_experiment_by_name("without_server").experiment_id
    (run,) = server.search_runs([experiment], f"tags.trial = '{folder.name}'")
    assert run.info.status == "FINISHED"
