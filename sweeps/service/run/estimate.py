"""What the trials that are missing will take, from measured steps and the lengths of the recordings."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from mucon.errors import EXIT_OK
from mucon.training.feed import RESIDENT_BYTES
from mucon.videos import Video, videos_of, vocabulary_of
from storage import Store, open_store
from sweeps.service.plan.plan import Plan
from sweeps.service.run.measured_step import MeasuredStep, measure_step, step_shape, typical
from sweeps.service.run.resources import Placement
from sweeps.service.text import duration, say, significant
from sweeps.service.trials.folder import TO_RUN
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial, by_training

BUDGET = 6.0
"""Seconds for all measurements together; shapes of configurations that come later are taken to be as the slowest."""
BUSY = 1.7
"""So many times more by the clock than of the processor's time, and a step was kept waiting by other programs."""
FORWARD = 1 / 3
"""Share of a training step that a prediction takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What is to come.

    Attributes:
        trainings: seconds of each.
        placement: where they compute.
        memory: bytes that the largest needs, of the GPU where it computes on one.
        steps: what was measured.
        n_shapes: configurations whose steps differ.
        epochs: of all trainings together.
    """

    trainings: tuple[float, ...]
    placement: Placement
    memory: int
    steps: tuple[MeasuredStep, ...]
    n_shapes: int
    epochs: int

    @property
    def seconds(self) -> float:
        """Until the last one ends; one after another where nothing is known of the machines."""
        return makespan(self.trainings, self.placement.slots or 1)

    def lines(self) -> Iterator[str]:
        """What a dry run prints."""
        each, slots = self.placement.each, self.placement.slots
        n = len(self.trainings)
        at_a_time = f"{slots} at a time" if slots else "as many at a time as the cluster of RAY_ADDRESS has room for"
        yield f"to run: {n} training{'s' if n > 1 else ''}, {at_a_time}, on {self.placement.device}, {each}"
        hours = sum(self.trainings) / 3600
        after = "" if slots else ", one after another"
        yield (
            f"estimate: {duration(self.seconds)} in all{after}, {_range(self.trainings)} for each; "
            f"{_hours(hours * each.cpus)} CPU-hours, {_hours(hours * each.gpus)} GPU-hours; "
            f"up to {self.memory / 2**30:.1f} GiB of {'GPU memory' if each.gpus else 'memory'} for each"
        )
        told = ", ".join(significant(1000 * step.seconds, 3) for step in self.steps)
        more = f" of {self.n_shapes}" if len(self.steps) < self.n_shapes else ""
        kinds = f"each, for {len(self.steps)}{more} kinds of network" if self.n_shapes > 1 else "each"
        yield (
            f"measured: {sum(step.n_steps for step in self.steps)} training steps here on a recording of "
            f"{self.steps[0].n_frames} frames ({told} ms {kinds}), stretched to "
            f"all recordings' frames and {self.epochs} epochs; a prediction counted as a third of a step. "
            "It is an estimate: trials beside each other slow each other down, and the start of Ray is not in it"
        )
        clock, processor = (
            sum(getattr(step, name) for step in self.steps) for name in ("seconds", "processor_seconds")
        )
        if not each.gpus and clock > BUSY * processor:
            alone = duration(self.seconds * processor / clock)
            yield f"other programs use this machine's cores: by itself it may take {alone}"


def makespan(seconds: Sequence[float], slots: int) -> float:
    """When the last of some tasks ends that are begun in this order, as soon as one of the slots is free.

    >>> makespan([4, 3, 2, 2], 2), makespan([], 3)
    (6.0, 0.0)
    """
    ends = [0.0] * slots
    for each in seconds:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)


def estimate(
    trials: Sequence[Trial], results: ResultsFolder, placement: Placement, *, budget: float = BUDGET
) -> Estimate:
    """Measures steps of the trials' configurations, and tells what all of them will take.

    Args:
        trials: the missing ones, at least one; those of one training count as one with several evaluations.
        results: the results folder; epochs that a trial has done already are not counted.
        placement: where they would compute.
        budget: seconds for all measurements.

    Raises:
        InputError: a configuration that cannot be trained.
        StoreError: whatever is wrong with the store.
    """
    store = open_store(trials[0].store)
    videos = {trial.split: _parts(store, trial) for trial in trials}
    groups = by_training(trials)
    shapes = {step_shape(group[0].config): group[0] for group in groups}
    steps: dict[tuple[object, ...], MeasuredStep] = {}
    began = time.monotonic()
    for shape, trial in shapes.items():
        left = budget - (time.monotonic() - began)
        if steps and left <= 0:
            break
        train = videos[trial.split][0]
        known = [video for video in train if video.lengths is not None]
        video = typical(known if trial.config.training.labelled and known else train, store.manifest.dim)
        steps[shape] = measure_step(
            trial.config,
            video,
            vocabulary_of(store),
            device=placement.device,
            seconds=left / (len(shapes) - len(steps)),
        )
    slowest = max(steps.values(), key=lambda step: step.seconds / step.n_frames)
    seconds, memory, epochs = [], 0, 0
    for group in groups:
        step = steps.get(step_shape(group[0].config), slowest)
        train, test = videos[group[0].split]
        left_to_do = _epochs_left(group[0], results)
        epochs += left_to_do
        seconds.append(_seconds(group, left_to_do, step, train, test))
        memory = max(memory, _memory(step, train, test))
    return Estimate(
        trainings=tuple(seconds),
        placement=placement,
        memory=memory,
        steps=tuple(steps.values()),
        n_shapes=len(shapes),
        epochs=epochs,
    )


def _parts(store: Store, trial: Trial) -> tuple[list[Video], list[Video]]:
    return videos_of(store, trial.split, "train"), videos_of(store, trial.split, trial.part)


def _epochs_left(trial: Trial, results: ResultsFolder) -> int:
    reading = results.reading(trial.identity)
    return 0 if reading.is_trained else max(trial.config.training.epochs - reading.n_epochs, 0)


def _seconds(
    group: Sequence[Trial], epochs: int, step: MeasuredStep, train: Sequence[Video], test: Sequence[Video]
) -> float:
    """A training's epochs, the scores during it, and its evaluations."""
    training = group[0].config.training
    known = sum(video.lengths is not None for video in train)
    frames = sum(video.n_frames for video in train)
    shown = min(training.progress_videos, known) * frames / len(train) * -(-epochs // training.progress_every)
    evaluated = len(group) * sum(video.n_frames for video in test)
    return step.seconds / step.n_frames * (epochs * frames + FORWARD * (shown + evaluated))


def _memory(step: MeasuredStep, train: Sequence[Video], test: Sequence[Video]) -> int:
    """The program, the features that are kept, and a step on the longest recording."""
    longest = max(video.n_frames for video in (*train, *test))
    features = sum(video.n_frames for video in train) * train[0].dim * 4
    kept = features if features <= RESIDENT_BYTES else longest * train[0].dim * 4
    return step.program_bytes + kept + round(step.working_bytes * longest / step.n_frames)


def _range(seconds: Sequence[float]) -> str:
    least, most = duration(min(seconds)), duration(max(seconds))
    return least if least == most else f"{least} to {most}"


def _hours(hours: float) -> str:
    """Hours with two digits that say something.

    >>> _hours(0), _hours(0.0123), _hours(12.34)
    ('0', '0.012', '12')
    """
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.2g}"


def dry_run(plan: Plan, trials: Mapping[str, Trial], placement: Placement, console: Console) -> int:
    """Prints every cell with what is known of it, and what those that are missing would take; nothing is written.

    A few training steps are timed for it, where something is missing.

    Args:
        plan: the sweep.
        trials: by key.
        placement: where they would compute.
        console: to print on.

    Returns:
        The exit status.

    Raises:
        InputError: a configuration that cannot be trained.
    """
    results = plan.read_results()
    for cell in plan.cells:
        result = results[cell.key]
        reason = f" ({result.reason})" if result.reason else ""
        say(console, f"{cell.identity}  {result.state:<8}  {cell}{reason}")
    to_run = [trials[key] for key, result in results.items() if result.state in TO_RUN]
    if not to_run:
        say(console, "to run: nothing")
        return EXIT_OK
    for line in estimate(to_run, plan.results, placement).lines():
        say(console, line)
    return EXIT_OK
