"""Sweeps on the validation part: what is trained and scored, what is recorded, and that no test label is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mucon.config import TrainConfig
from storage import StoreWriter, open_store
from storage.held_out import held_out
from sweeps.service.plan.plan import Plan, make_plan, read_plan
from sweeps.service.plan.recordings import also_tested, split_data, split_facts, split_names
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.helpers.annotations import reads_of_labels
from tests.helpers.refusals import refused
from tests.sweeps import small

TABLE = Experiment(
    name="drops",
    title="Two rows",
    label_titles=("Row",),
    variants=(Variant(labels=("default",)), Variant(labels=("little",), settings={"loss.smoothing": 0.3})),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten training videos of five subjects, and three test videos."""
    return small.make_store(tmp_path_factory.mktemp("grouped") / "store", n_train=10, groups=5)


def planned(store: Path, results: Path, part: str = "validation") -> tuple[Plan, dict[str, Trial]]:
    folder = ResultsFolder.at(results)
    given = {"store": store, "settings": small.TINY, "seeds": (1,), "splits": ("1",), "results": folder}
    return make_plan(TABLE, base=lambda *_: TrainConfig(), part=part, **given)


def test_a_part_of_the_training_part_is_scored_and_no_test_label_is_read(store, tmp_path):
    opened = open_store(store)
    held, test = held_out(opened, "1"), set(opened.split("1", "test"))
    with reads_of_labels() as read:
        plan, trials = planned(store, tmp_path)
        split_names(opened, "validation")
    assert read == {*held.validation, *held.rest}
    assert not read & test
    with reads_of_labels() as read:
        planned(store, tmp_path, "test")
    assert test < read  # the spy sees what it has to see
    data = plan.splits["1"]
    assert (data.n_train, data.n_test) == (8, 2)
    assert list(data.validation) == list(held.validation)
    assert list(data.validation_groups) == list(held.groups)
    assert {trial.part for trial in trials.values()} == {plan.part} == {"validation"}


def test_trials_on_the_validation_part_are_others_and_those_on_the_test_part_are_as_before(store, tmp_path):
    validation, test = (planned(store, tmp_path, part)[0] for part in ("validation", "test"))
    assert not {cell.identity for cell in validation.cells} & {cell.identity for cell in test.cells}
    assert not {cell.evaluation for cell in validation.cells} & {cell.evaluation for cell in test.cells}
    facts = split_facts(open_store(store), "1")
    assert test.splits["1"].fingerprint == facts.fingerprint()
    assert (test.part, test.splits["1"].validation) == ("test", ())


def test_the_plan_records_the_part_and_the_recordings(store, tmp_path):
    plan, trials = planned(store, tmp_path)
    plan.write()
    written = json.loads((plan.folder / "plan.json").read_text())
    assert written["part"] == "validation"
    assert written["splits"]["1"]["validation"] == list(plan.splits["1"].validation)
    again = read_plan(plan.results, plan.name)
    assert json.loads(json.dumps(again.to_dict())) == written
    assert again.part == "validation"
    trial = next(iter(trials.values()))
    assert Trial.from_dict(trial.to_dict()).part == "validation"


def test_another_part_is_refused(store, tmp_path):
    plan, trials = planned(store, tmp_path)
    plan.write()
    path = plan.folder / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "part": "train"}))
    with refused("damaged", "plan.json"):
        read_plan(plan.results, plan.name)
    with refused("unknown", "part", "tset"):
        Trial.from_dict({**next(iter(trials.values())).to_dict(), "part": "tset"})


def test_a_store_without_lengths_has_a_validation_part_too(tmp_path):
    store = open_store(small.make_store(tmp_path / "store", with_lengths=False))
    data = split_data(store, "1", part="validation")
    assert (data.n_train, data.n_test, data.n_test_with_lengths) == (5, 1, 0)
    assert "matching_score" in data.blind


def test_a_plan_whose_validation_part_has_other_recordings_than_an_earlier_one_says_so(store, tmp_path):
    plan, _ = planned(store, tmp_path)
    plan.write()
    assert planned(store, tmp_path)[0].warnings == ()
    path = plan.folder / "plan.json"
    written = json.loads(path.read_text())
    (first, *_) = held = written["splits"]["1"]["validation"]
    written["splits"]["1"]["validation"] = ["video_10", *held[1:]]
    path.write_text(json.dumps(written))
    (problem,) = planned(store, tmp_path)[0].warnings
    assert (problem.rule, problem.place, problem.value) == ("mismatch", "split 1", sorted([first, "video_10"]))
    assert planned(store, tmp_path, "test")[0].warnings == ()


def test_splits_that_test_the_validation_recordings_of_each_other_are_named(tmp_path):
    clips = [(f"video_{i}", str(1 + i % 3)) for i in range(12)]
    with StoreWriter(tmp_path / "store", dim=2, dtype="float32", vocabulary=("rest", "pour")) as writer:
        for id, tested in clips:
            splits = tuple(f"{split}:{'test' if split == tested else 'train'}" for split in "123")
            writer.add(id, np.zeros((4, 2), np.float32), transcript=[0, 1], lengths=[2, 2], splits=splits)
    store = open_store(tmp_path / "store")
    data = {split: split_data(store, split, part="validation") for split in "123"}
    problems = list(also_tested(store, data))
    assert [problem.place for problem in problems] == ["split 1", "split 2", "split 3"]
    assert all(set(problem.value) == set(data[problem.place[-1]].validation) for problem in problems)
    assert not list(also_tested(store, {"1": data["1"]}))
