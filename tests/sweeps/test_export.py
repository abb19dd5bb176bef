"""`mucon-sweeps export` on a sweep that has run: the chosen trial, its scores, and what is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import mucon
from mucon.config import TrainConfig
from mucon.export import folder as exported
from mucon.identity.checksums import CARD
from mucon.library import load_predictor
from mucon.videos import videos_of
from storage import open_store
from sweeps.service.cli import main
from sweeps.service.plan.plan import make_plan, read_plan
from sweeps.service.run.worker import run_trial
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.chosen import chosen
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.folder import State
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.exported import changed, frame_log_probs
from tests.helpers.refusals import refused
from tests.sweeps import small
from tests.sweeps.conftest import Finished


@pytest.fixture(scope="module")
def standing(finished_sweep: Finished) -> Standing:
    return Standing.of(read_plan(ResultsFolder.at(finished_sweep.results), "ablation_masks"))


def test_the_best_trial_is_exported_with_its_scores(
    finished_sweep: Finished, standing: Standing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    target = tmp_path / "model"
    line = ["export", "ablation_masks", "--best", "full.mof", "--results", str(finished_sweep.results)]
    assert main(None, [*line, "--out", str(target)]) == 0
    best = max(standing.plan.cells, key=lambda cell: standing.results[cell.key].value("full", "mof") or 0)
    folder = standing.plan.results.trial(best.identity)
    result = TrialReading(folder).result(best.evaluation)
    assert result is not None
    record = json.loads((target / exported.RECORD).read_text())
    assert record["members"] == [
        {"run": best.identity, "seed": 1, "weights_sha256": record["members"][0]["weights_sha256"]}
    ]
    assert load_predictor(target).weights_sha256() == TrialReading(folder).training["weights_sha256"]
    scores = {(one["prediction"], one["metric"]): one for one in record["scores"]}
    for prediction, values in result["scores"].items():
        assert scores[prediction, "mof"]["value"] == values["mof"]
    one = scores["full", "mof"]
    assert (one["runs"], one["over_seeds"]) == ([best.identity], None)
    assert one["over_recordings"]["low"] <= one["over_recordings"]["mean"] <= one["over_recordings"]["high"]
    card = (target / CARD).read_text()
    assert best.variant.name in card
    assert best.identity in card
    assert mucon.load(target, "cpu").predictor.trained_on is not None
    changed(target / "config.json")
    with refused("damaged", "config.json"):
        mucon.load(target, "cpu")


def test_the_command_that_a_sweep_prints_exports_its_best_trial(finished_sweep: Finished, tmp_path: Path):
    (text,) = [line for line in finished_sweep.ran.stdout.splitlines() if line.strip().startswith("export:")]
    words = shlex.split(text.partition(":")[2])
    assert main(None, [*words[1:-1], str(tmp_path / "model")]) == 0
    exported.check(tmp_path / "model")


def test_a_row_is_chosen_by_its_name_and_metrics_in_which_less_is_better_by_their_minimum(standing: Standing):
    row = standing.plan.cells[2].variant.name
    found = chosen(standing, "full.mof", "1", row=row)
    assert ({cell.variant.name for cell in found.cells}, found.n_compared) == ({row}, 1)
    least = chosen(standing, "full.training_seconds", "1").cells[0]
    values = [standing.results[cell.key].value("full", "training_seconds") for cell in standing.plan.cells]
    assert standing.results[least.key].value("full", "training_seconds") == min(value for value in values if value)


@pytest.mark.parametrize(
    ("choice", "rule", "place"),
    [
        ({"metric": "full.mov"}, "unknown", "metric"),
        ({"metric": "mof"}, "unknown", "prediction"),
        ({"split": "7"}, "unknown", "--split"),
        ({"row": "no such row"}, "unknown", "--row"),
        ({"table": "no such table"}, "unknown", "--table"),
    ],
)
def test_unknown_names_are_refused(standing: Standing, choice: dict[str, str], rule: str, place: str):
    choice = {"metric": "full.mof", "split": "1", **choice}
    with refused(rule, place):
        chosen(standing, **choice)


def test_the_seeds_of_a_row_are_exported_as_the_mean_of_their_log_probabilities(tiny_store: Path, tmp_path: Path):
    results = ResultsFolder.at(tmp_path / "results")
    rows = tuple(
        Variant(labels=(name,), settings={"loss.smoothing": value}) for name, value in (("a", 0.1), ("b", 9.0))
    )
    plan, trials = make_plan(
        Experiment(name="two", title="Two rows", label_titles=("Row",), variants=rows),
        store=tiny_store,
        base=lambda *_: TrainConfig(),
        settings=small.TINY,
        seeds=(1, 2, 3),
        splits=("1",),
        results=results,
    )
    plan.write()
    of_a = [cell for cell in plan.cells if cell.variant.name == "a"]
    for cell in of_a:
        assert run_trial(trials[cell.key], results, device="cpu").state is State.FINISHED
    line = ["export", "two", "--ensemble", "--results", str(results.path), "--out", str(tmp_path / "model")]
    assert main(None, line) == 0
    record = json.loads((tmp_path / "model" / exported.RECORD).read_text())
    assert {one["run"] for one in record["members"]} == {cell.identity for cell in of_a}
    members = [load_predictor(results.trial(one["run"]).path, "cpu") for one in record["members"]]
    model = mucon.load(tmp_path / "model", "cpu")
    right = []
    for video in videos_of(open_store(tiny_store), "1", "test"):
        features = video.features()
        mean = sum(frame_log_probs(member, features) for member in members) / len(members)
        labels = model.predict(features, "frames").labels
        assert list(labels) == [model.actions[i] for i in mean.argmax(dim=1)]
        right += [label == model.actions[i] for label, i in zip(labels, video.frame_labels(), strict=True)]
    scores = {(one["prediction"], one["metric"]): one for one in record["scores"]}
    mof = scores["frames", "mof"]
    assert mof["value"] == pytest.approx(sum(right) / len(right))
    assert (mof["over_seeds"]["n"], set(mof["runs"])) == (3, {cell.identity for cell in of_a})


def test_one_seed_makes_no_ensemble(standing: Standing):
    with refused("missing", "--ensemble", 1):
        chosen(standing, "full.mof", "1").trainings(ensemble=True)
