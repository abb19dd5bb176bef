"""The training loop of every method: order of the videos, checkpoints, interruption, reports, divergence.

It visits one video per step and knows no method; a `Learner` computes the steps. An interrupted run that is resumed
ends with the same bits as an uninterrupted one.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from mucon import checkpoint_files as files
from mucon.checkpoint_files import Progress, Saved
from mucon.device import full_precision, gpu_count, peak_memory
from mucon.errors import Diverged, InputError, Interrupted, Problem
from mucon.identity.contract import Contract
from mucon.identity.trained_on import TrainedOn
from mucon.training.feed import Feed
from mucon.training_config import CHECKPOINT_SECONDS, Schedule
from mucon.videos import Video
from storage.failpoints import reach
from storage.fencing import ALONE, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """Losses, norms and times of an epoch.

    Attributes:
        epoch: the completed epoch, counted from 1.
        epochs: the epoch after which the run ends.
        step: steps since the start of the run.
        losses: mean of each loss over those videos of the epoch that have it.
        gradient_norms: mean over the optimiser's steps of each parameter group's norm before clipping.
        learning_rate: rate of the epoch.
        seconds: wall time spent training since the start of the run.
        steps_per_second: speed of the epoch's steps in this process.
        memory: peak memory in bytes, of the GPU if one is used, otherwise of the process.
        progress: scores on a few training videos with known lengths, such as `full.mof`, and scores that need no
            label, such as `label_free.agreement`; empty for epochs without scores (see `training.progress_every`).
    """

    epoch: int
    epochs: int
    step: int
    losses: dict[str, float]
    gradient_norms: dict[str, float]
    learning_rate: float
    seconds: float
    steps_per_second: float
    memory: int
    progress: dict[str, float] = field(default_factory=dict)

    def metrics(self) -> dict[str, float]:
        """All numbers under flat names such as `loss.total` and `gradient_norm.encoder`."""
        return {
            **{f"loss.{name}": value for name, value in self.losses.items()},
            **{f"gradient_norm.{name}": value for name, value in self.gradient_norms.items()},
            "learning_rate": self.learning_rate,
            "seconds": self.seconds,
            "steps_per_second": self.steps_per_second,
            "memory_mib": self.memory / 2**20,
            **{f"progress.{name}": value for name, value in self.progress.items()},
        }


class Learner(Protocol):
    """A method's part of training: a network, its optimiser and one step. Created with the state to resume from.

    Attributes:
        seed: seed of the order of the videos and of the random numbers in each step.
        schedule: settings of the loop.
        device: device of the features and of the returned tensors.
        dtype: type of the features.
        videos: the videos of each epoch, ordered by id.
        trained_on: those videos and their source, for the checkpoint.
        progress: position from which training resumes.
        accumulate: number of steps whose gradients are applied together; training stops only between such groups.
        norms: name of each parameter group -> number of an epoch's steps that apply gradients.
    """

    seed: int
    schedule: Schedule
    device: torch.device
    dtype: torch.dtype
    videos: Sequence[Video]
    trained_on: TrainedOn
    progress: Progress
    accumulate: int
    norms: Mapping[str, int]

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""

    def losses(self, epoch: int) -> Mapping[str, int]:
        """Name of each loss of an epoch, counted from 0 -> number of its steps that have it: its mean is over those."""

    def begin_epoch(self, epoch: int) -> None:
        """Prepares an epoch, counted from 0; called before its first step, but not when it is resumed in its middle.

        Must depend on nothing but the weights, the state in `saved` and torch's random generator, whose state depends
        on seed and epoch alone.
        """

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """Computes the losses of one video and their gradients, and applies them at the end of a group.

        Called with torch's random generator in a state that depends on seed, epoch and step alone. Must not read a
        value back from the device.

        Args:
            index: position in `videos`.
            features: `[T, D]`, of `dtype`.
            epoch: counted from 0.
            step: position in the epoch's order.
            rate: learning rate.

        Returns:
            `[losses + norms]`, detached, in the order of their names; 0 where this step has none.
        """

    def weights_are_finite(self) -> bool:
        """Whether all weights are finite."""

    def scores(self) -> dict[str, float]:
        """Scores on a few training videos, such as `frames.mof`; changes neither weights nor random generators."""

    def saved(self, progress: Progress) -> Saved:
        """The content of the checkpoint at a position; the last one (`progress.finished`) includes the facts."""


def epoch_order(n_videos: int, seed: int, epoch: int) -> list[int]:
    """The order of the videos in an epoch; depends on nothing but its arguments."""
    order: list[int] = np.random.default_rng([seed, epoch]).permutation(n_videos).tolist()
    return order


def step_seed(seed: int, epoch: int, step: int) -> int:
    """The seed of a step's random numbers; depends on nothing but its arguments."""
    return _seed_of(seed, epoch, step)


def _seed_of(*words: int) -> int:
    """A seed of torch's generators that depends on all the words."""
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


EPOCH_START = 0xBE9
"""Word of the seed that belongs to the start of an epoch alone."""


@contextlib.contextmanager
def _machine(threads: int) -> Iterator[None]:
    """Sets the number of threads and full precision; restores both and the random generators afterwards."""
    before = torch.get_num_threads()
    with full_precision(), torch.random.fork_rng(devices=range(gpu_count())):
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def means(counts: Mapping[str, int], sums: Tensor) -> dict[str, float]:
    """Means by name of sums `[K]` over so many steps each."""
    return {name: value / count for (name, count), value in zip(counts.items(), sums.tolist(), strict=True)}


class Loop:
    """Trains a learner in a run folder.

    Args:
        learner: its state is that of `folder/checkpoint` if there is one.
        folder: the run folder.
        checkpoint_seconds: seconds after which the next checkpoint is due, also within an epoch; 0: one after every
            epoch.
        writer: the right to write into the run folder.
    """

    def __init__(
        self,
        learner: Learner,
        folder: Path,
        *,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        writer: Writer = ALONE,
    ) -> None:
        self.learner = learner
        self.checkpoint_seconds, self.writer = checkpoint_seconds, writer
        self.saved_at = time.monotonic()
        self.path = folder / "checkpoint"
        self.labelled_path = folder / "labelled.json"
        self.progress = learner.progress
        choice = learner.schedule.device_resident
        self.feed = Feed(learner.videos, learner.device, learner.dtype, choice=choice)
        self.began = time.perf_counter()
        self.spent_before = self.progress.seconds

    def run(
        self, report: Callable[[EpochReport], None] | None = None, should_stop: Callable[[], bool] | None = None
    ) -> None:
        """Trains the remaining epochs.

        Args:
            report: called after each epoch, before a checkpoint is written: no epoch is lost, and the epochs after the
                last checkpoint are reported again, with the same losses, if the process dies.
            should_stop: called before each step; if it returns true, training stops with a checkpoint.

        Raises:
            InputError: the labelled videos differ from those at the start of the run.
            Interrupted: `should_stop` returned true; call again to resume.
            Diverged: a loss, a gradient or a weight became NaN or infinite; the last checkpoint is kept.
            SupersededError: another process has taken over the run folder.
        """
        schedule = self.learner.schedule
        with _machine(schedule.threads), self.feed:
            self._record_labelled()
            for epoch in range(self.progress.epoch, schedule.last_epoch):
                self._epoch(epoch, report, should_stop)
            if not self.progress.finished:
                self._save(Progress(epoch=schedule.last_epoch, seconds=self._seconds(), finished=True))

    def _record_labelled(self) -> None:
        """Writes the ids of the labelled videos, or compares them with those at the start of the run."""
        names = [video.id for video in self.learner.videos if video.labelled]
        path = self.labelled_path
        if self.progress.finished:
            return
        if path.exists() and files.exists(self.path):
            before = json.loads(path.read_text(encoding="utf-8"))["videos"]
            if before != names:
                changed = sorted({*before} ^ {*names})
                raise InputError(
                    Problem(
                        rule="mismatch",
                        place=str(path),
                        value=tuple(changed),
                        message=f"the labelled videos of this run have changed ({len(changed)} differ)",
                        hint="restore their annotation, or choose another folder: earlier versions labelled other "
                        "videos for the same share and seed",
                    )
                )
        elif names:
            self.writer.confirm()
            path.parent.mkdir(parents=True, exist_ok=True)
            self.writer.write(path, (json.dumps({"n": len(names), "videos": names}) + "\n").encode())

    def _epoch(
        self, epoch: int, report: Callable[[EpochReport], None] | None, should_stop: Callable[[], bool] | None
    ) -> None:
        learner = self.learner
        rate, losses = learner.rate(epoch), learner.losses(epoch)
        names = [*losses, *learner.norms]
        order = epoch_order(len(learner.videos), learner.seed, epoch)
        begun = self.progress.sums
        sums = torch.tensor([begun.get(name, 0.0) for name in names], dtype=torch.float64, device=learner.device)
        first = self.progress.step_in_epoch
        history = torch.zeros(len(order), len(names), device=learner.device)
        start = time.perf_counter()
        for step in range(first, len(order)):
            if step % learner.accumulate == 0:
                stops = should_stop is not None and should_stop()
                if stops or (self.checkpoint_seconds > 0 and step > first and self._checkpoint_is_due()):
                    self._check(history[first:step], order[first:step], epoch)
                    so_far = dict(zip(names, sums.tolist(), strict=True))
                    self._save(Progress(epoch=epoch, step_in_epoch=step, sums=so_far, seconds=self._seconds()))
                if stops:
                    message = f"stopped in epoch {epoch + 1} after {step} videos; the checkpoint is in {self.path}"
                    raise Interrupted(message)
            if step == 0:
                torch.manual_seed(_seed_of(learner.seed, epoch, 0, EPOCH_START))
                learner.begin_epoch(epoch)
            history[step] = values = self._step(
                order[step], epoch, step, rate, next(iter(order[step + 1 : step + 2]), None)
            )
            sums += values
            reach("training.step")
        self._check(history[first:], order[first:], epoch)
        duration = time.perf_counter() - start
        done = EpochReport(
            epoch=epoch + 1,
            epochs=learner.schedule.last_epoch,
            step=(epoch + 1) * len(order),
            learning_rate=rate,
            seconds=self._seconds(),
            steps_per_second=(len(order) - first) / max(duration, 1e-9),
            memory=torch.cuda.max_memory_allocated(learner.device) if learner.device.type == "cuda" else peak_memory(),
            progress=self._scores(epoch + 1),
            losses=means(losses, sums[: len(losses)]),
            gradient_norms=means(learner.norms, sums[len(losses) :]),
        )
        if report is not None:
            report(done)
        reach("training.epoch")
        self.progress = Progress(epoch=epoch + 1, seconds=done.seconds, finished=epoch + 1 == done.epochs)
        if self.progress.finished or self._checkpoint_is_due():
            self._save(self.progress)

    def _step(self, index: int, epoch: int, step: int, rate: float, then: int | None = None) -> Tensor:
        torch.manual_seed(step_seed(self.learner.seed, epoch, step))
        features = self.feed.get(index, then)
        return self.learner.step(index, features, epoch=epoch, step=step, rate=rate)

    def _scores(self, epoch: int) -> dict[str, float]:
        schedule = self.learner.schedule
        if epoch % schedule.progress_every and epoch != schedule.last_epoch:
            return {}
        return self.learner.scores()

    def _check(self, history: Tensor, order: Sequence[int], epoch: int) -> None:
        """Checks the losses and norms of steps `[steps, K]`, once after all of them, and the weights."""
        bad = ~torch.isfinite(history)
        if bool(bad.any()):
            step = int(bad.any(dim=1).nonzero()[0])
            kinds = [f"loss.{name}" for name in self.learner.losses(epoch)]
            kinds += [f"gradient_norm.{name}" for name in self.learner.norms]
            wrong = [kind for kind, is_bad in zip(kinds, bad[step].tolist(), strict=True) if is_bad]
            raise Diverged(
                f"training diverged in epoch {epoch + 1} at video {self.learner.videos[order[step]].id!r}: "
                f"{', '.join(wrong)} became NaN or infinite; lower training.learning_rate"
            )
        if not self.learner.weights_are_finite():
            raise Diverged(
                f"training diverged in epoch {epoch + 1}: weights became NaN or infinite; lower training.learning_rate"
            )

    def _checkpoint_is_due(self) -> bool:
        return time.monotonic() - self.saved_at >= self.checkpoint_seconds

    def _seconds(self) -> float:
        return self.spent_before + time.perf_counter() - self.began

    def _save(self, progress: Progress) -> None:
        learner = self.learner
        saved = replace(learner.saved(progress), trained_on=learner.trained_on)
        if progress.finished:
            contract = Contract.of(learner.videos, saved.vocabulary, learner.trained_on.source)
            saved = replace(saved, contract=contract)
        files.write(self.path, saved, self.writer)
        self.progress, self.saved_at = progress, time.monotonic()
