"""A sweep on the validation part from its plan to its exported model: no annotation of a test recording is read."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest
from rich.console import Console

from mucon.cli import main as mucon_main
from mucon.config import TrainConfig
from mucon.export.folder import RECORD
from mucon.identity.checksums import CARD
from storage import open_store
from storage.held_out import HeldOut, held_out
from sweeps.service.cli import main
from sweeps.service.plan.plan import Plan, make_plan, read_plan
from sweeps.service.report.report import present, write_report
from sweeps.service.run.budget.limits import Budget
from sweeps.service.run.estimate import dry_run
from sweeps.service.run.preflight import space_needed
from sweeps.service.run.resources import place_trials
from sweeps.service.run.worker import run_trial
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.tables.best import command_lines
from sweeps.service.tables.standing import Standing
from sweeps.service.track.content.records import read_record
from sweeps.service.triage.failures import Failure
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial, by_training
from tests.helpers.annotations import reads_of_labels
from tests.sweeps import small

EXPERIMENT = Experiment(
    name="chosen",
    title="Two rows",
    label_titles=("Row",),
    variants=(
        Variant(labels=("default",)),
        Variant(labels=("facts",), settings={"decoding.transcripts": "training", "training.labelled": 0.5}),
    ),
    figure=Figure(kind="segmentations", n_recordings=1),
)


def planned(store: Path, results: Path) -> tuple[Plan, dict[str, Trial]]:
    return make_plan(
        EXPERIMENT,
        store=store,
        base=lambda *_: TrainConfig(),
        settings={**small.TINY, "training.epochs": 2},
        seeds=(1,),
        splits=("all",),
        results=ResultsFolder.at(results),
        part="validation",
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, set[str], HeldOut, Path]:
    """A sweep that has run in this process, the recordings whose labels were read, and the model that it chose."""
    folder = tmp_path_factory.mktemp("validation")
    store = small.make_store(folder / "store", n_train=10, groups=5)
    console = Console(file=io.StringIO(), width=200)
    with reads_of_labels() as read:
        plan, trials = planned(store, folder / "results")
        placement = place_trials("cpu", "1", "0")
        assert dry_run(plan, trials, placement, Budget(), frozenset(), None, console) == 0
        assert space_needed([group[0] for group in by_training(trials.values())], 1)[0] > 0
        plan.write()
        for trial in trials.values():
            assert run_trial(trial, plan.results, device="cpu").state is State.FINISHED
        standing = Standing.of(read_plan(plan.results, plan.name))
        write_report(standing)
        present(standing, console)
        model = folder / "model"
        assert main(None, ["export", plan.name, "--results", str(plan.results.path), "--out", str(model)]) == 0
        assert main(None, ["report", plan.name, "--results", str(plan.results.path)]) == 0
        again = read_plan(plan.results, plan.name)
        for line in command_lines(Standing.of(again)):
            if line.strip().startswith("evaluate:"):
                assert mucon_main([*shlex.split(line.partition(":")[2])[1:], "--device", "cpu"]) == 0
    return again, read, held_out(open_store(store), "1"), model


def test_no_test_label_is_read_before_during_or_after_the_trainings(whole) -> None:
    plan, read, held, _ = whole
    assert read == {*held.validation, *held.rest}
    assert not read & set(open_store(plan.store).split("1", "test"))


def test_the_rest_is_trained_the_validation_part_is_scored_and_both_are_recorded(whole) -> None:
    plan, _, held, _ = whole
    for cell in plan.cells:
        reading = plan.results.reading(cell.identity)
        result = reading.result(cell.evaluation)
        assert result is not None
        assert [row["id"] for row in result["per_video"]] == list(held.validation)
        trained = json.loads((reading.folder.checkpoint_path / "data.json").read_text())
        assert list(trained["recordings"]) == list(held.rest)
        assert (reading.trial["part"], reading.trial["data"]["validation"]) == ("validation", list(held.validation))
        record = read_record(reading)
        assert record is not None
        assert record.tags["part"] == "validation"
        names = [point.name for point in record.scores]
        assert "final_validation/full/mof" in names
        assert not [name for name in names if name.startswith("final_test/")]


def test_the_exported_model_says_where_it_was_chosen(whole) -> None:
    plan, _, _, model = whole
    record = json.loads((model / RECORD).read_text())
    assert {one["part"] for one in record["scores"]} == {"validation"}
    card = (model / CARD).read_text()
    assert plan.splits["1"].held_out in card
    assert "validation part of split 1" in card
    assert "test part of split" not in card


def test_a_worker_that_would_hold_out_other_recordings_does_not_train(whole, tmp_path, monkeypatch) -> None:
    """As with another version of the program on another machine."""
    plan, trials = planned(Path(whole[0].store), tmp_path)
    monkeypatch.setattr("storage.held_out.ONE_OF", 2)
    trial = next(iter(trials.values()))
    assert run_trial(trial, plan.results, device="cpu").state is State.FAILED
    reading = plan.results.reading(trial.identity)
    assert not reading.is_trained
    assert reading.last_status is not None
    failure = Failure.recorded(reading.last_status)
    assert failure is not None
    assert failure.rule == "mismatch"
