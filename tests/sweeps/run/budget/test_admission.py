"""Which trainings a budget covers: balance over rows, estimates, running ones, and trials slower than expected."""

from collections.abc import Iterator, Sequence

import pytest

from mucon.config import TrainConfig
from sweeps.service.run.budget.admission import BudgetedTrials, balanced, covered, first_trainings
from sweeps.service.run.budget.estimates import RecordedSpeeds
from sweeps.service.run.budget.limits import HOUR, Budget, Limit
from sweeps.service.run.budget.spending import Spending
from sweeps.service.run.budget.usage import Usage
from sweeps.service.run.resources import Resources
from sweeps.service.run.source import Exhausted, PlannedTrials
from sweeps.service.run.worker import Outcome
from sweeps.service.trials.folder import State
from sweeps.service.trials.trial import Trial

EACH = Resources(cpus=2, gpus=0.5)
DONE = Outcome(State.FINISHED)


def trial(row: int = 0, seed: int = 1, **more: object) -> Trial:
    settings = {"loss.smoothing": row / 10, **{name.replace("__", "."): value for name, value in more.items()}}
    config = TrainConfig().with_values(settings).override("seed", seed)
    return Trial.of(config, split="1", data_fingerprint="f" * 16, store="/data/stores/tiny")


def limit(option: str, value: float) -> Budget:
    name = {"--time-budget": "time", "--gpu-hours": "gpu_hours", "--cpu-hours": "cpu_hours", "--max-trials": "trials"}
    return Budget(**{name[option]: Limit(value, option, option)})


class Sweep:
    """A sweep on a clock of its own, whose trials take as long as a test says."""

    def __init__(self, trials: Sequence[Trial], budget: Budget, *, slots: int = 1, epochs: int = 10) -> None:
        self.now = 0.0
        self.used: dict[str, Usage] = {}
        self.speeds = RecordedSpeeds()
        self.spending = Spending(
            budget, started=0.0, used={}, read=lambda name: self.used.get(name, Usage()), clock=lambda: self.now
        )
        self.source = BudgetedTrials(
            PlannedTrials(trials),
            self.spending,
            each=EACH,
            slots=slots,
            speeds=self.speeds,
            epochs_left=lambda _: epochs,
        )

    def next(self) -> Trial | None:
        training = self.source.next_training()
        return None if training is None else training[0]

    def spend(self, one: Trial, seconds: float) -> None:
        self.now += seconds
        before = self.used.get(one.identity, Usage())
        self.used[one.identity] = before + Usage(seconds, seconds * EACH.cpus, seconds * EACH.gpus)
        self.source.update()

    def run(self, one: Trial, seconds: float) -> None:
        self.spend(one, seconds)
        self.speeds.learn(one, seconds, 10)
        self.source.ended(one, DONE)

    def rest(self) -> Iterator[Trial]:
        while True:
            try:
                one = self.next()
            except Exhausted:
                return
            assert one is not None
            yield one


def rows_and_seeds(trials: Sequence[Trial]) -> list[tuple[float, int]]:
    return [(one.config.loss.smoothing, one.config.seed) for one in trials]


def test_every_row_has_one_seed_before_any_has_the_next() -> None:
    two_tables = [trial(row, seed) for rows in ((0, 1), (2, 3)) for seed in (1, 2, 3) for row in rows]
    chosen = first_trainings(balanced(two_tables), set(), Limit(5, "--max-trials", "--max-trials"))
    assert rows_and_seeds(chosen) == [(0.0, 1), (0.1, 1), (0.2, 1), (0.3, 1), (0.0, 2)]


def test_trained_ones_count_and_their_further_evaluations_do_not() -> None:
    trials = [trial(row, seed) for seed in (1, 2) for row in (0, 1)]
    beam = trial(0, 1, decoding__beam=3)
    assert beam.identity == trials[0].identity
    trained = {trials[0].identity}
    chosen = first_trainings([beam, *trials[1:]], trained, Limit(2, "--max-trials", "--max-trials"))
    assert chosen == [beam, trials[1]]
    assert first_trainings([beam], {trials[0].identity, "b"}, Limit(1, "--max-trials", "--max-trials")) == [beam]


def test_a_training_without_an_estimate_is_admitted_while_anything_is_left() -> None:
    first, second = trial(0), trial(1)
    sweep = Sweep([first, second], limit("--gpu-hours", 100.0))
    assert sweep.next() == first
    sweep.spend(first, 300.0)  # 150 seconds of GPUs
    with pytest.raises(Exhausted):
        sweep.next()
    assert sweep.spending.is_over


def test_a_training_is_admitted_only_if_the_rest_covers_it_and_running_ones() -> None:
    trials = [trial(row) for row in range(5)]
    sweep = Sweep(trials, limit("--cpu-hours", 700.0), slots=3)
    assert sweep.next() == trials[0]
    sweep.run(trials[0], 100.0)  # 200 of 700; 500 are left
    assert [sweep.next(), sweep.next(), sweep.next()] == [trials[1], trials[2], None]
    sweep.spend(trials[1], 50.0)
    assert sweep.next() is None, "two run, and what they still need is theirs"
    sweep.source.ended(trials[1], DONE)  # after half of what was expected
    assert sweep.next() == trials[3]
    assert sweep.next() is None
    assert sweep.source.holds_back


def test_a_training_that_turns_out_slow_reserves_what_its_epochs_show() -> None:
    trials = [trial(row) for row in range(3)]
    sweep = Sweep(trials, limit("--gpu-hours", 1000.0), slots=2)
    sweep.speeds.learn(trials[2], 100.0, 10)
    assert sweep.next() == trials[0]
    sweep.spend(trials[0], 100.0)
    sweep.source.epoch(trials[0].key, {"epoch": 1, "epochs": 10, "seconds": 100.0})  # ten times slower: 900 s more
    assert sweep.spending.left(sweep.spending.limits[0]) == 950.0
    sweep.source.epoch(trials[0].key, {"epoch": 1, "epochs": 20, "seconds": 100.0})  # 1,900 s more
    assert sweep.next() is None


def test_what_is_left_is_added_up_once_for_all_trainings_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [trial(row) for row in range(20)]
    sweep = Sweep(trials, limit("--cpu-hours", 700.0), slots=2)
    sweep.run(trials[0], 100.0)
    sweep.speeds.learn(trials[0], 1000.0, 10)
    looks: list[str] = []
    left = sweep.spending.left
    monkeypatch.setattr(sweep.spending, "left", lambda limit: looks.append(limit.option) or left(limit))
    for _ in range(2):
        with pytest.raises(Exhausted):
            sweep.next()
    assert sweep.source.holds_back
    assert len(looks) <= 4


def test_time_covers_no_training_that_would_end_after_it() -> None:
    trials = [trial(row) for row in range(3)]
    sweep = Sweep(trials, limit("--time-budget", 250.0), slots=2)
    assert sweep.next() == trials[0]
    sweep.run(trials[0], 100.0)
    assert sweep.next() == trials[1]
    sweep.run(trials[1], 100.0)
    with pytest.raises(Exhausted):
        sweep.next()
    assert not sweep.spending.is_over


def test_a_cheap_training_goes_before_a_dear_one_of_its_seed_but_not_before_another_seed() -> None:
    dear, cheap = trial(0, 1, backbone__channels=256), trial(1, 1)
    later = trial(1, 2)
    sweep = Sweep([dear, cheap, later], limit("--time-budget", 500.0))
    sweep.speeds.learn(dear, 1000.0, 10)
    sweep.speeds.learn(cheap, 100.0, 10)
    assert sweep.next() == cheap
    sweep.run(cheap, 100.0)
    with pytest.raises(Exhausted):
        sweep.next()


def test_no_more_are_passed_on_than_run_at_a_time_and_a_group_counts_once() -> None:
    one, beam, other = trial(0), trial(0, 1, decoding__beam=3), trial(1)
    sweep = Sweep([one, beam, other], limit("--time-budget", 1e6))
    assert sweep.source.next_training() == (one, beam)
    sweep.source.ended(one, DONE)
    assert sweep.next() is None
    sweep.source.ended(beam, DONE)
    assert sweep.next() == other


def test_a_budget_that_is_used_up_or_too_small_covers_nothing() -> None:
    trials = [trial(0), trial(1)]
    sweep = Sweep(trials, limit("--time-budget", 50.0))
    assert sweep.source.covers_any()
    sweep.speeds.learn(trials[0], 100.0, 10)
    assert not sweep.source.covers_any()
    sweep.now = 60.0
    assert not sweep.source.covers_any()
    assert not Sweep([], limit("--time-budget", 50.0)).source.covers_any()


def test_a_clock_of_its_own_shows_what_a_budget_covers() -> None:
    trials = [trial(row, seed) for seed in (1, 2) for row in (0, 1)]
    seconds = {one.identity: 100.0 for one in trials}

    def names(budget: Budget, slots: int = 1, used: dict[str, Usage] | None = None) -> int:
        within = covered(trials, seconds, budget, used or {}, each=EACH, slots=slots)
        assert within == {one.identity for one in trials[: len(within)]}
        return len(within)

    assert names(limit("--time-budget", 250.0)) == 2
    assert names(limit("--time-budget", 250.0), slots=2) == 4
    assert names(limit("--gpu-hours", 150.0)) == 3
    assert names(limit("--gpu-hours", 150.0), used={trials[0].identity: Usage(100.0, 200.0, 50.0)}) == 2
    assert names(limit("--cpu-hours", HOUR)) == 4
    assert names(limit("--cpu-hours", 100.0)) == 0


def test_speeds_of_equal_steps_count_before_others_of_the_method() -> None:
    speeds = RecordedSpeeds()
    same, other, own = trial(0), trial(0, 1, backbone__channels=256), trial(1)
    assert speeds.seconds(own, 10) is None
    speeds.learn(other, 400.0, 10)
    assert speeds.seconds(own, 10) == 400.0
    speeds.learn(same, 100.0, 10)
    assert speeds.seconds(own, 5) == 50.0
    speeds.learn(own, 30.0, 1)
    assert speeds.seconds(own, 5) == 150.0
