"""Sources of trainings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mucon.config import TrainConfig
from sweeps.service.run.source import Exhausted, PlannedTrials, Training, TrialSource, priority_first
from sweeps.service.run.worker import Outcome
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.rows import names_of_rows, only_rows
from sweeps.service.trials.continuing import linked
from sweeps.service.trials.folder import State
from sweeps.service.trials.trial import Trial
from tests.helpers.planted_sweeps import make_sweep
from tests.helpers.refusals import refused


def trial(seed: int = 1, **settings: object) -> Trial:
    values = {name.replace("__", "."): value for name, value in settings.items()}
    config = TrainConfig().with_values(values).override("seed", seed)
    return Trial.of(config, split="1", data_fingerprint="f" * 16, store="/data/stores/tiny")


def everything(source: TrialSource) -> Iterator[Training]:
    """The trainings of a source that never waits."""
    while True:
        try:
            training = source.next_training()
        except Exhausted:
            return
        assert training is not None
        yield training


def test_a_plan_supplies_each_training_once_with_all_its_evaluations_in_order() -> None:
    trials = [trial(seed=2), trial(seed=1), trial(seed=2, decoding__beam=3), trial(seed=3)]
    assert trials[0].identity == trials[2].identity
    source = PlannedTrials(trials)
    assert list(everything(source)) == [(trials[0], trials[2]), (trials[1],), (trials[3],)]
    source.ended(trials[0], Outcome(State.FAILED, "reason"))
    with pytest.raises(Exhausted):
        source.next_training()


def test_trainings_that_another_process_holds_come_last() -> None:
    trials = [trial(seed=seed) for seed in (1, 2, 3, 4)]
    held = {trials[0].identity, trials[2].identity}
    source = PlannedTrials(trials, held.__contains__)
    assert source.next_training() == (trials[1],)
    held.remove(trials[2].identity)
    assert source.next_training() == (trials[2],)
    assert list(everything(source)) == [(trials[3],), (trials[0],)]


def test_a_training_waits_for_those_that_it_continues() -> None:
    ends = [trial(seed=seed, training__stop_after=stop) for seed in (1, 2) for stop in (4, 2, 6)]
    trials = list(linked({one.key: one for one in ends}).values())
    source = PlannedTrials(trials)
    assert source.next_training() == (trials[1],)
    assert source.next_training() == (trials[4],)
    assert source.next_training() is None
    source.ended(trials[4], Outcome(State.FAILED, "reason"))
    assert source.next_training() == (trials[3],)
    source.ended(trials[1], Outcome(State.FINISHED))
    assert source.next_training() == (trials[0],)
    assert source.next_training() is None
    source.ended(trials[0], Outcome(State.FINISHED))
    assert source.next_training() == (trials[2],)
    source.ended(trials[3], Outcome(State.FINISHED))
    assert list(everything(source)) == [(trials[5],)]


def test_a_training_waits_for_all_evaluations_of_the_one_that_it_continues() -> None:
    ends = [trial(training__stop_after=stop, decoding__beam=beam) for stop, beam in ((2, 1), (2, 3), (None, 1))]
    first, second, last = linked({one.key: one for one in ends}).values()
    source = PlannedTrials([first, second, last])
    assert source.next_training() == (first, second)
    source.ended(second, Outcome(State.FINISHED))
    assert source.next_training() is None
    source.ended(first, Outcome(State.FINISHED))
    assert list(everything(source)) == [(last,)]


def test_an_empty_plan_is_exhausted_at_once() -> None:
    assert list(everything(PlannedTrials([]))) == []


def test_the_rows_of_priority_come_first_with_their_seeds_in_turn(tmp_path: Path) -> None:
    rows = tuple(Variant(labels=(name,)) for name in ("box", "bell", "ramp"))
    shape = Experiment(name="masks", title="Masks", label_titles=("Row",), variants=rows)
    plan = make_sweep(tmp_path, shape, lambda *_: 0.5, n_seeds=2)
    trials = {cell.key: replace(trial(), identity=cell.identity, evaluation=cell.evaluation) for cell in plan.cells}
    names = {cell.key: f"{cell.variant.name} {cell.seed}" for cell in plan.cells}

    def order(*chosen: str) -> list[str]:
        rows = names_of_rows(only_rows(shape, chosen, "--priority")) if chosen else ()
        seeds = sorted(plan.cells, key=lambda cell: cell.seed)
        return [names[one.key] for one in priority_first(plan.parts, [trials[cell.key] for cell in seeds], rows)]

    assert order() == ["box 1", "bell 1", "ramp 1", "box 2", "bell 2", "ramp 2"]
    assert order("ramp") == ["ramp 1", "ramp 2", "box 1", "bell 1", "box 2", "bell 2"]
    assert order("ramp", "box") == ["box 1", "ramp 1", "box 2", "ramp 2", "bell 1", "bell 2"]
    with refused("unknown", "--priority", "rampe", n=1):
        order("rampe")
