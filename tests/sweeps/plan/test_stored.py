"""Trials under the names that results have for them: precision, settings without effect, earlier identities."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import mucon
from mucon import device as devices
from mucon.config import TrainConfig
from mucon.methods import method_named
from mucon.training import train
from mucon.videos import videos_of, vocabulary_of
from storage import open_store
from sweeps.service.plan.plan import Plan, make_plan
from sweeps.service.run.worker import run_trial
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials.folder import State
from sweeps.service.trials.identity import evaluation_identity, training_identity
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial, by_training
from tests.helpers.refusals import refused
from tests.helpers.trial_folders import append, append_epoch
from tests.sweeps import small

FLOAT32 = {"training.precision": "float32"}
BFLOAT16 = {"training.precision": "bfloat16"}
PUBLISHED = {"mask.overlap_rule": "published"}


def planned(
    store: Path, results: Path, *rows: Mapping[str, Any], settings: Mapping[str, Any] = small.TINY
) -> tuple[Plan, list[Trial]]:
    """A plan of rows with these settings, and the trial of each row."""
    variants = tuple(Variant(labels=(str(index),), settings=row) for index, row in enumerate(rows))
    shape = Experiment(name="shape", title="Shape", label_titles=("Row",), variants=variants)
    plan, trials = make_plan(
        shape,
        store=store,
        base=lambda *_: TrainConfig(),
        settings=settings,
        seeds=[1],
        splits=["1"],
        results=ResultsFolder(results),
    )
    return plan, [trials[cell.key] for cell in plan.parts[0].cells]


def earlier(trial: Trial, **settings: Any) -> str:
    """The identity of an earlier version for these settings."""
    given = {path.replace("__", "."): value for path, value in settings.items()}
    return training_identity(
        {"training.epochs": 3, "backbone.pool_after": [1, 2], **given},
        split="1",
        seed=1,
        fingerprint=trial.data_fingerprint,
        numerics=1,
    )


def write(results: Path, trial: Trial, name: str, evaluation: str = "", precision: str = "float32") -> None:
    """A trained trial under a name, with an evaluation if one is named."""
    folder = ResultsFolder(results).trial(name)
    folder.path.mkdir(parents=True)
    folder.write_trial(trial.to_dict())
    append(folder, {"kind": "environment", "timestamp": 1, "precision": precision})
    append_epoch(folder, 1)
    folder.write_training(weights_sha256="00", train_seconds=1.0)
    if evaluation:
        folder.write_result(evaluation, {"scores": {}, "per_video": [], "weights_sha256": "00", "train_seconds": 1.0})


def test_rows_that_differ_in_settings_without_effect_share_a_training(tiny_store: Path, tmp_path: Path):
    rows = ({}, PUBLISHED, {"training.lr_drop_epoch": 1, "loss.frame": 2.0}, {"loss.frame": 3.0})
    plan, trials = planned(tiny_store, tmp_path, *rows)
    assert len(plan.parts[0].cells) == 4
    assert len(by_training(trials)) == len(plan.cells) == 1
    assert trials[0].identity == earlier(trials[0])
    _, others = planned(tiny_store, tmp_path, {}, {"mask.overlap": 0.1}, {"mask.overlap": 0.1, **PUBLISHED})
    assert len(by_training(others)) == 3


def test_epochs_of_the_command_line_win_over_a_published_schedule(tiny_store: Path, tmp_path: Path):
    rows = ({"training.schedule": "published"}, {"training.optimiser": "sgd"})
    variants = tuple(Variant(labels=(str(i),), settings=row, method="isba") for i, row in enumerate(rows))
    shape = Experiment(name="shape", title="Shape", label_titles=("Row",), variants=variants)
    for given, epochs in (({}, 2000), ({"training.epochs": "30"}, 30)):
        plan, trials = make_plan(
            shape,
            store=tiny_store,
            base=lambda _, method: method_named(method).config(),
            settings=given,
            seeds=(1,),
            splits=("1",),
            results=ResultsFolder(tmp_path),
        )
        facts = plan.parts[0].facts
        assert [facts[row.labels].schedule for row in variants] == ["published", "passes"]
        assert facts[variants[0].labels].passes == trials[plan.cells[0].key].training.epochs == epochs


def test_rows_with_the_same_settings_are_refused(tiny_store: Path, tmp_path: Path):
    with refused("duplicate", "shape", ("0", "1"), n=1):
        planned(tiny_store, tmp_path, {}, {"mask.shape": "box"})


def test_a_training_of_an_earlier_version_is_found_under_its_name(tiny_store: Path, tmp_path: Path):
    _, (new,) = planned(tiny_store, tmp_path, PUBLISHED)
    old = earlier(new, mask__overlap_rule="published")
    assert old != new.identity
    write(tmp_path, new, old, evaluation_identity({}))
    plan, trials = planned(tiny_store, tmp_path, PUBLISHED, {}, {"loss.frame": 2.0})
    assert [trial.identity for trial in trials] == [old] * 3
    assert {cell.identity for cell in plan.parts[0].cells} == {old}
    assert all(result.is_finished for result in plan.read_results().values())


def test_a_finished_training_wins_over_one_that_has_only_begun(tiny_store: Path, tmp_path: Path):
    _, (new,) = planned(tiny_store, tmp_path, PUBLISHED)
    old = earlier(new, mask__overlap_rule="published")
    write(tmp_path, new, old, evaluation_identity({}))
    ResultsFolder(tmp_path).trial(new.identity).path.mkdir()
    ResultsFolder(tmp_path).trial(new.identity).write_trial(new.to_dict())
    assert planned(tiny_store, tmp_path, PUBLISHED)[1][0].identity == old


def test_an_evaluation_of_an_earlier_version_is_found_under_its_name(tiny_store: Path, tmp_path: Path):
    row = {"decoding.method": "published", "decoding.length_prior": "class"}
    _, (new,) = planned(tiny_store, tmp_path, row)
    old = evaluation_identity(row)
    assert new.evaluation == evaluation_identity({"decoding.method": "published"}) != old
    write(tmp_path, new, new.identity, old)
    _, trials = planned(tiny_store, tmp_path, row, {"decoding.method": "published"})
    assert [trial.evaluation for trial in trials] == [old, new.evaluation]


def test_precisions_are_two_trainings_where_both_are_usable(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    plan, trials = planned(tiny_store, tmp_path, FLOAT32, BFLOAT16)
    assert trials[0].identity == earlier(trials[0])
    assert trials[1].identity == earlier(trials[0], training__precision="bfloat16") != trials[0].identity
    assert not plan.warnings


def test_bfloat16_is_planned_as_float32_where_it_is_not_usable(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: False)
    plan, (trial,) = planned(tiny_store, tmp_path, BFLOAT16)
    assert (trial.training.precision, trial.identity) == ("float32", earlier(trial))
    assert [(one.rule, one.place, one.value) for one in plan.warnings] == [
        ("unsupported", "training.precision", "bfloat16")
    ]
    with refused("duplicate", "shape", ("0", "1"), n=1):
        planned(tiny_store, tmp_path, FLOAT32, BFLOAT16)


def test_a_bfloat16_training_of_an_earlier_version_is_found_and_is_no_float32_result(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    _, (new,) = planned(tiny_store, tmp_path, BFLOAT16)
    write(tmp_path, new, earlier(new), new.evaluation, precision="bfloat16")
    assert planned(tiny_store, tmp_path, BFLOAT16)[1][0].identity == earlier(new)
    with refused("conflict", earlier(new), "bfloat16", n=1):
        planned(tiny_store, tmp_path, FLOAT32)


def test_what_an_earlier_version_asked_in_bfloat16_and_trained_in_float32_is_a_float32_result(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    _, (new,) = planned(tiny_store, tmp_path, BFLOAT16)
    write(tmp_path, new, earlier(new), new.evaluation, precision="float32")
    _, trials = planned(tiny_store, tmp_path, FLOAT32, BFLOAT16)
    assert [trial.identity for trial in trials] == [earlier(new), new.identity]


def test_a_worker_without_the_planned_precision_fails_the_trial(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    _, (trial,) = planned(tiny_store, tmp_path, BFLOAT16)
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: False)
    outcome = run_trial(trial, ResultsFolder(tmp_path), device="cpu")
    assert outcome.state is State.FAILED
    assert "training.precision" in str(outcome.reason)
    assert not ResultsFolder(tmp_path).reading(trial.identity).is_trained


def test_a_new_version_of_the_evaluation_evaluates_again_and_trains_nothing(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    results = ResultsFolder(tmp_path)
    _, (first,) = planned(tiny_store, tmp_path, {})
    assert run_trial(first, results, device="cpu").state is State.FINISHED
    monkeypatch.setattr(mucon, "EVALUATION", 2)
    plan, (second,) = planned(tiny_store, tmp_path, {})
    assert second.identity == first.identity
    assert second.evaluation != first.evaluation
    (result,) = plan.read_results().values()
    assert result.state is State.MISSING
    reading: TrialReading = results.reading(first.identity)
    assert reading.is_trained
    before = small.epochs(tmp_path)
    assert run_trial(second, results, device="cpu").state is State.FINISHED
    assert small.epochs(tmp_path) == before
    after = results.reading(first.identity).results
    assert {name: one["evaluation_version"] for name, one in after.items()} == {
        first.evaluation: 1,
        second.evaluation: 2,
    }


def test_a_warm_start_that_has_seen_test_recordings_is_a_warning_of_the_plan(tiny_store: Path, tmp_path: Path):
    store = open_store(small.make_store(tmp_path / "all", n_train=9, n_test=0))
    config = TrainConfig().with_values({**small.TINY, "training.epochs": 1})
    for name, seen in (("all", ("video_06", "video_07", "video_08")), ("train", ())):
        videos = [video for video in videos_of(store, "1", "train") if seen or video.id < "video_06"]
        train(config, videos, vocabulary_of(store), folder=tmp_path / name, device="cpu")
        start = {"training.warm_start": str(tmp_path / name)}
        plan, _ = planned(tiny_store, tmp_path / "results", start, {**start, "mask.shape": "bell"})
        assert [one.value for one in plan.warnings] == ([seen] if seen else [])
