"""Weakly supervised training: one video a step, the same bits however often it is interrupted."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mucon import checkpoint as checkpoints
from mucon.checkpoint import Checkpoint, Progress
from mucon.config import TrainConfig
from mucon.device import choose_device
from mucon.errors import Diverged, InputError, Interrupted
from mucon.failpoints import reach
from mucon.model import MuConNetwork, NetworkSize, build_model
from mucon.step import TERMS, Optimiser, loss_vector, video_losses
from mucon.videos import Video, check_training_videos
from mucon.vocabulary import Vocabulary

NORMS = ("encoder", "decoder")
RESIDENT_BYTES = 1 << 30
"""Features are kept on the device as float32 where all of them take at most this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """What an epoch was like.

    Attributes:
        epoch: just completed, counted from 1.
        epochs: of the whole run.
        step: steps done since the start of the run.
        losses: means over the epoch's videos, by term.
        gradient_norms: means of the norms before clipping, by parameter group.
        learning_rate: of the epoch.
        seconds: wall time spent training since the start of the run.
        steps_per_second: of the epoch's steps in this process.
    """

    epoch: int
    epochs: int
    step: int
    losses: dict[str, float]
    gradient_norms: dict[str, float]
    learning_rate: float
    seconds: float
    steps_per_second: float

    def metrics(self) -> dict[str, float]:
        """All numbers under flat names, as `loss.total` and `gradient_norm.encoder`."""
        return {
            **{f"loss.{name}": value for name, value in self.losses.items()},
            **{f"gradient_norm.{name}": value for name, value in self.gradient_norms.items()},
            "learning_rate": self.learning_rate,
            "seconds": self.seconds,
            "steps_per_second": self.steps_per_second,
        }


def train(
    config: TrainConfig,
    videos: Sequence[Video],
    vocabulary: Vocabulary,
    *,
    folder: Path,
    device: str = "auto",
    report: Callable[[EpochReport], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> None:
    """Trains until the last epoch, from `folder/checkpoint` where there is one.

    Args:
        config: all choices.
        videos: with transcripts; their order does not matter.
        vocabulary: the actions.
        folder: becomes the run's folder; `folder/checkpoint` is written after each epoch and when stopped.
        device: `auto`, `cpu`, `cuda` or `cuda:0`.
        report: called after each epoch, before its checkpoint: an epoch is never lost, and reported again (with the
            same losses) only when the process died between the two.
        should_stop: asked before each step; true stops with a checkpoint.

    Raises:
        InputError: videos or a checkpoint that do not fit, all problems told at once.
        Interrupted: `should_stop` said so; call again to go on to the same bits.
        Diverged: a loss, a gradient or a weight became NaN or infinite. The last checkpoint stands.
    """
    dim = check_training_videos(videos, vocabulary)
    run = _Run(config, sorted(videos, key=lambda v: v.id), vocabulary, Path(folder), choose_device(device), dim)
    with _machine(config.training.threads):
        run.go(report, should_stop)


@contextlib.contextmanager
def _machine(threads: int) -> Iterator[None]:
    """Sets the number of threads, and gives it and the random generators back afterwards."""
    before = torch.get_num_threads()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def epoch_order(n_videos: int, seed: int, epoch: int) -> list[int]:
    """The order of the videos in an epoch; depends on nothing but its arguments."""
    order: list[int] = np.random.default_rng([seed, epoch]).permutation(n_videos).tolist()
    return order


def step_seed(seed: int, epoch: int, step: int) -> int:
    """The seed of a step's dropout; depends on nothing but its arguments."""
    return int(np.random.SeedSequence([seed, epoch, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class _Run:
    """The state of one call of `train`: a model, its optimiser and how far they have come."""

    def __init__(
        self,
        config: TrainConfig,
        videos: list[Video],
        vocabulary: Vocabulary,
        folder: Path,
        device: torch.device,
        dim: int,
    ) -> None:
        self.config = config
        self.videos = videos
        self.vocabulary = vocabulary
        self.path = folder / "checkpoint"
        self.device = device
        longest = max(len(video.transcript) for video in videos)
        size = NetworkSize(dim=dim, n_actions=vocabulary.n_actions, max_segments=math.ceil(1.5 * longest) + 5)
        self.progress = Progress()
        self.model = self._start(size)
        self.optimiser = Optimiser(self.model, config.training)
        self.transcripts = [torch.tensor(video.transcript, device=device) for video in videos]
        resident = sum(video.n_frames for video in videos) * dim * 4 <= RESIDENT_BYTES
        self.resident: list[Tensor] | None = [video.features(device) for video in videos] if resident else None
        self.began = time.perf_counter()
        self.spent_before = self.progress.seconds

    def _start(self, size: NetworkSize) -> MuConNetwork:
        if not checkpoints.exists(self.path):
            model = build_model(size, self.config.backbone, self.config.segment_branch, seed=self.config.seed)
            return model.to(self.device)
        found = checkpoints.load(self.path, self.device)
        asked, had = self.config.trained_differences(), found.config.trained_differences()
        if (asked, self.config.seed, size, self.vocabulary) != (
            had,
            found.config.seed,
            found.model.size,
            found.vocabulary,
        ):
            changed = sorted(key for key in {*asked, *had} if asked.get(key) != had.get(key))
            raise InputError(
                f"{self.path} holds another run (different: {', '.join(changed) or 'seed or data'}): "
                "choose another folder, or the configuration that it was started with"
            )
        self.progress = found.progress
        return found.model

    def go(self, report: Callable[[EpochReport], None] | None, should_stop: Callable[[], bool] | None) -> None:
        """Trains the epochs that are left."""
        self.model.train()
        for epoch in range(self.progress.epoch, self.config.training.epochs):
            self._epoch(epoch, report, should_stop)
        if not self.progress.finished:
            self._save(Progress(epoch=self.config.training.epochs, seconds=self._seconds(), finished=True))

    def _epoch(
        self, epoch: int, report: Callable[[EpochReport], None] | None, should_stop: Callable[[], bool] | None
    ) -> None:
        rate = self.config.training.rate(epoch)
        order = epoch_order(len(self.videos), self.config.seed, epoch)
        names = [*TERMS, *NORMS]
        begun = self.progress.sums
        sums = torch.tensor([begun.get(name, 0.0) for name in names], dtype=torch.float64, device=self.device)
        first = self.progress.step_in_epoch
        start = time.perf_counter()
        for step in range(first, len(order)):
            if should_stop is not None and should_stop():
                self._stop(epoch, step, dict(zip(names, sums.tolist(), strict=True)))
            sums += self._step(order[step], epoch, step, rate)
            reach("training.step")
        values = sums.tolist()
        self._check(values, epoch)
        self._check_weights(epoch)
        duration = time.perf_counter() - start
        means = {name: value / len(order) for name, value in zip(names, values, strict=True)}
        done = EpochReport(
            epoch=epoch + 1,
            epochs=self.config.training.epochs,
            step=(epoch + 1) * len(order),
            losses={name: means[name] for name in TERMS},
            gradient_norms={name: means[name] for name in NORMS},
            learning_rate=rate,
            seconds=self._seconds(),
            steps_per_second=(len(order) - first) / max(duration, 1e-9),
        )
        if report is not None:
            report(done)
        reach("training.epoch")
        self._save(Progress(epoch=epoch + 1, seconds=done.seconds, finished=epoch + 1 == done.epochs))

    def _step(self, index: int, epoch: int, step: int, rate: float) -> Tensor:
        torch.manual_seed(step_seed(self.config.seed, epoch, step))
        features = self.resident[index] if self.resident is not None else self.videos[index].features(self.device)
        transcript = self.transcripts[index]
        terms = video_losses(self.model(features, transcript), transcript, self.config.mask, self.config.loss)
        torch.autograd.backward(terms["total"])
        return torch.cat((loss_vector(terms), self.optimiser.step(rate)))

    def _check(self, sums: list[float], epoch: int) -> None:
        names = (*(f"the loss {name}" for name in TERMS), *(f"the gradient of the {name}" for name in NORMS))
        wrong = [name for name, value in zip(names, sums, strict=True) if not math.isfinite(value)]
        if wrong:
            raise Diverged(
                f"training diverged in epoch {epoch + 1}: {', '.join(wrong)} became NaN or infinite; "
                "lower training.learning_rate"
            )

    def _check_weights(self, epoch: int) -> None:
        if not bool(torch.isfinite(self.optimiser.weights).all()):
            raise Diverged(
                f"training diverged in epoch {epoch + 1}: weights became NaN or infinite; lower training.learning_rate"
            )

    def _stop(self, epoch: int, step: int, sums: dict[str, float]) -> None:
        self._check(list(sums.values()), epoch)
        self._check_weights(epoch)
        self._save(Progress(epoch=epoch, step_in_epoch=step, sums=sums, seconds=self._seconds()))
        raise Interrupted(f"stopped in epoch {epoch + 1} after {step} videos; the checkpoint is in {self.path}")

    def _seconds(self) -> float:
        return self.spent_before + time.perf_counter() - self.began

    def _save(self, progress: Progress) -> None:
        checkpoints.save(self.path, Checkpoint(self.model, self.config, self.vocabulary, progress))
        self.progress = progress
