"""How long trainings take, from those that are recorded: seconds per epoch of equal steps, or of the same method."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mucon.methods import method_named
from sweeps.service.run.budget.usage import Usage
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import TO_RUN, State
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial


@dataclass(slots=True)
class _Mean:
    """The mean of values that are replaced one at a time.

    Attributes:
        values: identity of a training -> value.
        total: sum of the values.
    """

    values: dict[str, float] = field(default_factory=dict)
    total: float = 0.0

    def put(self, identity: str, value: float) -> None:
        self.total += value - self.values.get(identity, 0.0)
        self.values[identity] = value

    @property
    def mean(self) -> float | None:
        return self.total / len(self.values) if self.values else None


class RecordedSpeeds:
    """Seconds per epoch of the trainings of a sweep that have been recorded."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[object, ...]] = {}
        self._of_kind: defaultdict[tuple[object, ...], _Mean] = defaultdict(_Mean)
        self._of_method: defaultdict[str, _Mean] = defaultdict(_Mean)

    def learn(self, trial: Trial, seconds: float, epochs: int) -> None:
        """Records that so many epochs of a training have taken so many seconds; replaces what was known of it."""
        if epochs > 0 and seconds > 0:
            for mean in (self._of_kind[self._kind(trial)], self._of_method[trial.method]):
                mean.put(trial.identity, seconds / epochs)

    def seconds(self, trial: Trial, epochs: int) -> float | None:
        """Expected seconds of some epochs of a training; None if no training of its method is recorded.

        Its own speed counts first, then those of the same method, split and kind of network, then all of the method.
        """
        same = self._of_kind[self._kind(trial)]
        speed = same.values.get(trial.identity, same.mean)
        speed = self._of_method[trial.method].mean if speed is None else speed
        return None if speed is None else max(epochs, 1) * speed

    def _kind(self, trial: Trial) -> tuple[object, ...]:
        """Equal for trainings whose epochs take equally long."""
        if trial.identity not in self._kinds:
            shape = method_named(trial.method).step_shape(trial.config)
            self._kinds[trial.identity] = (trial.method, trial.split, shape)
        return self._kinds[trial.identity]


def makespan(seconds: Sequence[float], slots: int) -> float:
    """Time at which the last task ends if tasks start in this order, each as soon as a slot is free.

    >>> makespan([4, 3, 2, 2], 2), makespan([], 3)
    (6.0, 0.0)
    """
    ends = [0.0] * slots
    for task in seconds:
        heapq.heapreplace(ends, ends[0] + task)
    return max(ends)


def recorded_speeds(
    trials: Mapping[str, Trial],
    results: Mapping[str, CellResult],
    folder: ResultsFolder,
    used: Mapping[str, Usage],
) -> RecordedSpeeds:
    """The speeds of a sweep's trainings as they are recorded now.

    Args:
        trials: trials by key.
        results: state and scores by key.
        folder: the results folder, with the journals of unfinished trials.
        used: identity -> what a trial has used in this sweep, with the start of its process and its evaluations.
    """
    speeds = RecordedSpeeds()
    for key, result in results.items():
        trial = trials[key]
        if result.training_seconds is not None:
            seconds = max(result.training_seconds, used.get(trial.identity, Usage()).seconds)
            speeds.learn(trial, seconds, trial.training.last_epoch)
        elif result.state not in (State.MISSING, State.DAMAGED, State.FAILED):
            durations = folder.reading(trial.identity).curve("seconds")
            if durations:
                epoch, seconds = durations[-1]
                speeds.learn(trial, seconds, epoch)
    return speeds


def epochs_left(trial: Trial, folder: ResultsFolder) -> int:
    """The number of epochs that a training needs, without those that are recorded."""
    reading = folder.reading(trial.identity)
    if reading.damage is not None:
        return trial.training.last_epoch
    earlier = (folder.reading(identity) for identity in trial.continues)
    begun = max(reading.n_epochs, *(one.n_epochs for one in earlier if one.damage is None and one.is_trained), 0)
    return 0 if reading.is_trained else max(trial.training.last_epoch - begun, 0)


def trained(trials: Mapping[str, Trial], results: Mapping[str, CellResult], folder: ResultsFolder) -> set[str]:
    """Identities of the trainings that have ended: with weights, or by diverging."""
    return {
        trials[key].identity
        for key, result in results.items()
        if result.state not in TO_RUN or folder.trial(trials[key].identity).training_path.exists()
    }
