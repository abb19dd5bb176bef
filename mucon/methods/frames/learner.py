"""The learner of frame classifiers: it visits the labelled videos and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from mucon.checkpoint_files import of_run, parsing, trained_on
from mucon.methods.frames.config import FrameConfig
from mucon.methods.frames.network_learner import NetworkLearner
from mucon.methods.frames.teacher import predicted_labels
from mucon.training.supervision import true_labels
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary

PREDICTED = "predicted"
"""Name of the predicted labels in a checkpoint."""


class FrameLearner(NetworkLearner):
    """Cross-entropy of all frames of the labelled videos, and smoothing.

    Args:
        method: name of the method.
        config: configuration of the run.
        videos: the training videos to visit or score, ordered by id, with a share of them labelled.
        vocabulary: the actions.
        folder: the run folder; the state is that of `folder/checkpoint` if it exists.
        device: device of the network.
        dim: D of the features.
        source: the store of the videos.

    Raises:
        InputError: a labelled video without lengths, or a checkpoint of another run.
    """

    config: FrameConfig
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
        visited = visited_videos(config, videos)
        super().__init__(method, config, videos, visited, vocabulary, folder, device, dim, source)
        self.predicted = self._predicted(config.training.labels_from, folder / "checkpoint")
        is_trained = self.resumed is not None and self.resumed.progress.finished
        self.labels = [] if is_trained else [self._labels(video) for video in visited]
        self.trained_on = replace(self.trained_on, earlier=self._earlier(config.training.labels_from))

    def _predicted(self, run: str | None, checkpoint: Path) -> Mapping[str, Tensor]:
        """Labels `[T]` of each unlabelled video by id: those of the checkpoint, or else a model's predictions."""
        unlabelled = [video for video in self.videos if not video.labelled]
        if run is None or not unlabelled:
            return {}
        if self.resumed is None:
            dim = self.size["dim"]
            found = [
                torch.from_numpy(one) for one in predicted_labels(run, unlabelled, self.vocabulary, dim, self.device)
            ]
        elif PREDICTED not in self.resumed.learner and self.resumed.progress.finished:
            return {}  # a trained model of which only the weights are kept
        else:
            with parsing(checkpoint):
                lengths = [video.n_frames for video in unlabelled]
                labels = self.resumed.learner[PREDICTED]
                if labels.shape != (sum(lengths),):
                    raise ValueError("labels of other videos")
                found = list(torch.split(labels, lengths))
        return {video.id: labels.to(self.device) for video, labels in zip(unlabelled, found, strict=True)}

    def _labels(self, video: Video) -> Tensor:
        """Labels `[T]` of a video that is visited: the true ones of a labelled video alone."""
        return torch.from_numpy(true_labels(video)).to(self.device) if video.labelled else self.predicted[video.id]

    def _earlier(self, run: str | None) -> Mapping[str, str | None]:
        """The recordings of the model whose predictions are labels."""
        if self.resumed is not None:
            return {} if self.resumed.trained_on is None else self.resumed.trained_on.earlier
        before = None if run is None else trained_on(of_run(Path(run)))
        return {} if before is None else before.seen

    def state(self) -> Mapping[str, Tensor]:
        """The predicted labels, one after the other, so that a resumed training has the same."""
        return {PREDICTED: torch.cat(list(self.predicted.values()))} if self.predicted else {}

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """A step on one video; see `Learner.step`."""
        log_probs = self.network(features)
        frame = frame_loss(log_probs, self.labels[index])
        smoothing = smoothing_loss(log_probs, self.config.loss.threshold)
        total = frame + self.config.loss.smoothing * smoothing
        torch.autograd.backward(total)
        norms = self.optimiser.step(rate)
        return torch.cat((torch.stack((total, frame, smoothing)).detach(), norms))


def visited_videos(config: FrameConfig, videos: Sequence[Video]) -> Sequence[Video]:
    """The labelled videos; all of them if a model predicts the labels of the others."""
    return videos if config.training.labels_from is not None else [video for video in videos if video.labelled]


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
