"""A frame classifier as a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import torch

from mucon.checkpoint_files import CONFIG, STATE, load_weights, parsing, read
from mucon.device import choose_device
from mucon.errors import InputError, Problem
from mucon.methods.frames.config import FrameConfig
from mucon.methods.frames.learner import FrameLearner, build_network
from mucon.methods.frames.predictor import MAIN, PREDICTIONS, TASKS, FramePredictor
from mucon.training.loop import EpochReport, Loop
from mucon.training.supervision import with_labels
from mucon.training_config import CHECKPOINT_SECONDS
from mucon.videos import Source, Video, check_training_videos
from mucon.vocabulary import Vocabulary
from storage.fencing import ALONE, Writer

NUMERICS = 1
"""Version of the arithmetic of training, see `mucon.method.Method.numerics`."""
C = TypeVar("C", bound=FrameConfig)


class FrameMethod(Generic[C]):
    """A `mucon.method.Method`; see there.

    Args:
        name: name of the method.
        config: its configuration class.
        recipes: its named configurations, the default one first.
    """

    numerics: int = NUMERICS
    predictions: tuple[str, ...] = PREDICTIONS
    main: str = MAIN
    tasks: tuple[str, ...] = TASKS

    def __init__(self, name: str, config: type[C], recipes: Mapping[str, Callable[[], C]]) -> None:
        self.name = name
        self.config: type[C] = config
        self.recipes: Mapping[str, Callable[[], C]] = MappingProxyType(dict(recipes))

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
        """Trains on the labelled videos until the last epoch, see `Method.train`."""
        dim = check_training_videos(videos, vocabulary)
        labelled = _with_labels(config, videos)
        learner = FrameLearner(
            self.name, config, labelled, vocabulary, Path(folder), choose_device(device), dim, source
        )
        Loop(learner, Path(folder), checkpoint_seconds=checkpoint_seconds, writer=writer).run(report, should_stop)

    def load(self, folder: Path, device: torch.device | str = "cpu") -> FramePredictor:
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
        network = network.to(device).eval()
        return FramePredictor(
            self.name, network, config, saved.vocabulary, saved.size["dim"], saved.progress, saved.trained_on
        )

    def decoding(self, config: C) -> None:
        """There are no choices of decoding."""

    def visited(self, config: C, videos: Sequence[Video]) -> Sequence[Video]:
        """The labelled videos."""
        return [video for video in _with_labels(config, videos) if video.labelled]

    def n_parameters(self, config: C, videos: Sequence[Video], vocabulary: Vocabulary) -> int:
        """Weights of the network for these videos; no memory is allocated for them."""
        with torch.device("meta"):
            network = build_network(config.network, videos[0].dim, vocabulary.n_actions, seed=config.seed)
        return sum(parameter.numel() for parameter in network.parameters())

    def pooling(self, config: C) -> int:
        """The network keeps the rate of the frames."""
        return 1

    def identifying(self, config: C) -> dict[str, Any]:
        """The settings of an identity."""
        return config.trained_differences()

    def quick(self, config: C, *, labelled: bool) -> C:
        """One epoch on all videos without scores; frame labels are always needed."""
        epochs = {"training.epochs": 1, "training.stop_after": None}
        return config.with_values({**epochs, "training.progress_videos": 0, "training.labelled": 1.0})

    def step_shape(self, config: C) -> tuple[object, ...]:
        """Network and arithmetic."""
        training = config.training
        return (self.name, config.network, training.optimiser, training.threads)


def _with_labels(config: FrameConfig, videos: Sequence[Video]) -> list[Video]:
    ordered = sorted(videos, key=lambda video: video.id)
    return with_labels(ordered, config.training.labelled, config.seed)
