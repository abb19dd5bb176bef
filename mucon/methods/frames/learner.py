"""The learner of frame classifiers: it visits the labelled videos and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mucon.checkpoint_files import Progress, Saved, load_weights, parsing
from mucon.errors import InputError, Problem
from mucon.identity.trained_on import TrainedOn
from mucon.methods.frames.config import FrameConfig, FrameNetworkConfig
from mucon.methods.frames.predictor import FrameClassifier, FrameEnsemble
from mucon.segments import Segmentation
from mucon.training.optimiser import Optimiser
from mucon.training.progress import evaluating, progress_scores, videos_to_score
from mucon.training.resuming import resume
from mucon.training_config import Schedule
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary

TERMS = ("total", "frame", "smoothing")
"""Losses of every video."""


class FrameLearner:
    """A network, its optimiser and one step; a `mucon.training.loop.Learner`.

    Args:
        method: name of the method.
        config: configuration of the run.
        videos: all training videos, ordered by id, with a share of them labelled.
        vocabulary: the actions.
        folder: the run folder; the state is that of `folder/checkpoint` if it exists.
        device: device of the network.
        dim: D of the features.
        source: the store of the videos.

    Raises:
        InputError: a labelled video without lengths, or a checkpoint of another run.
    """

    dtype = torch.float32
    accumulate = 1

    def __init__(
        self,
        method: str,
        config: FrameConfig,
        videos: Sequence[Video],
        vocabulary: Vocabulary,
        folder: Path,
        device: torch.device,
        dim: int,
        source: Source | None = None,
    ) -> None:
        self.method, self.config, self.vocabulary, self.device = method, config, vocabulary, device
        self.seed = config.seed
        self.schedule: Schedule = config.training
        self.videos: Sequence[Video] = [video for video in videos if video.labelled]
        self.labels = [torch.from_numpy(_labels(video)).to(device) for video in self.videos]
        self.size = {"dim": dim, "n_actions": vocabulary.n_actions}
        path = folder / "checkpoint"
        self.trained_on = TrainedOn.of(self.videos, vocabulary, source or Source())
        saved = resume(
            path,
            method=method,
            config=config,
            size=self.size,
            vocabulary=vocabulary,
            data=self.trained_on,
            labelled=True,
        )
        self.progress = Progress() if saved is None else saved.progress
        network = build_network(config.network, **self.size, seed=config.seed)
        if saved is not None:
            load_weights(network, saved, path)
        self.network = network.to(device).train()
        self.optimiser = Optimiser(self.network, config.training)
        if saved is not None and not saved.progress.finished:
            with parsing(path):
                self.optimiser.load_state(saved.optimiser)
        self.losses: Mapping[str, int] = dict.fromkeys(TERMS, len(self.videos))
        self.norms: Mapping[str, int] = dict.fromkeys(self.optimiser.groups, len(self.videos))
        self.scored = videos_to_score(videos, config.training.progress_videos, config.seed)

    def rate(self, epoch: int) -> float:
        """Learning rate, the same in each epoch."""
        return self.config.training.learning_rate

    def begin_epoch(self, epoch: int) -> None:
        """Every epoch is like the others."""

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """A step on one video; see `Learner.step`."""
        log_probs = self.network(features)
        frame = frame_loss(log_probs, self.labels[index])
        smoothing = smoothing_loss(log_probs, self.config.loss.threshold)
        total = frame + self.config.loss.smoothing * smoothing
        torch.autograd.backward(total)
        norms = self.optimiser.step(rate)
        return torch.cat((torch.stack((total, frame, smoothing)).detach(), norms))

    def weights_are_finite(self) -> bool:
        """Whether all weights are finite."""
        return bool(torch.isfinite(self.optimiser.weights).all())

    def scores(self) -> dict[str, float]:
        """Accuracy on a few training videos."""

        def predicted(video: Video) -> dict[str, Segmentation]:
            labels = self.network.frame_log_probs(video.features(self.device)).argmax(dim=1).cpu().numpy()
            return {"frames": Segmentation.from_frame_labels(labels)}

        with evaluating(self.network):
            return progress_scores(self.scored, predicted, [("frames", "mof")], self.vocabulary.background_ids)

    def saved(self, progress: Progress) -> Saved:
        """The content of the checkpoint at a position."""
        return Saved(
            method=self.method,
            config=self.config.to_dict(),
            vocabulary=self.vocabulary,
            size=self.size,
            progress=progress,
            weights=self.network.state_dict(),
            optimiser=self.optimiser.state(),
        )


def _labels(video: Video) -> NDArray[np.int64]:
    labels = video.frame_labels()
    if labels is None:
        message, hint = "a labelled video without lengths", "annotate it or do not mark it as labelled"
        raise InputError(Problem(rule="missing", place=video.id, message=message, hint=hint))
    return labels


def build_network(
    config: FrameNetworkConfig, dim: int, n_actions: int, members: int = 1, *, seed: int
) -> FrameClassifier:
    """A network, or an ensemble, with fresh weights that depend on the seed alone; built on the CPU in float32.

    They are drawn from torch's default distribution for convolutions, as in the published programs.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        networks = [config.build(dim, n_actions) for _ in range(members)]
    return networks[0] if members == 1 else FrameEnsemble(networks)


def frame_loss(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy, mean over frames and summed over stages; a scalar.

    Args:
        log_probs: `[S, T, N]`.
        labels: `[T]` int64.
    """
    own = log_probs.gather(2, labels.expand(len(log_probs), -1)[:, :, None])
    return -own.sum() / len(labels)


def smoothing_loss(log_probs: Tensor, threshold: float = 4.0) -> Tensor:
    """Truncated mean squared error between the log-probabilities of neighbouring frames; a scalar.

    Mean over T-1 frames and N classes, summed over stages; no gradient through the earlier frame. 0 for T = 1.

    Args:
        log_probs: `[S, T, N]`.
        threshold: tau; a squared difference counts at most tau^2.

    Source: MS-TCN, equations (8) to (10).
    """
    squares = (log_probs[:, 1:] - log_probs[:, :-1].detach()).square()
    count = max(log_probs.shape[1] - 1, 1) * log_probs.shape[2]
    return squares.clamp(max=threshold**2).sum() / count
