"""A method that learns from transcripts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from mucon.checkpoint_files import FACTS, Saved, parsing
from mucon.decoding.fusion import TrainingFacts
from mucon.inference.requests import TASKS
from mucon.methods.frames.network_method import NetworkMethod
from mucon.methods.frames.networks import FrameClassifier
from mucon.methods.weak.config import WeakConfig
from mucon.methods.weak.learner import WeakLearner
from mucon.methods.weak.predictor import EvidencePredictor
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary

C = TypeVar("C", bound=WeakConfig)


class WeakMethod(NetworkMethod[C]):
    """A `mucon.method.Method`; see there.

    Args:
        name: name of the method.
        config: its configuration class.
        recipes: its named configurations, the default one first.
        learner: its learner, with a `step`.
        main: the prediction that the method is known for.
        predictor: class of its predictors.
        numerics: version of the arithmetic of training.
    """

    tasks: tuple[str, ...] = TASKS

    def __init__(
        self,
        name: str,
        config: type[C],
        recipes: Mapping[str, Callable[[], C]],
        learner: type[WeakLearner],
        *,
        main: str,
        predictor: type[EvidencePredictor] = EvidencePredictor,
        numerics: int = 1,
    ) -> None:
        super().__init__(name, config, recipes)
        self.learner_class, self.predictor_class = learner, predictor
        self.main, self.predictions, self.numerics = main, predictor.predictions, numerics

    def learner(
        self,
        config: C,
        videos: Sequence[Video],
        vocabulary: Vocabulary,
        folder: Path,
        device: torch.device,
        dim: int,
        source: Source | None,
    ) -> WeakLearner:
        """The learner of a run."""
        return self.learner_class(
            self.name, config, self.visited(config, videos), vocabulary, folder, device, dim, source
        )

    def predictor(self, network: FrameClassifier, config: C, saved: Saved) -> EvidencePredictor:
        """The predictor of a trained network."""
        with parsing(Path(FACTS)):
            facts = None if saved.facts is None else TrainingFacts.from_dict(saved.facts)
        return self.predictor_class(
            self.name, network, config, saved.vocabulary, saved.size["dim"], saved.progress, saved.trained_on,
            main=self.main, facts=facts,
        )  # fmt: skip

    def for_videos(self, config: C, n_videos: int, given: Collection[str] = ()) -> C:
        """The configuration with the settings of its schedule."""
        return config.for_videos(n_videos, given)

    def passes_between(self, config: C, epochs: range) -> int:
        """Those of the epochs that look at all videos again."""
        return sum(config.looks_again(epoch) for epoch in epochs)

    def step_shape(self, config: C) -> tuple[object, ...]:
        """Also what differs from method to method: loss, alignment, buffer, frames per step of the optimiser."""
        own = [getattr(config, one.name) for one in dataclasses.fields(config) if one.name not in ("training", "seed")]
        return (*super().step_shape(config), *own, getattr(config.training, "minibatch", None))

    def visited(self, config: C, videos: Sequence[Video]) -> Sequence[Video]:
        """All videos."""
        return sorted(videos, key=lambda video: video.id)
