"""The learner of frame classifiers: it visits the labelled videos and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mucon.errors import InputError, Problem
from mucon.methods.frames.config import FrameConfig
from mucon.methods.frames.network_learner import NetworkLearner
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary


class FrameLearner(NetworkLearner):
    """Cross-entropy of all frames of the labelled videos, and smoothing.

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

    TERMS = ("total", "frame", "smoothing")

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
        labelled = [video for video in videos if video.labelled]
        self.labels = [torch.from_numpy(_labels(video)).to(device) for video in labelled]
        self.loss = config.loss
        super().__init__(method, config, videos, labelled, vocabulary, folder, device, dim, source)

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """A step on one video; see `Learner.step`."""
        log_probs = self.network(features)
        frame = frame_loss(log_probs, self.labels[index])
        smoothing = smoothing_loss(log_probs, self.loss.threshold)
        total = frame + self.loss.smoothing * smoothing
        torch.autograd.backward(total)
        norms = self.optimiser.step(rate)
        return torch.cat((torch.stack((total, frame, smoothing)).detach(), norms))


def _labels(video: Video) -> NDArray[np.int64]:
    labels = video.frame_labels()
    if labels is None:
        message, hint = "a labelled video without lengths", "annotate it or do not mark it as labelled"
        raise InputError(Problem(rule="missing", place=video.id, message=message, hint=hint))
    return labels


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
