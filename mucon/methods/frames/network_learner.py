"""What the learners of methods with one network share: resuming, optimiser, checkpoint and scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from mucon.checkpoint_files import Progress, Saved, load_weights, parsing
from mucon.decoding.fusion import TrainingFacts
from mucon.identity.trained_on import TrainedOn
from mucon.methods.frames.network_config import NetworkConfig
from mucon.methods.frames.networks import build_network
from mucon.segments import Segmentation
from mucon.training.optimiser import Optimiser
from mucon.training.progress import evaluating, progress_scores, videos_to_score
from mucon.training.resuming import resume
from mucon.training_config import Schedule
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary


class NetworkLearner:
    """A network and its optimiser: a `mucon.training.loop.Learner` whose subclasses add `TERMS` and `step`.

    Args:
        method: name of the method.
        config: configuration of the run.
        videos: all training videos, ordered by id.
        visited: those of an epoch, ordered by id.
        vocabulary: the actions.
        folder: the run folder; the state is that of `folder/checkpoint` if it exists.
        device: device of the network.
        dim: D of the features.
        source: the store of the videos.

    Raises:
        InputError: a checkpoint of another run.
    """

    TERMS: ClassVar[tuple[str, ...]]
    """Losses of every video."""
    dtype = torch.float32

    def __init__(
        self,
        method: str,
        config: NetworkConfig,
        videos: Sequence[Video],
        visited: Sequence[Video],
        vocabulary: Vocabulary,
        folder: Path,
        device: torch.device,
        dim: int,
        source: Source | None = None,
    ) -> None:
        self.method, self.config, self.vocabulary, self.device = method, config, vocabulary, device
        self.seed = config.seed
        self.schedule: Schedule = config.training
        self.videos: Sequence[Video] = visited
        self.accumulate = 1
        self.size = {"dim": dim, "n_actions": vocabulary.n_actions}
        path = folder / "checkpoint"
        self.trained_on = TrainedOn.of(visited, vocabulary, source or Source())
        labelled = any(video.labelled for video in visited)
        self.resumed = saved = resume(
            path,
            method=method,
            config=config,
            size=self.size,
            vocabulary=vocabulary,
            data=self.trained_on,
            labelled=labelled,
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
        self.norms: Mapping[str, int] = dict.fromkeys(self.optimiser.groups, len(visited))
        self.scored = videos_to_score(videos, config.training.progress_videos, config.seed)

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        return self.config.training.rate(epoch)

    def losses(self, epoch: int) -> Mapping[str, int]:
        """Every video has every loss."""
        return dict.fromkeys(self.TERMS, len(self.videos))

    def begin_epoch(self, epoch: int) -> None:
        """Every epoch is like the others."""

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """A step on one video, see `Learner.step`; each subclass has its own."""
        raise NotImplementedError

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

    def state(self) -> Mapping[str, Tensor]:
        """The learner's tensors besides weights and optimiser; none by default."""
        return {}

    def facts(self) -> TrainingFacts | None:
        """Facts about the training videos for inference, with the network in evaluation mode; none by default."""
        return None

    def saved(self, progress: Progress) -> Saved:
        """The content of the checkpoint at a position; the last one includes the facts."""
        facts = None
        if progress.finished:
            with evaluating(self.network):
                facts = self.facts()
        return Saved(
            method=self.method,
            config=self.config.to_dict(),
            vocabulary=self.vocabulary,
            size=self.size,
            progress=progress,
            weights=self.network.state_dict(),
            optimiser=self.optimiser.state(),
            learner=self.state(),
            facts=None if facts is None else dataclasses.asdict(facts),
        )
