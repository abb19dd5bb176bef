from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from mucon.errors import InputError
from sweeps.service import lease
from sweeps.service.experiment import SweepInfo
from sweeps.service.shipping import Shipping
from sweeps.service.tracking import Tracker
from sweeps.service.tracking_sweeps import write_sweep
from sweeps.service.tracking_sync import sync
from tests.services import Gate, MLflowServer, PostgreSQL, wait_until
from tests.trial_folders import append_epoch, append_status, finish, identity_of, row_of, write_ablation, write_trial

pytestmark = pytest.mark.service

EXPERIMENT = "mucon"
MASKS = SweepInfo(
    name="ablation_masks",
    title="Mask shapes and overlap",
    command="python sweeps/ablation_masks.py --store stores/tug --seeds 3",
    config={"training": {"epochs": 3}, "store": "stores/tug"},
)


@pytest.fixture
def gate(mlflow_server: MLflowServer) -> Iterator[Gate]:
    between = Gate(int(mlflow_server.uri.rpartition(":")[2]))
    yield between
    between.shut()


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


def test_a_sweep_is_one_parent_with_a_child_for_each_trial(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path / "results")
    with tracker(mlflow_uri, rows) as shipping:
        assert shipping.finish(folders, {}).lines(tmp_path, mlflow_uri) == []
    parent, children = parent_of(mlflow_uri), runs(mlflow_uri)
    assert parent.info.run_name == "ablation_masks"
    assert parent.info.status == "FINISHED"
    assert "Mask shapes and overlap" in parent.data.tags["mlflow.note.content"]
    assert parent.data.tags["trials"] == "6 finished"
    assert {run.data.tags["trial"] for run in children} == {folder.name for folder in folders}
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    names = {
        f"{row_of(shape, overlap)}, seed 1, split 1" for shape in ("box", "bell", "trapezoid") for overlap in (0, 0.1)
    }
    assert {run.info.run_name for run in children} == names


def test_curves_and_scores_arrive_with_the_journals_steps_and_times(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path, epochs=3, seed=2)
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
    run = run_of(mlflow_uri, folder)
    points = client(mlflow_uri).get_metric_history(run.info.run_id, "loss.total")
    (mof,) = client(mlflow_uri).get_metric_history(run.info.run_id, "full.mof")
    assert (mof.step, mof.timestamp) == (0, points[-1].timestamp)
    assert [(point.step, point.timestamp) for point in points] == [
        (step, 1_780_000_000_000 + 1000 * step) for step in (1, 2, 3)
    ]
    assert [point.value for point in points] == pytest.approx([3.02, 1.52, 1.02])
    assert run.data.metrics["full.mof"] == pytest.approx(0.72)
    assert run.data.metrics["frames.edit"] == pytest.approx(0.62)
    assert run.data.metrics["full.iod.undefined"] == 1
    assert not {"full.iod", "full.mof.undefined"} & set(run.data.metrics)
    assert (run.info.start_time, run.info.end_time) == (1_780_000_000_000, 1_780_000_004_000)


def test_parameters_of_two_trials_can_be_compared(tmp_path: Path, mlflow_uri: str) -> None:
    long = ["a class of actions with a long name"] * 40
    configs = [{"model": {"actions": [*long, last]}} for last in ("x", "y")]
    folders = [write_trial(tmp_path, seed=seed, config=config) for seed, config in enumerate(configs, 1)]
    folders.append(write_trial(tmp_path, shape="bell", overlap=0.1, config=configs[0]))
    with tracker(mlflow_uri) as shipping:
        shipping.ship(folders)
    first, second, bell = (run_of(mlflow_uri, folder).data.params for folder in folders)
    assert (first["mask.shape"], bell["mask.shape"]) == ("box", "bell")
    assert (first["mask.overlap"], bell["mask.overlap"]) == ("0.0", "0.1")
    assert first["training.betas"] == "[0.9, 0.999]"
    assert (first["seed"], first["split"], first["method"], first["data"]) == ("1", "1", "mucon", "tug")
    assert max(len(value) for value in first.values()) == 500
    assert first["model.actions"] == bell["model.actions"] != second["model.actions"]


def test_a_metric_with_an_at_sign_is_renamed_and_the_sweep_goes_on(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path, extra={"F1@10": 0.5, "F1_at_10": 0.25, "acc (%)": 3.0, "../up": 1.0})
    with tracker(mlflow_uri) as shipping:
        assert shipping.ship([folder]).pending == {}
    metrics = run_of(mlflow_uri, folder).data.metrics
    twin = f"F1_at_10-{hashlib.sha256(b'F1@10').hexdigest()[:12]}"
    assert (metrics["F1_at_10"], metrics[twin], metrics["acc ___"], metrics["up"]) == (0.25, 0.5, 3.0, 1.0)
    assert not [name for name in metrics if "@" in name]


def test_values_that_are_not_finite_are_counted_and_not_sent(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path, extra={"a": float("nan"), "b": float("inf")})
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
    metrics = run_of(mlflow_uri, folder).data.metrics
    assert metrics["not_finite"] == 2
    assert not {"a", "b"} & set(metrics)


@pytest.mark.parametrize(
    ("status", "shown"), [("finished", "FINISHED"), ("failed", "FAILED"), ("stopped", "KILLED"), ("diverged", "FAILED")]
)
def test_a_trial_that_ended_is_shown_as_ended_with_its_reason(
    tmp_path: Path, mlflow_uri: str, status: str, shown: str
) -> None:
    folder = write_trial(tmp_path, status=status, reason="loss.mutual of video-7 at step 31")
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
    run = run_of(mlflow_uri, folder)
    assert (run.info.status, run.data.tags["state"], run.info.end_time) == (shown, status, 1_780_000_004_000)
    assert run.data.tags.get("reason") == (None if status == "finished" else "loss.mutual of video-7 at step 31")


def test_a_trial_whose_process_is_gone_is_shown_as_killed_and_as_running_again_when_it_goes_on(
    tmp_path: Path, mlflow_uri: str
) -> None:
    folder = write_trial(tmp_path, status="running", epochs=2)
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
        lost = run_of(mlflow_uri, folder)
        assert (lost.info.status, lost.data.tags["state"]) == ("KILLED", "lost")
        assert "without a word" in lost.data.tags["reason"]
        held = lease.acquire(folder)
        assert held is not None
        with held:
            append_status(folder, "running", 1_780_000_009_000)
            append_epoch(folder, 3)
            shipping.ship([folder])
            again = run_of(mlflow_uri, folder)
            assert (again.info.status, again.data.tags["reason"]) == ("RUNNING", "")
            assert len(client(mlflow_uri).get_metric_history(again.info.run_id, "loss.total")) == 3
        finish(folder, epochs=8)
        shipping.ship([folder])
    run = run_of(mlflow_uri, folder)
    assert (run.info.status, run.info.end_time) == ("FINISHED", 1_780_000_009_000)


def test_a_finished_run_keeps_checkpoint_configuration_and_predictions(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path / "results")
    table = tmp_path / "table.md"
    table.write_text("| mask | MoF |\n|---|---|\n| box | 71.0 ± 0.8 |\n")
    with tracker(mlflow_uri) as shipping:
        shipping.finish([folder], {"table": table})
    run, parent = run_of(mlflow_uri, folder), parent_of(mlflow_uri)
    assert artifacts_of(mlflow_uri, run.info.run_id) == {
        "checkpoint/config.json",
        "checkpoint/weights.safetensors",
        "config.json",
        "predictions/frames.json",
        "predictions/full.json",
        "predictions/segments.json",
        "result.json",
    }
    config = client(mlflow_uri).download_artifacts(run.info.run_id, "config.json", str(tmp_path))
    assert json.loads(Path(config).read_text())["mask"] == {"shape": "box", "overlap": 0.0}
    assert artifacts_of(mlflow_uri, parent.info.run_id) == {"sweep.json", "tables/table.md"}
    assert "71.0 ± 0.8" in parent.data.tags["mlflow.note.content"]


def test_the_recordings_are_an_input_of_each_run(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path)
    with tracker(mlflow_uri, rows) as shipping:
        shipping.ship(folders)
    for folder in folders:
        (item,) = run_of(mlflow_uri, folder).inputs.dataset_inputs
        assert (item.dataset.name, item.dataset.digest) == ("tug, split 1", "0123456789abcdef0123456789abcdef0123")
        assert json.loads(item.dataset.source) == {"uri": "/data/stores/tug"}
        assert json.loads(item.dataset.profile)["fingerprint"] == "0123456789abcdef" * 4
        assert [(tag.key, tag.value) for tag in item.tags] == [("mlflow.data.context", "training")]


def test_shipping_again_changes_nothing(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path / "results")
    with tracker(mlflow_uri, rows) as shipping:
        shipping.finish(folders, {})
        before = everything(mlflow_uri)
        shipping.finish(folders, {})
    with tracker(mlflow_uri, rows) as shipping:
        shipping.finish(folders, {})
    assert everything(mlflow_uri) == before
    assert len(before) == 6
    parent_of(mlflow_uri)


def test_more_records_than_a_server_takes_at_once_arrive_whole(tmp_path: Path, mlflow_uri: str) -> None:
    many = {f"option {i:03d}": i for i in range(230)}
    folder = write_trial(tmp_path, epochs=90, extra={f"metric {i:02d}": float(i) for i in range(25)}, config=many)
    with tracker(mlflow_uri) as shipping:
        assert shipping.ship([folder]).pending == {}
    run = run_of(mlflow_uri, folder)
    history = client(mlflow_uri).get_metric_history(run.info.run_id, "metric 24")
    assert [point.step for point in history] == list(range(1, 91))
    assert sum(name.startswith("option") for name in run.data.params) == 230


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
        "import sys, json; from pathlib import Path; from sweeps.service.experiment import SweepInfo\n"
        "from sweeps.service.tracking import Tracker\n"
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


def test_another_sweep_marks_the_trials_that_it_uses(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path)
    other = SweepInfo(name="seeds_and_splits", title="Seeds", command="python sweeps/seeds_and_splits.py", config={})
    with tracker(mlflow_uri, rows) as shipping:
        shipping.finish(folders, {})
    with tracker(mlflow_uri, {folders[0].name: "default"}, other) as shipping:
        shipping.finish(folders[:1], {})
    run = run_of(mlflow_uri, folders[0])
    assert run.data.tags["sweep.ablation_masks"] == "box, 0 %"
    assert run.data.tags["sweep.seeds_and_splits"] == "default"
    assert run.data.tags["mlflow.parentRunId"] == parent_of(mlflow_uri).info.run_id
    assert run.info.run_name == "box, 0 %, seed 1, split 1"
    assert len(runs(mlflow_uri, "tags.`sweep.seeds_and_splits` LIKE '%'")) == 1
    assert len(runs(mlflow_uri)) == 6


def test_two_runs_of_one_trial_become_one(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path)
    with tracker(mlflow_uri) as shipping:
        experiment = client(mlflow_uri).get_experiment_by_name(EXPERIMENT).experiment_id
        for _ in range(2):  # as two shippers at once, or a request that was sent again, make them
            client(mlflow_uri).create_run(experiment, tags={"trial": folder.name, "trained_by": MASKS.name})
        shipping.ship([folder])
    assert run_of(mlflow_uri, folder).info.status == "FINISHED"


def test_runs_that_were_deleted_are_made_anew(tmp_path: Path, mlflow_uri: str) -> None:
    results = tmp_path / "results"
    folders, rows = write_ablation(results)
    lonely = write_trial(results, seed=77)
    (write_sweep(results, MASKS, EXPERIMENT, rows) / "table.md").write_text("| mask |\n|---|\n| box |\n")
    assert {name: shipment.complete for name, shipment in sync(results, mlflow_uri).items()} == {
        "ablation_masks": True,
        "other_trials": True,
    }
    before = everything(mlflow_uri)
    assert lonely.name in before
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


def test_a_deleted_experiment_comes_back(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path)
    with tracker(mlflow_uri, rows) as shipping:
        shipping.finish(folders, {})
        before = everything(mlflow_uri)
    server = client(mlflow_uri)
    server.delete_experiment(server.get_experiment_by_name(EXPERIMENT).experiment_id)
    with tracker(mlflow_uri, rows) as shipping:
        assert shipping.finish(folders, {}).complete
    assert everything(mlflow_uri) == before


def test_a_run_that_is_deleted_while_its_trial_runs_is_made_anew(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path, status="running", epochs=2)
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
        client(mlflow_uri).delete_run(run_of(mlflow_uri, folder).info.run_id)
        append_epoch(folder, 3)
        finish(folder)
        assert shipping.ship([folder]).pending == {}
    run = run_of(mlflow_uri, folder)
    assert run.info.status == "FINISHED"
    assert len(client(mlflow_uri).get_metric_history(run.info.run_id, "loss.total")) == 3


def test_results_can_be_moved_and_shown_elsewhere(
    tmp_path: Path, mlflow_uri: str, new_mlflow_uri: Callable[[Path], str]
) -> None:
    folders, rows = write_ablation(tmp_path / "results")
    write_sweep(tmp_path / "results", MASKS, EXPERIMENT, rows)
    with tracker(mlflow_uri, rows) as shipping:
        shipping.finish(folders, {})
    shutil.copytree(tmp_path / "results", tmp_path / "moved")
    elsewhere = new_mlflow_uri(tmp_path / "elsewhere")
    sync(tmp_path / "moved", elsewhere)
    assert everything(elsewhere) == everything(mlflow_uri)


def test_a_damaged_folder_does_not_keep_the_others_back(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path)
    (folders[2] / "trial.json").write_text('{"format_version": 99}')
    with tracker(mlflow_uri, rows) as shipping:
        shipment = shipping.finish(folders, {})
    assert len(shipment.shipped) == 5
    assert list(shipment.pending) == [folders[2].name]
    assert "format version" in shipment.pending[folders[2].name]
    lines = shipment.lines("results", mlflow_uri)
    assert lines[-1] == f"later: mucon-sweeps sync results --tracking-uri {mlflow_uri}"
    assert lines[-2].startswith("1 trial ")
    assert len(runs(mlflow_uri)) == 5


def test_a_sweep_that_is_not_finished_is_shown_as_killed(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path)
    with tracker(mlflow_uri, rows) as shipping:
        shipping.ship(folders[:2])
    assert parent_of(mlflow_uri).info.status == "KILLED"
    with tracker(mlflow_uri, rows) as shipping:
        assert parent_of(mlflow_uri).info.status == "RUNNING"
        shipping.finish(folders, {})
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
        "import sys; from sweeps.service import shipping, tracking, tracking_sync\n"
        "from sweeps.service.experiment import SweepInfo\n"
        "sweep = SweepInfo(name='n', title='t', command='c', config={})\n"
        f"tracking.Tracker('sqlite:///{tmp_path}/a.db', 'e', sweep)\n"
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
    wait_until(lambda: _finished(mlflow_server.uri, sweep) == {first.name}, 120, "the first shipment")
    gate.shut()
    write_trial(results, seed=2)
    time.sleep(3)  # shipments that fail
    gate.open()
    wait_until(lambda: _finished(mlflow_server.uri, sweep) == {first.name, second.name}, 120, "the next shipment")
    write_trial(results, seed=3)
    assert shipping.finish({}).complete
    assert _finished(mlflow_server.uri, sweep) == {first.name, second.name, third.name}
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
    assert _finished(mlflow_server.uri, sweep) == {folder.name for folder in folders}


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
    assert _finished(mlflow_server.uri, sweep) == {folder.name for folder in folders}


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


def _finished(uri: str, sweep: SweepInfo) -> set[str]:
    found = runs(uri, f"tags.`sweep.{sweep.name}` LIKE '%' AND attributes.status = 'FINISHED'")
    return {run.data.tags["trial"] for run in found}
