"""Estimates time and memory of the missing trials from measured steps; implements --dry-run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from mucon.commands.context import backbones_of, context_lines
from mucon.device import gpu_count
from mucon.errors import EXIT_OK
from mucon.methods import method_named
from mucon.training.measured_step import MeasuredStep, measure_step, memory_of, typical
from mucon.videos import Video, training_videos_of, videos_of, vocabulary_of
from storage import Store, open_store
from sweeps.service.plan.plan import Plan
from sweeps.service.run.budget.admission import balanced, covered, first_trainings
from sweeps.service.run.budget.estimates import epochs_left, makespan, trained
from sweeps.service.run.budget.limits import Budget
from sweeps.service.run.budget.price import Price
from sweeps.service.run.budget.usage import read_all_usage
from sweeps.service.run.resources import Placement
from sweeps.service.run.seeds.growing import GrowingSeeds
from sweeps.service.run.source import priority_first
from sweeps.service.text import duration, say, significant
from sweeps.service.trials.cell_results import keys_to_run
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial, by_training
from sweeps.service.upkeep.retries import earlier_failures

MEASURING_SECONDS = 6.0
"""Seconds for all measurements together; step shapes that are not measured in that time count as the slowest one."""
BUSY_RATIO = 1.7
"""Wall-clock to CPU-time ratio above which the machine is considered busy."""
START_SECONDS = 12.0
"""Seconds of a sweep before its first training and after its last one: imports, Ray, tables, figures and page."""
OVERHEAD_SECONDS = 0.25
"""Seconds that a slot spends on a training besides its steps: request, records, evaluation's start and report."""
PREDICTION_STEPS = 1 / 3
"""Duration of a prediction in training steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Expected time and memory of trainings.

    Attributes:
        trainings: seconds of each training.
        wholes: of each training, the identity that it shares with those that it continues, see `Trial.whole`; they run
            one after the other.
        bounds: seconds of all trainings together with quick steps and with slow ones, see `MeasuredStep.quartiles`; of
            the step shapes that are not measured, the quickest and the slowest one.
        placement: where they run.
        memory: bytes of the largest training; GPU memory if it runs on a GPU.
        steps: the measured steps.
        shapes: of the step shapes, those that were measured.
        n_shapes: number of step shapes among the configurations, see `step_shape`.
        epochs: epochs of all trainings together.
        device: where the steps were measured.
    """

    trainings: tuple[float, ...]
    wholes: tuple[str, ...]
    bounds: tuple[float, float]
    placement: Placement
    memory: int
    steps: tuple[MeasuredStep, ...]
    n_shapes: int
    epochs: int
    device: str = "cpu"
    shapes: tuple[tuple[object, ...], ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds of the whole sweep; one training at a time if the number of slots is unknown."""
        sequences: defaultdict[str, float] = defaultdict(float)
        for whole, seconds in zip(self.wholes, self.trainings, strict=True):
            sequences[whole] += seconds + OVERHEAD_SECONDS
        return START_SECONDS + makespan(list(sequences.values()), self.placement.slots or 1)

    @property
    def idle_share(self) -> float:
        """Share of the expected time that an idle machine needs; 1 if this one is not busy, or if a GPU trains."""
        clock, processor = (
            sum(getattr(step, name) for step in self.steps) for name in ("seconds", "processor_seconds")
        )
        is_busy = not self.placement.each.gpus and clock > BUSY_RATIO * processor
        return processor / clock if is_busy else 1.0

    def cost(self, price: Price) -> str:
        """The line with the cost of all trainings."""
        quick, slow = self.bounds
        return price.line(sum(self.trainings), (quick * self.idle_share, slow), self.placement.each)

    def lines(self) -> Iterator[str]:
        """The lines that a dry run prints."""
        each, slots = self.placement.each, self.placement.slots
        n = len(self.trainings)
        yield f"to run: {n} training{'s' if n > 1 else ''}, {self.placement.at_a_time}, {self.placement}"
        hours = sum(self.trainings) / 3600
        one_by_one = "" if slots else ", one at a time"
        yield (
            f"estimate: {duration(self.seconds)} in total{one_by_one}, {_range(self.trainings)} per training; "
            f"{_hours(hours * each.cpus)} CPU-hours, {_hours(hours * each.gpus)} GPU-hours; "
            f"up to {self.memory / 2**30:.1f} GiB of {'GPU memory' if self.device == 'cuda' else 'memory'} per training"
        )
        times = ", ".join(significant(1000 * step.seconds, 3) for step in self.steps)
        measured = f"{len(self.steps)}{f' of {self.n_shapes}' if len(self.steps) < self.n_shapes else ''}"
        shapes = f", for {measured} kinds of networks" if self.n_shapes > 1 else ""
        yield (
            f"measured: {sum(step.n_steps for step in self.steps)} training steps on a recording of "
            f"{self.steps[0].n_frames} frames ({times} ms per step{shapes}), scaled to all frames of the recordings "
            f"and {self.epochs} epochs; a prediction counts as a third of a step; the total includes "
            f"{START_SECONDS:g} s for start and end and {OVERHEAD_SECONDS:g} s for each training, but not the slowdown "
            "of parallel trials"
        )
        if self.placement.device != self.device:
            yield f"measured on this machine's {self.device}; the GPUs of the cluster may take another time"
        if self.idle_share < 1:
            idle = duration(self.seconds * self.idle_share)
            yield f"other programs are using this machine's cores; estimate for an idle machine: {idle}"


def estimate(
    trials: Sequence[Trial],
    results: ResultsFolder,
    placement: Placement,
    *,
    budget: float = MEASURING_SECONDS,
    measured: Estimate | None = None,
) -> Estimate:
    """Measures training steps of the trials' configurations and extrapolates.

    Args:
        trials: the missing trials, at least one; trials of one training count as one with several evaluations.
        results: the results folder; finished epochs are not counted, nor those of a missing training that another one
            continues.
        placement: where the trials would run.
        budget: seconds for all measurements.
        measured: an earlier estimate, whose steps are used.

    Raises:
        InputError: a configuration cannot be trained.
        StoreError: a problem of the store.
    """
    store = open_store(trials[0].store)
    videos = {place: _parts(store, trial) for place, trial in {(one.split, one.part): one for one in trials}.items()}
    groups = by_training(trials)
    ends = {group[0].identity: group[0].training.last_epoch for group in groups}
    shapes = {_shape(group[0]): group[0] for group in groups}
    steps = {} if measured is None else dict(zip(measured.shapes, measured.steps, strict=True))
    device = "cuda" if placement.device != "cpu" and gpu_count() else "cpu"
    started = time.monotonic()
    for shape, trial in ((shape, trial) for shape, trial in shapes.items() if shape not in steps):
        left = budget - (time.monotonic() - started)
        if steps and left <= 0:
            break
        train = videos[trial.split, trial.part][0]
        labelled = [video for video in train if video.lengths is not None]
        video = typical(labelled if trial.training.labelled and labelled else train, store.manifest.dim)
        steps[shape] = measure_step(
            method_named(trial.method),
            trial.config,
            video,
            vocabulary_of(store),
            device=device,
            seconds=left / (len(shapes) - len(steps)),
        )
    slowest = max(steps.values(), key=lambda step: step.seconds / step.n_frames)
    least = min(step.quartiles[0] / step.n_frames for step in steps.values())
    most = max(step.quartiles[1] / step.n_frames for step in steps.values())
    seconds, memory, epochs, bounds = [], 0, 0, (0.0, 0.0)
    for group in groups:
        step = steps.get(_shape(group[0]), slowest)
        train, test = videos[group[0].split, group[0].part]
        begun = max((ends[one] for one in group[0].continues if one in ends), default=0)
        missing_epochs = min(epochs_left(group[0], results), group[0].training.last_epoch - begun)
        epochs += missing_epochs
        frames = _frames(group, missing_epochs, train, test)
        seconds.append(step.seconds / step.n_frames * frames)
        is_measured = _shape(group[0]) in steps
        quick, slow = (time / step.n_frames for time in step.quartiles) if is_measured else (least, most)
        bounds = bounds[0] + quick * frames, bounds[1] + slow * frames
        memory = max(memory, memory_of(step, train, test))
    return Estimate(
        trainings=tuple(seconds),
        wholes=tuple(group[0].whole for group in groups),
        bounds=bounds,
        placement=placement,
        memory=memory,
        steps=tuple(steps.values()),
        n_shapes=len(shapes),
        epochs=epochs,
        device=device,
        shapes=tuple(steps),
    )


def _context(trials: Sequence[Trial]) -> Iterator[str]:
    """The contexts of the trials' backbones beside the lengths of the segments that the first one learns from."""
    store = open_store(trials[0].store)
    videos = training_videos_of(store, trials[0].split, trials[0].part)
    return context_lines(backbones_of(trial.config for trial in trials), videos, store.manifest.fps)


def _shape(trial: Trial) -> tuple[object, ...]:
    """Equal for trials whose steps take equally long."""
    return method_named(trial.method).step_shape(trial.config)


def _parts(store: Store, trial: Trial) -> tuple[list[Video], list[Video]]:
    return training_videos_of(store, trial.split, trial.part), videos_of(store, trial.split, trial.part)


def _frames(group: Sequence[Trial], epochs: int, train: Sequence[Video], test: Sequence[Video]) -> float:
    """Frames of a training's last epochs, and of its predictions as a share of those."""
    method, config, training = method_named(group[0].method), group[0].config, group[0].training
    n_labelled = sum(video.lengths is not None for video in train)
    visited = method.visited(config, train)
    frames = sum(video.n_frames for video in visited)
    unlabelled = min(getattr(training, "label_free_videos", 0), len(train))  # of MuCon alone
    n_scored = min(training.progress_videos, n_labelled) + unlabelled
    scored = n_scored * frames / len(visited) * -(-epochs // training.progress_every)
    evaluated = len(group) * sum(video.n_frames for video in test)
    between = frames * method.passes_between(config, range(training.last_epoch - epochs, training.last_epoch))
    return epochs * frames + PREDICTION_STEPS * (scored + between + evaluated)


def _range(seconds: Sequence[float]) -> str:
    least, most = duration(min(seconds)), duration(max(seconds))
    return least if least == most else f"{least} to {most}"


def _hours(hours: float) -> str:
    """Hours with two significant digits.

    >>> _hours(0), _hours(0.0123), _hours(12.34)
    ('0', '0.012', '12')
    """
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.2g}"


def dry_run(
    plan: Plan,
    trials: Mapping[str, Trial],
    placement: Placement,
    budget: Budget,
    priority: Collection[str],
    price: Price | None,
    console: Console,
    growth: GrowingSeeds | None = None,
) -> int:
    """Prints every cell with its state, and an estimate for the missing ones; writes nothing.

    The estimate times a few training steps.

    Args:
        plan: the sweep.
        trials: trials by key.
        placement: where they would run.
        budget: limits; cells that they do not cover are marked.
        priority: the rows whose trials run first, as `TABLE: ROW`.
        price: the price at which the cost of the missing cells is printed; None: no cost.
        console: where to print.
        growth: adds seeds to the plan while it runs.

    Returns:
        The exit status.

    Raises:
        InputError: a configuration cannot be trained.
    """
    budget.check(placement.each)
    results = plan.read_results()
    keys = keys_to_run(results)
    to_run = balanced(trials[key] for key in keys)
    to_run = priority_first(plan.parts, to_run, priority)
    to_run = balanced(to_run) if budget.limits else to_run
    expected = estimate(to_run, plan.results, placement) if to_run else None
    chosen = to_run
    if budget.trials is not None:
        chosen = first_trainings(to_run, trained(trials, results, plan.results), budget.trials)
    within = {trial.identity for trial in chosen}
    if expected is not None and budget.metered:
        seconds = dict(zip([group[0].identity for group in by_training(to_run)], expected.trainings, strict=True))
        used = read_all_usage(plan.folder)
        within = covered(chosen, seconds, budget, used, each=placement.each, slots=placement.slots or 1)
    for cell in plan.cells:
        result = results[cell.key]
        reason = f" ({result.reason})" if result.reason else ""
        beyond = "" if cell.key not in keys or cell.identity in within else "; beyond the budget"
        say(console, f"{cell.identity}  {result.state:<8}  {cell}{reason}{beyond}")
    for line in earlier_failures(plan.results, plan.name, results):
        say(console, line)
    if expected is None:
        say(console, "to run: nothing")
        return EXIT_OK
    for line in (*expected.lines(), *_context(to_run)):
        say(console, line)
    if price is not None:
        say(console, expected.cost(price))
    if growth is not None and (further := growth.further()):
        every = estimate([*to_run, *further], plan.results, placement, budget=0.0, measured=expected)
        cost = "" if price is None else f"; {every.cost(price)}"
        total = duration(every.seconds)
        say(console, f"at most, if no row becomes clear: {len(every.trainings)} trainings, {total} in total{cost}")
    if budget.limits:
        n = len(expected.trainings)
        say(console, f"within the budget: {len(within)} of {n} training{'s' * (n > 1)}")
    return EXIT_OK
