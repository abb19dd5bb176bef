"""Seeds added row by row: which ones are trained, whatever the order of their ends, failures, kills and limits."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mucon.config import TrainConfig
from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.plan.running import RunningPlan
from sweeps.service.plan.seeds import check_tables
from sweeps.service.run.budget.admission import CountedTrials
from sweeps.service.run.budget.limits import Limit
from sweeps.service.run.seeds.growing import GrowingSeeds, in_order
from sweeps.service.run.source import Exhausted, Training, TrialSource
from sweeps.service.run.worker import Outcome
from sweeps.service.spec.columns import INFERENCE_SECONDS, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.seeds import SeedRule
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.helpers.refusals import refused

RULE = SeedRule(least=3, most=9, until=1.0)
ROWS = {"plain": (0.0, 0.002), "clear": (0.2, 0.01), "near": (0.001, 0.002), "noisy": (0.01, 0.06)}
"""Row -> its advantage over the default row `plain`, and its deviation over seeds."""
SHAPE = Experiment(
    name="rows",
    title="Rows",
    label_titles=("Row",),
    variants=tuple(Variant(labels=(name,)) for name in ROWS),
    default_row="plain",
)
FINAL = {"plain": 9, "clear": 4, "near": 5, "noisy": 9}
"""Row -> the seeds that it needs."""
FAILED = Unfinished("failed", "reason")


def score(row: str, split: str, seed: int, prediction: str) -> float:
    advantage, deviation = ROWS[row]
    number = int(hashlib.sha256(f"{row} {split} {seed}".encode()).hexdigest()[:8], 16)
    return 0.5 + advantage + deviation * float(np.random.default_rng(number).normal())


class Sweep:
    """A sweep whose trainings take the directories of trials that have been planted elsewhere.

    Args:
        folder: for both results folders.
        unfinished: (row, split, seed) -> state of a trial without a result.
        splits: names.
        priority: the rows that run first.
    """

    def __init__(
        self,
        folder: Path,
        unfinished: dict[tuple[str, str, int], Unfinished] | None = None,
        splits: tuple[str, ...] = ("1",),
        priority: Collection[str] = (),
    ) -> None:
        planted = make_sweep(
            folder / "planted", SHAPE, score, splits=splits, n_seeds=RULE.most, n_videos=2, unfinished=unfinished
        )
        self.planted, self.folder = planted.results, ResultsFolder.at(folder / "results")
        self.whole, self.priority = replace(planted, results=self.folder), priority
        config = TrainConfig()
        one = Trial.of(config, split="1", data_fingerprint="f" * 16, store="/data/stores/tiny")
        self.trials = {
            cell.key: replace(
                one,
                identity=cell.identity,
                evaluation=cell.evaluation,
                split=cell.split,
                config=config.override("seed", cell.seed),
            )
            for cell in self.whole.cells
        }
        self.names = {cell.key: (cell.variant.name, cell.seed) for cell in self.whole.cells}
        self.trained: list[str] = []

    def growth(self) -> GrowingSeeds:
        """What is known from the directories alone."""
        results = self.whole.read_results()
        order = in_order(self.whole.parts, self.priority, by_seed=False)
        return GrowingSeeds(RULE, self.whole.parts, self.trials, results, folder=self.folder, order=order)

    def begin(self) -> tuple[RunningPlan, TrialSource]:
        """The plan and the source of a command."""
        growth = self.growth()
        plan = replace(self.whole, parts=growth.needed(), seed_rule=RULE)
        running = RunningPlan(plan, {cell.key: self.trials[cell.key] for cell in plan.cells}, plan.read_results())
        return running, growth.source(running, lambda: running.plan.write())

    def end(self, training: Training, source: TrialSource) -> None:
        for trial in training:
            self.trained.append(trial.key)
            place = self.folder.trial(trial.identity)
            shutil.copytree(self.planted.trial(trial.identity).path, place.path, dirs_exist_ok=True)
            done = place.result_path(trial.evaluation).exists()
            source.ended(trial, Outcome(State.FINISHED if done else State.FAILED))

    def run(self, source: TrialSource, *, slots: int = 1, order: int = 0, kill_after: int | None = None) -> None:
        """Ends trainings in a random order until the source is exhausted, or is killed."""
        random, active, exhausted = np.random.default_rng(order), list[Training](), False
        while kill_after is None or len(self.trained) < kill_after:
            try:
                while not exhausted and len(active) < slots and (training := source.next_training()):
                    active.append(training)
            except Exhausted:
                exhausted = True
            if not active:
                assert exhausted
                return
            self.end(active.pop(int(random.integers(len(active)))), source)

    def seeds(self, plan: Plan) -> dict[str, int]:
        """Row -> number of seeds in a plan."""
        cells = plan.cells
        return {row: len({cell.seed for cell in cells if cell.variant.name == row}) for row in ROWS}


def test_the_trained_seeds_follow_from_the_results_whatever_their_order(tmp_path: Path) -> None:
    seen = set()
    for order, slots in enumerate((1, 3, 20)):
        sweep = Sweep(tmp_path / str(order))
        running, source = sweep.begin()
        assert sweep.seeds(running.plan) == dict.fromkeys(ROWS, 3)
        sweep.run(source, slots=slots, order=order)
        assert sorted(sweep.trained) == sorted(running.cells)
        seen.add(tuple(sweep.seeds(running.plan).items()))
        assert read_plan(sweep.folder, "rows").cells == running.plan.cells
    assert seen == {tuple(FINAL.items())}


def test_every_row_gets_its_least_seeds_first_and_then_the_open_rows_and_the_default_row(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    _, source = sweep.begin()
    sweep.run(source)
    trained = [sweep.names[key] for key in sweep.trained]
    assert trained[:12] == [(row, seed) for seed in (1, 2, 3) for row in ROWS]
    assert set(trained[12:]) == {(row, seed) for row, most in FINAL.items() for seed in range(4, most + 1)}


def test_the_rows_of_priority_come_first(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, priority={"rows: noisy"})
    _, source = sweep.begin()
    sweep.run(source)
    assert [sweep.names[key] for key in sweep.trained[:4]] == [("noisy", 1), ("noisy", 2), ("noisy", 3), ("plain", 1)]


@pytest.mark.parametrize("kill_after", [2, 17])
def test_a_killed_sweep_ends_with_the_seeds_of_an_undisturbed_one(tmp_path: Path, kill_after: int) -> None:
    sweep = Sweep(tmp_path)
    sweep.run(sweep.begin()[1], slots=3, kill_after=kill_after)
    before = len(sweep.trained)
    running, source = sweep.begin()
    assert not sweep.growth().is_over(running.plan, running.results)
    sweep.run(source, slots=2, order=5)
    assert len(set(sweep.trained)) == len(sweep.trained) > before
    assert sweep.seeds(running.plan) == FINAL
    again, _ = sweep.begin()
    assert again.plan.cells == running.plan.cells
    assert not again.to_run
    assert sweep.growth().is_over(again.plan, again.results)


def test_what_another_sweep_has_trained_counts_as_far_as_it_is_needed(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    shutil.copytree(sweep.planted.path / "trials", sweep.folder.path / "trials")
    running, source = sweep.begin()
    assert sweep.seeds(running.plan) == FINAL
    assert sweep.growth().is_over(running.plan, running.results)
    with pytest.raises(Exhausted):
        source.next_training()


def test_known_seeds_beyond_a_gap_join_the_plan_without_training(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    shutil.copytree(sweep.planted.path / "trials", sweep.folder.path / "trials")
    gap = next(key for key, name in sweep.names.items() if name == ("noisy", 2))
    shutil.rmtree(sweep.folder.trial(sweep.trials[gap].identity).path)
    running, source = sweep.begin()
    assert sweep.seeds(running.plan)["noisy"] == 3
    sweep.run(source)
    assert sweep.trained == [gap]
    assert sweep.seeds(running.plan) == FINAL


def test_a_row_that_fails_twice_in_a_row_gets_no_further_seed(tmp_path: Path) -> None:
    unfinished = {("noisy", "1", 2): FAILED, ("noisy", "1", 4): FAILED, ("noisy", "1", 5): FAILED}
    sweep = Sweep(tmp_path, unfinished)
    running, source = sweep.begin()
    sweep.run(source, slots=4, order=1)
    assert sweep.seeds(running.plan) == {"plain": 5, "clear": 4, "near": 5, "noisy": 5}
    standing = Standing.of(read_plan(sweep.folder, "rows"))
    assert [str(row.seeds) for row in standing.tables["rows"].rows[:4]] == ["5", "4", "5", "2 of 5"]


def test_without_two_values_in_a_row_of_the_default_row_every_open_row_ends(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, {("plain", "1", 4): Unfinished("diverged"), ("plain", "1", 5): FAILED})
    running, source = sweep.begin()
    sweep.run(source, slots=3)
    assert sweep.seeds(running.plan) == {"plain": 5, "clear": 5, "near": 5, "noisy": 5}


def test_a_trial_that_stops_ends_the_run_of_its_row_and_not_its_seeds(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    running, source = sweep.begin()
    for _ in range(12):
        training = source.next_training()
        assert training is not None
        if sweep.names[training[0].key] == ("noisy", 3):
            source.ended(training[0], Outcome(State.STOPPED))
        else:
            sweep.end(training, source)
    sweep.run(source)
    assert sweep.seeds(running.plan) == {"plain": 5, "clear": 4, "near": 5, "noisy": 3}
    running, source = sweep.begin()
    sweep.run(source)
    assert sweep.seeds(running.plan) == FINAL


def test_a_seed_counts_with_its_mean_over_the_splits_once_all_of_them_have_ended(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, splits=("1", "2"))
    running, source = sweep.begin()
    sweep.run(source, slots=5, order=3)
    counts = sweep.seeds(running.plan)
    assert len(sweep.trained) == len(set(sweep.trained)) == 2 * sum(counts.values())
    assert counts["clear"] < counts["noisy"] == counts["plain"] == 9


def test_a_limit_on_the_trainings_holds_for_those_that_are_added(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    running, source = sweep.begin()
    limited = CountedTrials(source, [], Limit(14.0, "--max-trials", "--max-trials"))
    sweep.run(limited, slots=3)
    assert len(sweep.trained) == 14
    assert limited.holds_back
    assert set(running.to_run) > set(sweep.trained)


def test_evaluations_of_a_training_do_not_run_beside_it(tmp_path: Path) -> None:
    """Rows that share a training: a row that needs a seed which the other trains waits for its end."""
    sweep = Sweep(tmp_path)
    first = {cell.seed: cell for cell in sweep.whole.cells if cell.variant.name == "near"}
    (part,) = sweep.whole.parts
    cells = []
    for cell in part.cells:
        if cell.variant.name == "noisy":
            result = json.loads(sweep.planted.trial(cell.identity).result_path(cell.evaluation).read_text())
            trained = first[cell.seed]
            cell = replace(cell, identity=trained.identity, evaluation="f" * 16)
            folder = sweep.planted.trial(cell.identity)
            folder.write_result(cell.evaluation, {**result, "identity": cell.identity, "evaluation": cell.evaluation})
            sweep.trials[cell.key] = replace(sweep.trials[trained.key], evaluation=cell.evaluation)
            sweep.names[cell.key] = ("noisy", cell.seed)
        cells.append(cell)
    sweep.whole = replace(sweep.whole, parts=(replace(part, cells=tuple(cells)),))
    _, source = sweep.begin()
    active: dict[str, Training] = {}
    supplied: list[Any] = []
    while True:
        try:
            while (training := source.next_training()) is not None:
                assert training[0].identity not in active
                active[training[0].identity] = training
                supplied.append(tuple(sweep.names[trial.key] for trial in training))
        except Exhausted:
            break
        sweep.end(active.pop(next(iter(active))), source)
    assert (("near", 1), ("noisy", 1)) in supplied
    assert (("noisy", 9),) in supplied


def test_tables_that_share_trials_get_the_seeds_that_each_of_them_needs(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    (part,) = sweep.whole.parts
    rows = tuple(row for row in SHAPE.variants if row.name in ("plain", "near"))
    cells = tuple(cell for cell in part.cells if cell.variant in rows)
    pair = replace(part, experiment=replace(SHAPE, name="pair", variants=rows), cells=cells)
    sweep.whole = replace(sweep.whole, parts=(pair, part))
    running, source = sweep.begin()
    sweep.run(source, slots=3)
    alone, together = (Counter(cell.variant.name for cell in part.cells) for part in running.plan.parts)
    assert together == FINAL
    assert alone == {"plain": 4, "near": 4}
    assert len(sweep.trained) == len(set(sweep.trained)) == sum(FINAL.values())


def test_a_dry_run_knows_what_can_be_added(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    assert len(sweep.growth().further()) == 4 * (9 - 3)
    sweep.run(sweep.begin()[1], kill_after=14)
    names = {sweep.names[trial.key] for trial in sweep.growth().further()}
    assert {row for row, _ in names} == {"plain", "near", "noisy"}
    assert min(seed for _, seed in names) == 5
    sweep.run(sweep.begin()[1])
    assert sweep.growth().further() == []


def test_a_table_needs_something_to_compare() -> None:
    with refused("missing", "--seeds", "rows", n=1):
        check_tables([SHAPE, replace(SHAPE, default_row=None)])
    with refused("missing", "--seeds", "rows", n=1):
        check_tables([replace(SHAPE, variants=SHAPE.variants[:1])])
    with refused("missing", "--seeds", "rows", n=1):
        check_tables([replace(SHAPE, columns=(INFERENCE_SECONDS,))])
