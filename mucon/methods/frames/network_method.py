"""What methods with one network share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import torch

from mucon.checkpoint_files import CONFIG, STATE, Saved, load_weights, parsing, read
from mucon.device import choose_device
from mucon.errors import InputError, Problem
from mucon.method import Predictor
from mucon.methods.frames.network_config import NetworkConfig
from mucon.methods.frames.networks import FrameClassifier, build_network
from mucon.training.loop import EpochReport, Learner, Loop
from mucon.training_config import CHECKPOINT_SECONDS
from mucon.videos import Source, Video, check_training_videos
from mucon.vocabulary import Vocabulary
from storage.fencing import ALONE, Writer

C = TypeVar("C", bound=NetworkConfig)


class NetworkMethod(ABC, Generic[C]):
    """Base of a `mucon.method.Method`; see there.

    Args:
        name: name of the method.
        config: its configuration class.
        recipes: its named configurations, the default one first.
    """

    numerics: int
    predictions: tuple[str, ...]
    main: str
    tasks: tuple[str, ...]

    def __init__(self, name: str, config: type[C], recipes: Mapping[str, Callable[[], C]]) -> None:
        self.name = name
        self.config: type[C] = config
        self.recipes: Mapping[str, Callable[[], C]] = MappingProxyType(dict(recipes))

    @abstractmethod
    def learner(
        self,
        config: C,
        videos: Sequence[Video],
        vocabulary: Vocabulary,
        folder: Path,
        device: torch.device,
        dim: int,
        source: Source | None,
    ) -> Learner:
        """The learner of a run, with the state to resume from; `videos` are all training videos."""

    @abstractmethod
    def predictor(self, network: FrameClassifier, config: C, saved: Saved) -> Predictor:
        """The predictor of a trained network in evaluation mode."""

    @abstractmethod
    def visited(self, config: C, videos: Sequence[Video]) -> Sequence[Video]:
        """The videos of an epoch, ordered by id."""

    def train(
        self,
        config: C,
        videos: Sequence[Video],
        vocabulary: Vocabulary,
        *,
        folder: Path,
        device: str = "auto",
        report: Callable[[EpochReport], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        source: Source | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        writer: Writer = ALONE,
    ) -> None:
        """Trains until the last epoch, see `Method.train`."""
        dim = check_training_videos(videos, vocabulary)
        config = self.for_videos(config, len(videos))
        learner = self.learner(config, videos, vocabulary, Path(folder), choose_device(device), dim, source)
        Loop(learner, Path(folder), checkpoint_seconds=checkpoint_seconds, writer=writer).run(report, should_stop)

    def load(self, folder: Path, device: torch.device | str = "cpu") -> Predictor:
        """Reads a checkpoint folder."""
        folder = Path(folder)
        saved = read(folder)
        if saved.method != self.name:
            expected = f"method {self.name!r}"
            raise InputError(Problem(rule="mismatch", place=str(folder), value=saved.method, expected=expected))
        with parsing(folder / CONFIG):
            config = self.config.from_dict(saved.config)
        with parsing(folder / STATE):
            network = build_network(config.network, **saved.size, seed=config.seed)
        load_weights(network, saved, folder)
        return self.predictor(network.to(device).eval(), config, saved)

    def decoding(self, config: C) -> None:
        """There are no choices of decoding."""

    def for_videos(self, config: C, n_videos: int, given: Collection[str] = ()) -> C:
        """The configuration itself: nothing depends on the number of videos."""
        return config

    def n_parameters(self, config: C, videos: Sequence[Video], vocabulary: Vocabulary) -> int:
        """Weights of the network for these videos; no memory is allocated for them."""
        with torch.device("meta"):
            network = build_network(config.network, videos[0].dim, vocabulary.n_actions, seed=config.seed)
        return sum(parameter.numel() for parameter in network.parameters())

    def pooling(self, config: C) -> int:
        """That of the network."""
        return config.network.pooling

    def identifying(self, config: C) -> dict[str, Any]:
        """The settings of an identity."""
        return config.trained_differences()

    def quick(self, config: C, *, labelled: bool) -> C:
        """One epoch without scores."""
        values = {"training.epochs": 1, "training.stop_after": None, "training.progress_videos": 0}
        return config.with_values(values)

    def short_steps(self, config: C) -> int:
        """None."""
        return 0

    def passes_between(self, config: C, epochs: range) -> int:
        """None."""
        return 0

    def step_shape(self, config: C) -> tuple[object, ...]:
        """Network and arithmetic."""
        return (self.name, config.network, config.training.optimiser, config.training.threads)
