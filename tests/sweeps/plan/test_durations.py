"""How long the trainings of a plan take."""

from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.service.plan.durations import Passed, missing_epochs, seconds_left
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.row_facts import RowFacts
from sweeps.service.plan.running import RunningPlan
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials.cell_results import Attempt
from tests.helpers.planted_sweeps import make_sweep

ROWS: dict[str, tuple[dict[str, object], int]] = {
    "4 of 10": ({"training.stop_after": 4}, 4),
    "10": ({}, 10),
    "7 of 10, another decoder": ({"training.stop_after": 7, "decoding.beam": 2}, 7),
    "4 of 10, another loss": ({"training.stop_after": 4, "loss.smoothing": 0.1}, 4),
    "another loss, 3 epochs": ({"training.epochs": 3, "loss.smoothing": 0.1}, 3),
}
"""Row -> its settings and the epoch at which it ends."""


def plan_of_rows(folder: Path) -> Plan:
    variants = tuple(Variant(labels=(row,), settings=settings) for row, (settings, _) in ROWS.items())
    shape = Experiment(name="stops", title="Stops", label_titles=("Row",), variants=variants)
    plan = make_sweep(folder, shape, lambda *_: 0.5, n_seeds=2)
    facts = {(row,): RowFacts(supervision="transcripts", passes=end) for row, (_, end) in ROWS.items()}
    settings = {(row,): given for row, (given, _) in ROWS.items()}
    return replace(plan, parts=(replace(plan.parts[0], facts=facts, settings=settings),))


def test_a_training_needs_the_epochs_after_the_end_of_the_one_that_it_continues(tmp_path: Path) -> None:
    plan = plan_of_rows(tmp_path)
    names = {cell.identity: (cell.variant.name, cell.seed) for cell in plan.cells}
    results = {key: replace(one, attempt=Attempt()) for key, one in plan.read_results().items()}
    found = {names[identity]: epochs for identity, epochs in missing_epochs(plan.parts, results).items()}
    for seed in (1, 2):
        assert [found[row, seed] for row in ROWS] == [4, 3, 3, 4, 3]
    keys = {(cell.variant.name, cell.seed): cell.key for cell in plan.cells}
    for row, epochs in (("10", 9), ("7 of 10, another decoder", 2), ("4 of 10", 4)):
        results[keys[row, 2]] = replace(results[keys[row, 2]], attempt=Attempt(epochs))
    found = {names[identity]: epochs for identity, epochs in missing_epochs(plan.parts, results).items()}
    assert [found[row, 2] for row in ROWS] == [0, 1, 3, 4, 3], "finished epochs are not trained again"
    assert [found[row, 1] for row in ROWS] == [4, 3, 3, 4, 3]


def test_a_plan_that_says_no_epochs_has_none_left(tmp_path: Path) -> None:
    plan = plan_of_rows(tmp_path)
    assert missing_epochs([replace(plan.parts[0], facts={})], plan.read_results()) == {}


def test_the_time_left_is_that_of_the_longest_training_or_all_work_divided_by_the_slots() -> None:
    ten = [Passed(10, 100.0), Passed(10, 10.0)]
    assert seconds_left([], [], [None] * 3, 2) is None
    assert seconds_left([90, 5], ten, [], 2) == 90
    assert seconds_left([90, 5], ten, [None] * 4, 2) == pytest.approx((90 + 5 + 4 * 55) / 2)
    assert seconds_left([], [Passed(1, 20.0), Passed(1, 40.0)], [None] * 3, 3) == 30
    assert seconds_left([], [Passed(1, 20.0)], [], 1) == 0
    assert seconds_left([], [Passed(10, 20.0), Passed(2, 8.0)], [5, 0, None], 1) == pytest.approx(5 * 3 + 14)


def test_a_plan_that_grows_says_the_epochs_of_its_further_trainings(tmp_path: Path) -> None:
    plan = plan_of_rows(tmp_path)
    (part,) = plan.parts
    first = replace(plan, parts=(replace(part, cells=part.cells[:2]),))
    results = {key: replace(one, attempt=Attempt()) for key, one in plan.read_results().items()}
    running = RunningPlan(first, {}, {cell.key: results[cell.key] for cell in first.cells})
    assert sorted(running.epochs().values()) == [4, 6]
    running.extend(plan, {}, results)
    assert running.epochs() == missing_epochs(plan.parts, results)
