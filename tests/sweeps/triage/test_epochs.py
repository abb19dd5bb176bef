"""`mucon-sweeps early-stop` on sweeps with chosen accuracies and scores."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from sweeps.service.cli import main
from sweeps.service.plan.plan import FILE, Plan
from sweeps.service.spec.columns import MOF, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.triage.epochs import arms
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.helpers.refusals import refused

EPOCHS = (1, 2, 4, 8)
MOF_AFTER = {"plain": (0.5, 0.8, 0.7, 0.6), "best": (0.5, 0.6, 0.7, 0.9)}
UNKNOWN = ("best, 4", "1", 2)


def planted(folder: Path, name: str = "planted", **options: object) -> Plan:
    """Two arms with four epochs each, of which the last one is the whole training."""
    rows = [
        Variant(labels=(arm, str(epoch)), settings={} if epoch == 8 else {"training.stop_after": epoch})
        for arm in MOF_AFTER
        for epoch in EPOCHS
    ]
    experiment = Experiment(
        name=name, title="Planted", label_titles=("Arm", "Epochs"), variants=tuple(rows), columns=(MOF,)
    )

    def mof(row: str, split: str, seed: int, prediction: str) -> float:
        arm, epoch = row.split(", ")
        return MOF_AFTER[arm][EPOCHS.index(int(epoch))] - (0 if prediction == "full" else 0.2) - seed / 100

    plan = make_sweep(folder, experiment, mof, n_seeds=2, **options)
    part = plan.parts[0]
    settings = {row.labels: {"mask.shape": row.labels[0], **row.settings} for row in rows}
    plan = dataclasses.replace(plan, parts=(dataclasses.replace(part, settings=settings),))
    plan.write()
    for cell in part.cells:
        epoch = int(cell.variant.labels[1])
        path = ResultsFolder.at(folder).trial(cell.identity).journal_path
        with Journal(path) as journal:
            for n in [one for one in EPOCHS if one <= epoch]:
                value = MOF_AFTER[cell.variant.labels[0]][EPOCHS.index(n)]
                journal.epoch(n, {"loss.total": value, "progress.label_free.agreement": value})
    return plan


def early_stop(folder: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(None, ["early-stop", "planted", "--results", str(folder), *words]) == 0
    return capsys.readouterr().out


def test_each_arm_has_its_scores_and_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    planted(tmp_path)
    plain, best = json.loads(early_stop(tmp_path, "--json", capsys=capsys))["arms"]
    assert (plain["arm"], best["arm"]) == ("planted: plain", "planted: best")
    assert plain["scores"]["agreement"]["over_epochs"] == [1, 1]
    assert plain["scores"]["loss.total"]["over_epochs"] == [-1, -1]
    assert plain["scores"]["agreement"]["at_epoch"] == pytest.approx([0.79, 0.78])
    assert plain["scores"]["epoch"]["at_epoch"] == pytest.approx([0.59, 0.58])
    assert [point["epoch"] for point in best["points"]] == [*EPOCHS, *EPOCHS]
    text = early_stop(tmp_path, capsys=capsys)
    assert "78.5±0.7" in text


def test_frames_are_another_prediction(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    planted(tmp_path)
    plain, _ = json.loads(early_stop(tmp_path, "--json", "--prediction", "frames", capsys=capsys))["arms"]
    assert plain["points"][0]["value"] == pytest.approx(0.29)


def test_the_epoch_of_another_sweep_is_that_of_its_own_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    planted(tmp_path)
    line = ("--epoch-of", "planted", "--json")
    assert [arm["epoch"] for arm in json.loads(early_stop(tmp_path, *line, capsys=capsys))["arms"]] == [2, 8]


def test_an_arm_that_the_other_sweep_lacks_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    other = dataclasses.replace(planted(tmp_path), name="other")
    other.write()
    path = other.folder / FILE
    path.write_text(path.read_text().replace('"best"', '"better"'))
    said = early_stop(tmp_path, "--epoch-of", "other", capsys=capsys)
    (line,) = (line for line in said.splitlines() if line.startswith("sweep other"))
    assert "'planted: best'" in line
    assert "epoch 2 of the other" in said


def test_a_training_without_all_its_epochs_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    planted(tmp_path, unfinished={UNKNOWN: Unfinished("FAILED", "no memory")})
    plain, best = json.loads(early_stop(tmp_path, "--json", capsys=capsys))["arms"]
    assert (plain["left_out"], best["left_out"]) == (0, 1)
    assert {point["seed"] for point in best["points"]} == {1}


def test_trainings_with_as_many_but_other_epochs_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    planted(tmp_path, unfinished={cell: Unfinished("FAILED", "no memory") for cell in (UNKNOWN, ("best, 8", "1", 1))})
    _, best = json.loads(early_stop(tmp_path, "--json", capsys=capsys))["arms"]
    assert best["left_out"] == 1
    assert len(best["points"]) == 3


def test_a_sweep_without_such_rows_is_refused(tmp_path: Path):
    experiment = Experiment(
        name="planted",
        title="Planted",
        label_titles=("Row",),
        variants=(Variant(labels=("a",)), Variant(labels=("b",))),
    )
    make_sweep(tmp_path, experiment, lambda *_: 0.5, n_seeds=1)
    with refused("missing", "planted", "full", n=1):
        arms(ResultsFolder.at(tmp_path), "planted", "full")
