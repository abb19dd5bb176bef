"""A frame classifier that learns from frame labels, as a method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from mucon.checkpoint_files import Saved
from mucon.methods.frames.config import FrameConfig
from mucon.methods.frames.learner import FrameLearner, visited_videos
from mucon.methods.frames.network_method import NetworkMethod
from mucon.methods.frames.networks import FrameClassifier
from mucon.methods.frames.predictor import MAIN, PREDICTIONS, TASKS, FramePredictor
from mucon.methods.frames.teacher import SETTING, teacher_digest
from mucon.training.supervision import with_labels
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary

NUMERICS = 1
"""Version of the arithmetic of training, see `mucon.method.Method.numerics`."""
C = TypeVar("C", bound=FrameConfig)


class FrameMethod(NetworkMethod[C]):
    """A `mucon.method.Method` that trains on the labelled videos alone; see there."""

    numerics: int = NUMERICS
    predictions: tuple[str, ...] = PREDICTIONS
    main: str = MAIN
    tasks: tuple[str, ...] = TASKS

    def learner(
        self,
        config: C,
        videos: Sequence[Video],
        vocabulary: Vocabulary,
        folder: Path,
        device: torch.device,
        dim: int,
        source: Source | None,
    ) -> FrameLearner:
        """The learner of a run."""
        return FrameLearner(self.name, config, _with_labels(config, videos), vocabulary, folder, device, dim, source)

    def predictor(self, network: FrameClassifier, config: C, saved: Saved) -> FramePredictor:
        """The predictor of a trained network."""
        return FramePredictor(
            self.name, network, config, saved.vocabulary, saved.size["dim"], saved.progress, saved.trained_on
        )

    def visited(self, config: C, videos: Sequence[Video]) -> Sequence[Video]:
        """The labelled videos, and all others if a model predicts their labels."""
        return visited_videos(config, _with_labels(config, videos))

    def identifying(self, config: C) -> dict[str, Any]:
        """The settings of an identity; a model that predicts labels counts by what determines its predictions."""
        settings = config.trained_differences()
        run = config.training.labels_from
        return settings if run is None else {**settings, SETTING: teacher_digest(run)}

    def quick(self, config: C, *, labelled: bool) -> C:
        """One epoch on all videos without scores; frame labels are always needed."""
        labels = {"training.labels_from": None, "training.labelled": 1.0}
        return super().quick(config, labelled=labelled).with_values(labels)


def _with_labels(config: FrameConfig, videos: Sequence[Video]) -> list[Video]:
    ordered = sorted(videos, key=lambda video: video.id)
    return with_labels(ordered, config.training.labelled, config.seed)
