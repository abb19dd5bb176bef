"""The runs of trials on a real MLflow store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.trials import lease
from sweeps.service.trials.folder import TrialFolder
from tests.helpers.tracked import EXPERIMENT, MASKS, artifacts_of, client, everything, parent_of, run_of, runs, tracker
from tests.helpers.trial_folders import (
    EVALUATION,
    append_epoch,
    append_status,
    evaluate_later,
    finish,
    write_ablation,
    write_trial,
)

pytestmark = pytest.mark.service


def test_a_sweep_is_one_parent_with_a_child_for_each_trial(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path / "results")
    with tracker(mlflow_uri, rows) as shipping:
        assert shipping.finish(folders, {}).lines(tmp_path, mlflow_uri) == []
    parent, children = parent_of(mlflow_uri), runs(mlflow_uri)
    assert parent.info.run_name == "ablation_masks"
    assert parent.info.status == "FINISHED"
    assert "Mask shapes and overlap" in parent.data.tags["mlflow.note.content"]
    assert parent.data.tags["trials"] == "6 finished"
    assert {run.data.tags["trial"] for run in children} == {folder.identity for folder in folders}
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    (found,) = runs(
        mlflow_uri, "tags.data_set = 'tug' AND tags.split = '1' AND tags.seed = '1' AND tags.row = 'bell, 10 %'"
    )
    assert runs(mlflow_uri, f"tags.`sweep.{MASKS.name}` = 'bell, 10 %'")[0].info.run_id == found.info.run_id
    names = {f"s1 {shape} {round(100 * overlap)} %" for shape in ("box", "bell", "trapezoid") for overlap in (0, 0.1)}
    assert {run.info.run_name for run in children} == names


def test_the_last_step_of_a_search_is_a_run_within_that_of_the_search(tmp_path: Path, mlflow_uri: str) -> None:
    search, last = (write_trial(tmp_path, seed=seed) for seed in (1, 2))
    final = replace(MASKS, name="masks_final", within=MASKS.name)
    for sweep, folder in ((MASKS, search), (final, last)):
        with tracker(mlflow_uri, {folder.identity: "box"}, sweep) as shipping:
            shipping.finish([folder], {})
    whole, part = parent_of(mlflow_uri), parent_of(mlflow_uri, final.name)
    assert part.data.tags["mlflow.parentRunId"] == whole.info.run_id
    assert "mlflow.parentRunId" not in whole.data.tags
    assert run_of(mlflow_uri, last).data.tags["mlflow.parentRunId"] == part.info.run_id


def test_a_damaged_or_odd_trial_and_a_run_tagged_by_hand_do_not_keep_the_others_from_the_server(
    tmp_path: Path, mlflow_uri: str
) -> None:
    damaged, odd, whole = (write_trial(tmp_path, seed=seed) for seed in (1, 2, 3))
    damaged.journal_path.write_bytes(bytes(20) + b"\n" + damaged.journal_path.read_bytes())
    content = json.loads(odd.trial_path.read_text())
    odd.trial_path.write_text(json.dumps({name: value for name, value in content.items() if name != "method"}))
    with tracker(mlflow_uri) as shipping:
        server = client(mlflow_uri)
        experiment = server.get_experiment_by_name(EXPERIMENT).experiment_id
        server.create_run(experiment, tags={f"sweep.{MASKS.name}": "by hand"})
    with tracker(mlflow_uri) as shipping:
        shipment = shipping.finish([damaged, odd, whole], {})
    assert not shipment.complete
    assert shipment.shipped == (whole.identity,)
    assert str(damaged.journal_path) in shipment.pending[damaged.identity]
    assert "method" in shipment.pending[odd.identity]


def test_curves_and_scores_arrive_with_the_journals_steps_and_times(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path, epochs=3, seed=2)
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
    run = run_of(mlflow_uri, folder)
    points = client(mlflow_uri).get_metric_history(run.info.run_id, "train/loss/total")
    (mof,) = client(mlflow_uri).get_metric_history(run.info.run_id, "final_test/full/mof")
    assert (mof.step, mof.timestamp) == (0, points[-1].timestamp)
    assert [(point.step, point.timestamp) for point in points] == [
        (step, 1_780_000_000_000 + 1000 * step) for step in (1, 2, 3)
    ]
    assert [point.value for point in points] == pytest.approx([3.02, 1.52, 1.02])
    assert run.data.metrics["final_test/full/mof"] == pytest.approx(0.72)
    assert run.data.metrics["final_test/frames/edit"] == pytest.approx(0.62)
    assert run.data.metrics["final_test/undefined/full.iod"] == 1
    assert not {"final_test/full/iod", "final_test/undefined/full.mof"} & set(run.data.metrics)
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


def test_the_labels_of_a_row_are_parameters_of_the_runs_that_its_sweep_has_trained(
    tmp_path: Path, mlflow_uri: str
) -> None:
    folder, row = write_trial(tmp_path), "box, no"
    labels = {row: {"Shape": "box", "Overlap": "no", "Method": "ours"}}
    masks = replace(MASKS, labels=labels)
    with tracker(mlflow_uri, {folder.identity: row}, masks) as shipping:
        shipping.ship([folder])
    params = run_of(mlflow_uri, folder).data.params
    assert (params["Shape"], params["Overlap"], params["mask.overlap"]) == ("box", "no", "0.0")
    assert sorted(params)[:2] == ["Overlap", "Shape"], "the pages list parameters in this order"
    assert "Method" not in params, "databases that ignore case have one parameter `method`"
    other = SweepInfo(name="other", title="t", command="c", config={}, labels={"r": {"Shape": "other", "Row": "r"}})
    for sweep, its_row in ((other, "r"), (replace(masks, labels={row: {"Shape": "renamed"}}), row)):
        with tracker(mlflow_uri, {folder.identity: its_row}, sweep) as shipping:
            assert shipping.ship([folder]).complete
    assert run_of(mlflow_uri, folder).data.params == params


def test_a_metric_with_an_at_sign_is_renamed(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path, extra={"F1@10": 0.5, "F1_at_10": 0.25, "acc (%)": 3.0, "../up": 1.0})
    with tracker(mlflow_uri) as shipping:
        assert shipping.ship([folder]).pending == {}
    metrics = run_of(mlflow_uri, folder).data.metrics
    twin = f"train/F1_at_10-{hashlib.sha256(b'train/F1@10').hexdigest()[:12]}"
    names = ("train/F1_at_10", twin, "train/acc ___", "train/up")
    assert [metrics[name] for name in names] == [0.25, 0.5, 3.0, 1.0]
    assert not [name for name in metrics if "@" in name]


def test_values_that_are_not_finite_are_counted_and_not_sent(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path, extra={"a": float("nan"), "b": float("inf")})
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
    metrics = run_of(mlflow_uri, folder).data.metrics
    assert metrics["train/not_finite"] == 2
    assert not {"train/a", "train/b"} & set(metrics)


@pytest.mark.parametrize(
    ("status", "on_server"),
    [("finished", "FINISHED"), ("failed", "FAILED"), ("stopped", "KILLED"), ("diverged", "FAILED")],
)
def test_a_trial_that_ended_is_shown_as_ended_with_its_reason(
    tmp_path: Path, mlflow_uri: str, status: str, on_server: str
) -> None:
    folder = write_trial(tmp_path, status=status, reason="no cake")
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
    run = run_of(mlflow_uri, folder)
    assert (run.info.status, run.data.tags["state"], run.info.end_time) == (on_server, status, 1_780_000_004_000)
    assert run.data.tags.get("reason") == (None if status == "finished" else "no cake")


def test_a_trial_whose_process_died_is_shown_as_killed_and_as_running_again_when_it_resumes(
    tmp_path: Path, mlflow_uri: str
) -> None:
    folder = write_trial(tmp_path, status="running", epochs=2)
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
        lost = run_of(mlflow_uri, folder)
        assert (lost.info.status, lost.data.tags["state"]) == ("KILLED", "lost")
        assert {"1", "node-1"} <= set(lost.data.tags["reason"].split()), "process and host"
        held = lease.acquire(folder.path)
        assert held is not None
        with held:
            append_status(folder, "running", 1_780_000_009_000)
            append_epoch(folder, 3)
            shipping.ship([folder])
            again = run_of(mlflow_uri, folder)
            assert (again.info.status, again.data.tags["reason"]) == ("RUNNING", "")
            assert len(client(mlflow_uri).get_metric_history(again.info.run_id, "train/loss/total")) == 3
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
        "training.json",
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
        profile = json.loads(item.dataset.profile)
        assert (profile["fingerprint"], profile["dim"], profile["dtype"]) == ("0123456789abcdef" * 4, 64, "float32")
        (tensor,) = json.loads(json.loads(item.dataset.schema)["mlflow_tensorspec"]["features"])
        assert tensor["tensor-spec"] == {"dtype": "float32", "shape": [-1, 64]}
        (column,) = json.loads(item.dataset.schema)["mlflow_colspec"]
        assert column == {"name": "features [frames, 64]", "type": "float32"}
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
    history = client(mlflow_uri).get_metric_history(run.info.run_id, "train/metric 24")
    assert [point.step for point in history] == list(range(1, 91))
    assert sum(name.startswith("option") for name in run.data.params) == 230


def test_another_sweep_marks_the_trials_that_it_uses(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path)
    other = SweepInfo(name="seeds_and_splits", title="Seeds", command="python sweeps/seeds_and_splits.py", config={})
    with tracker(mlflow_uri, rows) as shipping:
        shipping.finish(folders, {})
    with tracker(mlflow_uri, {folders[0].identity: "default"}, other) as shipping:
        shipping.finish(folders[:1], {})
    run = run_of(mlflow_uri, folders[0])
    assert run.data.tags["sweep.ablation_masks"] == "box, 0 %"
    assert run.data.tags["sweep.seeds_and_splits"] == "default"
    assert run.data.tags["mlflow.parentRunId"] == parent_of(mlflow_uri).info.run_id
    assert run.info.run_name == "s1 box 0 %"
    used_by_other = "tags.`sweep.seeds_and_splits` LIKE '%'"
    assert len(runs(mlflow_uri, used_by_other)) == 1
    assert len(runs(mlflow_uri)) == 6


def test_a_finished_run_stays_finished_while_the_trial_runs_in_another_results_folder(
    tmp_path: Path, mlflow_uri: str
) -> None:
    done = write_trial(tmp_path / "here")
    begun = write_trial(tmp_path / "there", status="running", epochs=1)
    assert begun.identity == done.identity
    for folder in (done, begun):
        with tracker(mlflow_uri) as shipper:
            shipper.ship([folder])
    run = run_of(mlflow_uri, done)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["final_test/full/mof"] == pytest.approx(0.71)


def test_a_damaged_directory_does_not_hold_up_the_others(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path)
    folders[2].trial_path.write_text('{"format_version": 99}')
    with tracker(mlflow_uri, rows) as shipping:
        shipment = shipping.finish(folders, {})
    assert len(shipment.shipped) == 5
    ((identity, reason),) = shipment.pending.items()
    assert identity == folders[2].identity
    assert str(folders[2].trial_path) in reason
    assert "got 99" in reason
    lines = shipment.lines("results", mlflow_uri)
    command = ["mucon-sweeps", "sync", "results", "--tracking-uri", mlflow_uri]
    assert lines[-1].split(": ", 1)[1].split() == command
    assert "1 trial;" in lines[-2]
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


def test_only_the_journal_of_a_shipped_trial_is_looked_at_until_it_grows(
    tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders, rows = write_ablation(tmp_path / "results")
    waiting = TrialFolder(tmp_path / "results" / "trials" / "waiting")
    globbed: list[str] = []
    glob = Path.glob

    def counted(path: Path, pattern: str) -> object:
        globbed.append(f"{path.name} {pattern}")
        return glob(path, pattern)

    with tracker(mlflow_uri, rows) as shipping:
        assert len(shipping.ship([*folders, waiting]).shipped) == 6
        monkeypatch.setattr(Path, "glob", counted)
        assert len(shipping.ship([*folders, waiting]).shipped) == 6
        assert globbed == []
        evaluate_later(folders[0], "b" * 16, "segmentation", {"decoding.beam": 10}, 0.8)
        globbed.clear()
        assert len(shipping.ship([*folders, waiting]).shipped) == 6
        assert {line.split()[0] for line in globbed} == {folders[0].identity}
    assert run_of(mlflow_uri, folders[0]).data.metrics["final_test/beam 10/full/mof"] == 0.8


def test_a_later_evaluation_whose_process_died_behind_its_result_is_shipped(tmp_path: Path, mlflow_uri: str) -> None:
    folder = write_trial(tmp_path)
    with tracker(mlflow_uri) as shipping:
        shipping.ship([folder])
        held = lease.acquire(folder.path)
        assert held is not None
        with held:
            append_status(folder, "running", 1_780_000_009_000)
            shipping.ship([folder])
            folder.write_result(
                "b" * 16,
                {
                    **{"task": "alignment", "choices": {}, "scores": {"full": {"mof": 0.9}}, "train_seconds": 1.0},
                    **{"per_video": [], "weights_sha256": "0" * 64},
                },
            )
            shipping.ship([folder])
            assert "final_test/alignment/full/mof" not in run_of(mlflow_uri, folder).data.metrics
        assert shipping.ship([folder]).complete
    run = run_of(mlflow_uri, folder)
    assert (run.info.status, run.data.tags["shipped_evaluations"]) == ("FINISHED", "b" * 16)
    assert run.data.metrics["final_test/alignment/full/mof"] == 0.9


def test_a_finished_trial_whose_worker_has_not_released_it_yet_counts_as_shipped_at_the_end(
    tmp_path: Path, mlflow_uri: str
) -> None:
    folder = write_trial(tmp_path)
    with tracker(mlflow_uri) as shipping:
        with lease.acquire(folder.path) or pytest.fail("free"):
            assert shipping.ship([folder]).shipped == (folder.identity,)
            assert shipping.settled == {}, "it could still get another evaluation"
        assert shipping.finish([folder], {}).complete
        assert shipping.settled == {folder.identity: folder.journal_path.stat().st_size}


def test_a_trial_of_the_previous_release_is_shipped_like_others(
    tmp_path: Path, mlflow_uri: str, new_mlflow_uri: Callable[[Path], str]
) -> None:
    folder, converted = (write_trial(tmp_path / place) for place in ("format_1", "format_2"))
    folder.result_path(EVALUATION).rename(folder.path / "result.json")
    folder.predictions_path(EVALUATION).rename(folder.path / "predictions")
    folder.training_path.unlink()
    folder.evaluation_path(EVALUATION).rmdir()
    elsewhere = new_mlflow_uri(tmp_path / "elsewhere")
    for uri, one in ((mlflow_uri, folder), (elsewhere, converted)):
        with tracker(uri) as shipping:
            assert shipping.finish([one], {}).complete
    assert {"predictions/full.json", "result.json", "training.json"} <= everything(mlflow_uri)[folder.identity][
        "artifacts"
    ]
    assert everything(mlflow_uri) == everything(elsewhere)
