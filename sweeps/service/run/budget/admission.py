"""Passes a training on only if the rest of the budget covers its estimate."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sweeps.service.run.budget.limits import Budget, Limit
from sweeps.service.run.budget.spending import Spending
from sweeps.service.run.budget.usage import Usage
from sweeps.service.run.resources import Resources
from sweeps.service.run.source import Exhausted, PlannedTrials, Training, TrialSource
from sweeps.service.run.worker import Outcome
from sweeps.service.trials.folder import State
from sweeps.service.trials.trial import Trial, by_training


class Speeds(Protocol):
    """What is known of the durations of trainings, see `RecordedSpeeds`."""

    def learn(self, trial: Trial, seconds: float, epochs: int) -> None:
        """Records that so many epochs of a training have taken so many seconds."""

    def seconds(self, trial: Trial, epochs: int) -> float | None:
        """Expected seconds of some epochs of a training; None if unknown."""


def balanced(trials: Iterable[Trial]) -> list[Trial]:
    """The trials with the smallest seed first, so that every row has one seed before any has the next."""
    return sorted(trials, key=lambda trial: trial.config.seed)


def first_trainings(missing: Iterable[Trial], trained: set[str], limit: Limit) -> list[Trial]:
    """The missing trials that a limit on the number of trainings leaves, in their order.

    Args:
        missing: trials without a result.
        trained: identities of the sweep's trainings that have ended; their further evaluations cost no training.
        limit: the limit.
    """
    chosen: list[Trial] = []
    left = limit.value - len(trained)
    for training in by_training(missing):
        is_new = training[0].identity not in trained
        if left > 0 or not is_new:
            chosen += training
            left -= is_new
    return chosen


class CountedTrials:
    """A source that ends after a number of trainings; further evaluations of a training cost none.

    Attributes:
        holds_back: whether it has ended although the other source has not.

    Args:
        source: supplies the trainings.
        trained: identities of the sweep's trainings that have ended.
        limit: the limit on their number.
    """

    def __init__(self, source: TrialSource, trained: Iterable[str], limit: Limit) -> None:
        self.holds_back = False
        self._source, self._counted, self._limit = source, set(trained), limit

    def next_training(self) -> Training | None:
        """The next training of the other source.

        Raises:
            Exhausted: the other source is, or the limit has been reached.
        """
        training = None if self.holds_back else self._source.next_training()
        if training is not None:
            self._counted.add(training[0].identity)
            self.holds_back = len(self._counted) > self._limit.value
        if self.holds_back:
            raise Exhausted
        return training

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """A trial has ended."""
        self._source.ended(trial, outcome)


@dataclass(slots=True)
class _Started:
    """A training that has been passed on.

    Attributes:
        waiting: keys of its trials that have not ended.
        rest: seconds that it was expected to need when it had used `used`; None if unknown.
        used: seconds that it had used then.
    """

    waiting: set[str]
    rest: float | None
    used: float


class BudgetedTrials:
    """A source of trainings that the rest of a budget covers, and a listener of their progress.

    At most as many are passed on as run at a time, so that none starts long after it was admitted. A training with an
    unknown duration is admitted if anything is left. Trainings that do not fit let others of their seed go first, but
    none of a later seed.

    Attributes:
        asked_after: seconds from the start of the command to the first request for a training; None before it.

    Args:
        source: supplies the trainings.
        spending: the budget and what has been used of it.
        each: cores and GPUs of a trial.
        slots: number of trials at a time.
        speeds: durations of trainings.
        epochs_left: returns the number of epochs that a training still needs.
    """

    def __init__(
        self,
        source: TrialSource,
        spending: Spending,
        *,
        each: Resources,
        slots: int,
        speeds: Speeds,
        epochs_left: Callable[[Trial], int],
    ) -> None:
        self.asked_after: float | None = None
        self._source = source
        self._spending = spending
        self._share = {"--time-budget": 1.0, "--gpu-hours": each.gpus, "--cpu-hours": each.cpus}
        self._slots = slots
        self._speeds = speeds
        self._epochs_left = epochs_left
        self._epochs: dict[str, int] = {}
        self._parked: list[Training] = []
        self._started: dict[str, _Started] = {}
        self._trials: dict[str, Trial] = {}

    def next_training(self) -> Training | None:
        """The next training that the rest of the budget covers; None while that depends on running ones.

        Raises:
            Exhausted: the budget covers no further training.
        """
        if self.asked_after is None:
            self.asked_after = self._spending.seconds
        if self._spending.is_over:
            raise Exhausted
        if len(self._started) >= self._slots:
            return None
        index = self._next_fitting()
        if index is None:
            if self._started or not self._parked:
                return None
            raise Exhausted
        training = self._parked.pop(index)
        identity = training[0].identity
        self._trials |= {trial.key: trial for trial in training}
        self._started[identity] = _Started(
            waiting={trial.key for trial in training},
            rest=self.estimate(training[0]),
            used=self._spending.of(identity).seconds,
        )
        return training

    def covers_any(self) -> bool:
        """Whether the rest of the budget covers a training."""
        if self._spending.is_over:
            return False
        try:
            return self._next_fitting() is not None or not self._parked
        except Exhausted:
            return False

    @property
    def holds_back(self) -> bool:
        """Whether trainings wait that the rest of the budget has not covered."""
        return bool(self._parked)

    def estimate(self, trial: Trial) -> float | None:
        """Expected seconds until the end of a training that has not begun here; None if unknown."""
        if trial.identity not in self._epochs:
            self._epochs[trial.identity] = self._epochs_left(trial)
        return self._speeds.seconds(trial, self._epochs[trial.identity])

    def epoch(self, key: str, values: Mapping[str, Any]) -> None:
        """A trial has finished an epoch: its speed counts from now on."""
        trial, seconds = self._trials.get(key), values.get("seconds")
        if trial is None or seconds is None:
            return
        self._speeds.learn(trial, seconds, values["epoch"])
        started = self._started.get(trial.identity)
        if started is not None:
            started.rest = self._speeds.seconds(trial, values["epochs"] - values["epoch"])
            started.used = self._spending.of(trial.identity).seconds

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """A trial has ended."""
        self._source.ended(trial, outcome)
        self._spending.update([trial.identity])
        started = self._started.get(trial.identity)
        if started is not None:
            started.waiting.discard(trial.key)
            if not started.waiting:
                del self._started[trial.identity]

    def update(self) -> None:
        """Reads what the running trainings have used."""
        self._spending.update(self._started)

    def _next_fitting(self) -> int | None:
        """Position among the parked trainings of the next one that fits; takes further ones from the source.

        Raises:
            Exhausted: there is no training, parked or in the source.
        """
        parked = self._parked
        free = {limit: self._free(limit) for limit in self._spending.limits}

        def fits(training: Training) -> bool:
            if _seed(training) != _seed(parked[0]):
                return False
            expected = self.estimate(training[0]) or 0.0
            return all(left > 0 and expected * self._share[limit.option] <= left for limit, left in free.items())

        for index, training in enumerate(parked):
            if fits(training):
                return index
        while not parked or _seed(parked[-1]) == _seed(parked[0]):
            try:
                further = self._source.next_training()
            except Exhausted:
                if parked:
                    return None
                raise
            if further is None:
                return None
            parked.append(further)
            if fits(further):
                return len(parked) - 1
        return None

    def _free(self, limit: Limit) -> float:
        """What is left of a limit besides what running trainings are expected to use."""
        left = self._spending.left(limit)
        if limit.option == "--time-budget":
            return left
        rests = (
            max((one.rest or 0.0) - (self._spending.of(identity).seconds - one.used), 0.0)
            for identity, one in self._started.items()
        )
        return left - sum(rests) * self._share[limit.option]


def _seed(training: Training) -> int:
    return training[0].config.seed


class _Known:
    """Durations that are known beforehand."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds

    def learn(self, trial: Trial, seconds: float, epochs: int) -> None:
        """Does nothing."""

    def seconds(self, trial: Trial, epochs: int) -> float | None:
        """The seconds of the training."""
        return self._seconds[trial.identity]


def covered(
    trials: Sequence[Trial],
    seconds: Mapping[str, float],
    budget: Budget,
    used: Mapping[str, Usage],
    *,
    each: Resources,
    slots: int,
) -> set[str]:
    """The trainings that a budget covers if they take as long as estimated: runs them on a clock of its own.

    Args:
        trials: the trials to run, in order.
        seconds: identity -> estimated seconds.
        budget: the limits.
        used: identity -> what a trial has used so far.
        each: cores and GPUs of a trial.
        slots: number of trials at a time.

    Returns:
        Their identities.
    """
    now = [0.0]
    after = dict(used)
    spending = Spending(budget, started=0.0, used=used, read=lambda name: after[name], clock=lambda: now[0])
    source = BudgetedTrials(
        PlannedTrials(trials), spending, each=each, slots=slots, speeds=_Known(seconds), epochs_left=lambda _: 0
    )
    running: list[tuple[float, str]] = []
    begun: dict[str, Training] = {}
    while True:
        try:
            training = source.next_training()
        except Exhausted:
            return set(begun)
        if training is not None:
            name = training[0].identity
            begun[name] = training
            heapq.heappush(running, (now[0] + seconds[name], name))
            continue
        now[0], name = heapq.heappop(running)
        took = seconds[name]
        after[name] = after.get(name, Usage()) + Usage(took, took * each.cpus, took * each.gpus)
        for trial in begun[name]:
            source.ended(trial, Outcome(State.FINISHED))
