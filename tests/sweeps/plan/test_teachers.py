"""Rows that train on the predictions of another row: after it, with its seed and split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mucon.checkpoint_files import read
from mucon.config import TrainConfig
from mucon.configuration import DEFAULT_METHOD
from mucon.methods import method_named
from sweeps.service.plan.plan import make_plan
from sweeps.service.run.worker import run_trial
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from sweeps.service.upkeep.uses import read_uses
from tests.helpers.refusals import refused
from tests.sweeps import small

TAUGHT = {"training.labelled": 0.0, "training.labels_from": "row:weak"}
EXPERIMENT = Experiment(
    name="taught",
    title="Taught",
    label_titles=("Method",),
    variants=(
        Variant(labels=("weak",), prediction="full"),
        Variant(labels=("student",), method="frame_mlp", settings=TAUGHT, prediction="frames"),
        Variant(labels=("full",), method="frame_mlp", prediction="frames"),
    ),
)
SETTINGS = {**small.TINY, "training.epochs": 1, "frame_mlp:network.maps": 4}


def planned(
    store: Path, results: Path, *rows: Variant, seeds: tuple[int, ...] = (1, 2)
) -> dict[tuple[str, int], Trial]:
    """Row and seed -> trial."""
    plan, trials = make_plan(
        replace(EXPERIMENT, variants=rows or EXPERIMENT.variants),
        store=store,
        base=lambda _, method: TrainConfig() if method == DEFAULT_METHOD else method_named(method).config(),
        settings=SETTINGS,
        seeds=seeds,
        splits=("1",),
        results=ResultsFolder.at(results),
    )
    plan.write()
    return {(cell.variant.name, cell.seed): trials[cell.key] for cell in plan.cells}


def test_a_row_learns_from_the_trial_of_another_row_with_its_seed(tiny_store: Path, tmp_path: Path) -> None:
    weak, *_ = EXPERIMENT.variants
    results = ResultsFolder.at(tmp_path)
    first, second = planned(tiny_store, tmp_path, weak).values()
    assert run_trial(first, results, device="cpu").state is State.FINISHED
    with refused("missing", "taught: student", "weak", n=1) as refusal:
        planned(tiny_store, tmp_path)
    assert "seed 2" in refusal.problems[0].message
    assert run_trial(second, results, device="cpu").state is State.FINISHED
    trials = planned(tiny_store, tmp_path)
    for seed, teacher in ((1, first), (2, second)):
        student = trials["student", seed]
        assert student.config.to_dict()["training"]["labels_from"] == str(results.trial(teacher.identity).run_path)
        assert student.identity != trials["full", seed].identity
        assert student.data_fingerprint == teacher.data_fingerprint  # no true length is part of its data
    student = trials["student", 1]
    assert run_trial(student, results, device="cpu").state is State.FINISHED
    assert read(results.trial(student.identity).checkpoint_path).trained_on is not None
    uses = read_uses(results)
    assert student.identity in uses.needed_by(first.identity, sweep="taught")
    moved = tmp_path / "elsewhere"
    results.trial(first.identity).run_path.rename(moved)
    alone = Variant(labels=("student",), method="frame_mlp", settings={**TAUGHT, "training.labels_from": str(moved)})
    assert planned(tiny_store, tmp_path, weak, alone, seeds=(1,))["student", 1].identity == student.identity


@pytest.mark.parametrize(
    ("rows", "rule"), [(("other",), "unknown"), (("a", "a"), "conflict"), (("b", "a"), "conflict")]
)
def test_rows_that_name_no_other_row_are_refused(
    tiny_store: Path, tmp_path: Path, rows: tuple[str, ...], rule: str
) -> None:
    variants = [
        Variant(labels=("ab"[place],), method="frame_mlp", settings={**TAUGHT, "training.labels_from": f"row:{name}"})
        for place, name in enumerate(rows)
    ]
    with refused(rule):
        planned(tiny_store, tmp_path, *variants)
