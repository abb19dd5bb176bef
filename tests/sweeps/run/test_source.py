"""Sources of trainings and the queue that passes them to Tune, without a running Ray."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mucon.config import TrainConfig
from sweeps.service.run.executor.ray_environment import set_ray_environment
from sweeps.service.run.source import Exhausted, PlannedTrials, Training, TrialSource, priority_first
from sweeps.service.run.worker import Outcome
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.rows import names_of_rows, only_rows
from sweeps.service.trials.folder import State
from sweeps.service.trials.trial import Trial
from tests.helpers.planted_sweeps import make_sweep
from tests.helpers.refusals import refused

set_ray_environment()

from sweeps.service.run.executor.queue import TrialQueue  # noqa: E402  # ray reads its environment when it is imported


def trial(seed: int = 1, beam: int = 1) -> Trial:
    config = TrainConfig().with_values({"decoding.beam": beam}).override("seed", seed)
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


class Following:
    """Supplies each trial after the one before has ended."""

    def __init__(self, *trials: Trial) -> None:
        self.waiting = list(trials)
        self.running: Trial | None = None
        self.outcomes: list[tuple[Trial, Outcome]] = []

    def next_training(self) -> Training | None:
        if self.running is not None:
            return None
        if not self.waiting:
            raise Exhausted
        self.running = self.waiting.pop(0)
        return (self.running,)

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        assert trial == self.running
        self.running = None
        self.outcomes.append((trial, outcome))


def test_a_plan_supplies_each_training_once_with_all_its_evaluations_in_order() -> None:
    trials = [trial(seed=2), trial(seed=1), trial(seed=2, beam=3), trial(seed=3)]
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


def test_an_empty_plan_is_exhausted_at_once() -> None:
    assert list(everything(PlannedTrials([]))) == []


def queue_of(source: TrialSource, *, at_most: int = 4, stop: Path = Path("/nonexistent/stop")) -> TrialQueue:
    def next_request() -> dict[str, str] | None:
        training = source.next_training()
        return None if training is None else {"request": training[0].identity}

    return TrialQueue(next_request, at_most=at_most, stopping=stop.exists)


def test_the_queue_waits_for_the_source_and_ends_with_it() -> None:
    first, second = trial(seed=1), trial(seed=2)
    source = Following(first, second)
    queue = queue_of(source)
    assert queue.suggest("a") == {"request": first.identity}
    assert queue.suggest("b") is None
    assert queue.suggest("c") is None
    source.ended(first, Outcome(State.FINISHED))
    assert queue.suggest("d") == {"request": second.identity}
    assert queue.suggest("e") is None
    source.ended(second, Outcome(State.FAILED, "no cake"))
    assert queue.suggest("f") == TrialQueue.FINISHED


def test_the_source_is_not_asked_while_enough_trainings_are_inside_tune() -> None:
    trials = [trial(seed=seed) for seed in (1, 2, 3)]
    queue = queue_of(PlannedTrials(trials), at_most=2)
    assert [queue.suggest(name) for name in "ab"] == [{"request": one.identity} for one in trials[:2]]
    assert queue.suggest("c") is None
    queue.on_trial_complete("unknown")
    assert queue.suggest("c") is None
    queue.on_trial_complete("a", result={}, error=True)
    assert queue.suggest("c") == {"request": trials[2].identity}
    assert queue.suggest("d") is None, "the source is asked when there is room"
    queue.on_trial_complete("b")
    assert queue.suggest("d") == TrialQueue.FINISHED


def test_a_stop_ends_the_queue_before_the_source_is_exhausted(tmp_path: Path) -> None:
    source = PlannedTrials([trial(seed=1), trial(seed=2)])
    queue = queue_of(source, stop=tmp_path / "stop")
    assert queue.suggest("a") is not None
    (tmp_path / "stop").touch()
    assert queue.suggest("b") == TrialQueue.FINISHED
    assert source.next_training() == (trial(seed=2),)


def test_tune_keeps_no_state_of_the_queue(tmp_path: Path) -> None:
    queue = queue_of(PlannedTrials([trial()]))
    assert queue.suggest("a") is not None
    queue.save(str(tmp_path / "searcher.pkl"))
    assert (tmp_path / "searcher.pkl").read_bytes() == b""
    assert len(pickle.dumps(queue)) < 200
    with pytest.raises(NotImplementedError):
        queue.restore(str(tmp_path / "searcher.pkl"))


def test_the_rows_of_priority_come_first_with_their_seeds_in_turn(tmp_path: Path) -> None:
    rows = tuple(Variant(labels=(name,)) for name in ("box", "bell", "ramp"))
    shape = Experiment(name="masks", title="Masks", label_titles=("Row",), variants=rows)
    plan = make_sweep(tmp_path, shape, lambda *_: 0.5, n_seeds=2)
    trials = {cell.key: replace(trial(), identity=cell.identity, evaluation=cell.evaluation) for cell in plan.cells}
    names = {cell.key: f"{cell.variant.name} {cell.seed}" for cell in plan.cells}

    def order(*chosen: str) -> list[str]:
        rows = names_of_rows(only_rows(shape, chosen, "--priority")) if chosen else ()
        seeds = sorted(plan.cells, key=lambda cell: cell.seed)
        return [names[one.key] for one in priority_first(plan, [trials[cell.key] for cell in seeds], rows)]

    assert order() == ["box 1", "bell 1", "ramp 1", "box 2", "bell 2", "ramp 2"]
    assert order("ramp") == ["ramp 1", "ramp 2", "box 1", "bell 1", "box 2", "bell 2"]
    assert order("ramp", "box") == ["box 1", "ramp 1", "box 2", "ramp 2", "bell 1", "bell 2"]
    with refused("unknown", "--priority", "rampe", n=1):
        order("rampe")
