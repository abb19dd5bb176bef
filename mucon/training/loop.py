"""Training from transcripts, and from frame labels where a video shows them: one video a step.

However often it is interrupted, the bits are the same.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mucon import checkpoint as checkpoints
from mucon.checkpoint import Checkpoint, Progress
from mucon.config import TrainConfig
from mucon.decoding.config import DecodingConfig
from mucon.device import choose_device, peak_memory, usable_precision
from mucon.errors import DataWarning, Diverged, InputError, Interrupted
from mucon.inference.training_facts import training_facts
from mucon.model import MuConNetwork, NetworkSize, build_model
from mucon.training.feed import Feed
from mucon.training.optimiser import Optimiser
from mucon.training.progress import progress_scores, videos_to_score
from mucon.training.step import SUPERVISED_TERMS, TERMS, FrameLabels, compiled_video_losses, loss_vector, video_losses
from mucon.training.supervision import with_labels
from mucon.training.warm_start import warm_start
from mucon.videos import Video, check_training_videos, warn_of_short_videos
from mucon.vocabulary import Vocabulary
from storage.failpoints import reach

NORMS = ("encoder", "decoder")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """What an epoch was like.

    Attributes:
        epoch: just completed, counted from 1.
        epochs: of the whole run.
        step: steps done since the start of the run.
        losses: means over the epoch's videos, by term; those of `SUPERVISED_TERMS` over its labelled videos.
        gradient_norms: means over the optimiser's steps of the norms before clipping, by parameter group.
        learning_rate: of the epoch.
        seconds: wall time spent training since the start of the run.
        steps_per_second: of the epoch's steps in this process.
        memory: most bytes held so far, of the GPU where there is one, else of the process.
        progress: scores on a few training videos with known lengths, as `full.mof`; empty between the epochs that
            `training.progress_every` names, and where no lengths are known.
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
        """All numbers under flat names, as `loss.total` and `gradient_norm.encoder`."""
        return {
            **{f"loss.{name}": value for name, value in self.losses.items()},
            **{f"gradient_norm.{name}": value for name, value in self.gradient_norms.items()},
            "learning_rate": self.learning_rate,
            "seconds": self.seconds,
            "steps_per_second": self.steps_per_second,
            "memory_mib": self.memory / 2**20,
            **{f"progress.{name}": value for name, value in self.progress.items()},
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
        videos: with transcripts; their order does not matter. Those that are labelled, and the share
            `training.labelled` beside them, are learnt from with their lengths.
        vocabulary: the actions.
        folder: becomes the run's folder; `folder/checkpoint` is written after each epoch and when stopped, and
            `folder/labelled.json` names the labelled videos.
        device: `auto`, `cpu`, `cuda` or `cuda:0`.
        report: called after each epoch, before its checkpoint: an epoch is never lost, and reported again (with the
            same losses) only when the process died between the two.
        should_stop: asked before each step; true stops with a checkpoint.

    Raises:
        InputError: videos or a checkpoint that do not fit, all problems told at once.
        Interrupted: `should_stop` said so; call again to go on to the same bits.
        Diverged: a loss, a gradient or a weight became NaN or infinite; the message names the video at which it did.
            The last checkpoint stands.

    Warns:
        DataWarning: recordings shorter than a latent frame, or with more segments than latent frames.
    """
    dim = check_training_videos(videos, vocabulary)
    _check_decoding(config.decoding, videos)
    warn_of_short_videos(videos, config.backbone.pooling)
    labelled = with_labels(sorted(videos, key=lambda v: v.id), config.training.labelled, config.seed)
    run = _Run(config, labelled, vocabulary, Path(folder), choose_device(device), dim)
    with _machine(config.training.threads), run.feed:
        run.go(report, should_stop)


def _check_decoding(decoding: DecodingConfig, videos: Sequence[Video]) -> None:
    """What would fail after the training fails before it.

    Raises:
        InputError: videos like these cannot be decoded in such steps.
    """
    if decoding.method == "published":
        short = [video for video in videos if video.n_frames // decoding.step < len(video.transcript)]
        if short:
            raise InputError(
                f"decoding.method=published gives each segment at least decoding.step={decoding.step} frames, "
                f"{len(short)} training videos are too short for that, first {short[0].id!r} with {short[0].n_frames} "
                f"frames and {len(short[0].transcript)} segments: lower decoding.step, or set decoding.method=exact"
            )


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
        self.dtype = getattr(torch, usable_precision(config.training.precision, device))
        if self.dtype != getattr(torch, config.training.precision):
            warnings.warn(f"{device} has no bfloat16 instructions: training in float32", DataWarning, stacklevel=3)
        longest = max(len(video.transcript) for video in videos)
        size = NetworkSize(dim=dim, n_actions=vocabulary.n_actions, max_segments=math.ceil(1.5 * longest) + 5)
        self.progress = Progress()
        self.model, state = self._start(size)
        self.optimiser = Optimiser(self.model, config.training)
        if state is not None:
            self._restore(state)
        self.transcripts = [torch.tensor(video.transcript, device=device) for video in videos]
        self.labels = [self._labels(video) for video in videos]
        self.terms = (*TERMS, *(SUPERVISED_TERMS if any(self.labels) else ()))
        self.shown = videos_to_score(videos, config.training.progress_videos, config.seed)
        self.feed = Feed(videos, device, self.dtype)
        self.losses = compiled_video_losses() if config.training.compile else video_losses
        self.began = time.perf_counter()
        self.spent_before = self.progress.seconds

    def _labels(self, video: Video) -> FrameLabels | None:
        if not video.labelled:
            return None
        known = video.frame_labels()
        if known is None:
            raise InputError(f"a labelled video has lengths, {video.id!r} has none: annotate it or leave it weak")
        return FrameLabels(torch.from_numpy(known).to(self.device), torch.tensor(video.lengths, device=self.device))

    def _restore(self, state: Mapping[str, Tensor]) -> None:
        try:
            self.optimiser.load_state(state)
        except InputError as error:
            raise InputError(error.under(self.path)) from error

    def _start(self, size: NetworkSize) -> tuple[MuConNetwork, Mapping[str, Tensor] | None]:
        """The network: of the checkpoint, of `training.warm_start` or fresh; and the checkpoint's optimiser state."""
        if not checkpoints.exists(self.path):
            model = build_model(size, self.config.backbone, self.config.segment_branch, seed=self.config.seed)
            if self.config.training.warm_start is not None:
                warm_start(model, self.vocabulary, Path(self.config.training.warm_start))
            return model.to(self.device), None
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
        return found.model, found.optimiser

    def go(self, report: Callable[[EpochReport], None] | None, should_stop: Callable[[], bool] | None) -> None:
        """Trains the epochs that are left."""
        self.model.train()
        self._record_labelled()
        for epoch in range(self.progress.epoch, self.config.training.epochs):
            self._epoch(epoch, report, should_stop)
        if not self.progress.finished:
            self._save(Progress(epoch=self.config.training.epochs, seconds=self._seconds(), finished=True))

    def _record_labelled(self) -> None:
        """Writes which videos are labelled, or compares with what an earlier start of the run wrote."""
        names = [video.id for video in self.videos if video.labelled]
        place = self.path.parent / "labelled.json"
        if place.exists() and checkpoints.exists(self.path):
            before = json.loads(place.read_text(encoding="utf-8"))["videos"]
            if before != names:
                changed = sorted({*before} ^ {*names})
                raise InputError(
                    f"a run goes on with the labelled videos that it began with, {place} differs in {len(changed)} "
                    f"videos (first {changed[0]!r}): restore their annotation, or choose another folder"
                )
        elif names:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps({"n": len(names), "videos": names}) + "\n", encoding="utf-8")

    def _epoch(
        self, epoch: int, report: Callable[[EpochReport], None] | None, should_stop: Callable[[], bool] | None
    ) -> None:
        rate = self.config.training.rate(epoch)
        order = epoch_order(len(self.videos), self.config.seed, epoch)
        names = [*self.terms, *NORMS]
        begun = self.progress.sums
        sums = torch.tensor([begun.get(name, 0.0) for name in names], dtype=torch.float64, device=self.device)
        first = self.progress.step_in_epoch
        history = torch.zeros(len(order), len(names), device=self.device)
        accumulate = self.config.training.accumulate
        start = time.perf_counter()
        for step in range(first, len(order)):
            if should_stop is not None and step % accumulate == 0 and should_stop():
                self._check(history[first:step], names, order[first:step], epoch)
                self._stop(epoch, step, dict(zip(names, sums.tolist(), strict=True)))
            history[step] = values = self._step(
                order[step], epoch, step, rate, next(iter(order[step + 1 : step + 2]), None)
            )
            sums += values
            reach("training.step")
        self._check(history[first:], names, order[first:], epoch)
        duration = time.perf_counter() - start
        done = EpochReport(
            epoch=epoch + 1,
            epochs=self.config.training.epochs,
            step=(epoch + 1) * len(order),
            learning_rate=rate,
            seconds=self._seconds(),
            steps_per_second=(len(order) - first) / max(duration, 1e-9),
            memory=torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else peak_memory(),
            progress=self._scores(epoch + 1),
            **self._means(dict(zip(names, sums.tolist(), strict=True))),
        )
        if report is not None:
            report(done)
        reach("training.epoch")
        self._save(Progress(epoch=epoch + 1, seconds=done.seconds, finished=epoch + 1 == done.epochs))

    def _means(self, sums: dict[str, float]) -> dict[str, dict[str, float]]:
        n_videos = len(self.videos)
        n_labelled = sum(labels is not None for labels in self.labels)
        n_steps = -(-n_videos // self.config.training.accumulate)
        return {
            "losses": {
                name: sums[name] / (n_labelled if name in SUPERVISED_TERMS else n_videos) for name in self.terms
            },
            "gradient_norms": {name: sums[name] / n_steps for name in NORMS},
        }

    def _scores(self, epoch: int) -> dict[str, float]:
        training = self.config.training
        if epoch % training.progress_every and epoch != training.epochs:
            return {}
        there = Checkpoint(self.model, self.config, self.vocabulary, self.progress)
        return progress_scores(there, self.shown, self.device)

    def _step(self, index: int, epoch: int, step: int, rate: float, then: int | None = None) -> Tensor:
        """One video, and a step of the optimiser where the videos before it make up `training.accumulate`."""
        torch.manual_seed(step_seed(self.config.seed, epoch, step))
        features = self.feed.get(index, then)
        transcript = self.transcripts[index]
        own = None
        if epoch < self.config.training.forced_epochs:
            outputs = self.model(features, transcript)
        else:
            outputs, own = self.model.free_running(features, len(transcript))
        terms = self.losses(outputs, transcript, self.config.mask, self.config.loss, labels=self.labels[index], own=own)
        torch.autograd.backward(terms["total"])
        in_group = step % self.config.training.accumulate + 1
        whole = in_group == self.config.training.accumulate or step + 1 == len(self.videos)
        losses = loss_vector(terms, self.terms)
        norms = self.optimiser.step(rate, in_group) if whole else losses.new_zeros(len(NORMS))
        return torch.cat((losses, norms))

    def _check(self, history: Tensor, names: Sequence[str], order: Sequence[int], epoch: int) -> None:
        """Looks at the losses and norms of steps `[steps, K]`, once after them all, and at the weights."""
        bad = ~torch.isfinite(history)
        if bool(bad.any()):
            step = int(bad.any(dim=1).nonzero()[0])
            kinds = [f"the loss {n}" for n in self.terms] + [f"the gradient of the {n}" for n in NORMS]
            wrong = [kind for kind, is_bad in zip(kinds, bad[step].tolist(), strict=True) if is_bad]
            raise Diverged(
                f"training diverged in epoch {epoch + 1} at video {self.videos[order[step]].id!r}: {', '.join(wrong)} "
                "became NaN or infinite; lower training.learning_rate"
            )
        self._check_weights(epoch)

    def _check_weights(self, epoch: int) -> None:
        if not bool(torch.isfinite(self.optimiser.weights).all()):
            raise Diverged(
                f"training diverged in epoch {epoch + 1}: weights became NaN or infinite; lower training.learning_rate"
            )

    def _stop(self, epoch: int, step: int, sums: dict[str, float]) -> None:
        self._save(Progress(epoch=epoch, step_in_epoch=step, sums=sums, seconds=self._seconds()))
        raise Interrupted(f"stopped in epoch {epoch + 1} after {step} videos; the checkpoint is in {self.path}")

    def _seconds(self) -> float:
        return self.spent_before + time.perf_counter() - self.began

    def _save(self, progress: Progress) -> None:
        state = self.optimiser.state()
        there = Checkpoint(self.model, self.config, self.vocabulary, progress, state)
        if progress.finished:
            self.model.eval()
            there = replace(there, facts=training_facts(there, self.videos, self.device))
        checkpoints.save(self.path, there)
        self.progress = progress
