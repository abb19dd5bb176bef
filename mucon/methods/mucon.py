"""MuCon as a method; its parts are in `mucon.model`, `mucon.training`, `mucon.decoding` and `mucon.inference`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mucon
from mucon.checkpoint_files import STATE, of_run
from mucon.config import TrainConfig
from mucon.configuration import DEFAULT_METHOD
from mucon.decoding.config import DecodingConfig
from mucon.inference.names import MAIN, PREDICTIONS
from mucon.inference.requests import TASKS
from mucon.method import Method
from mucon.recipes import RECIPES
from mucon.training_config import CHECKPOINT_SECONDS
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary
from storage.fencing import ALONE, Writer

if TYPE_CHECKING:
    import torch

    from mucon.inference.predictor import MuConPredictor
    from mucon.training.loop import EpochReport


class MuCon:
    """A `mucon.method.Method`; see there. What computes is imported when it is used."""

    name: str = DEFAULT_METHOD
    numerics: int = mucon.NUMERICS
    config: type[TrainConfig] = TrainConfig
    recipes: Mapping[str, Callable[[], TrainConfig]] = RECIPES
    predictions: tuple[str, ...] = PREDICTIONS
    main: str = MAIN
    tasks: tuple[str, ...] = TASKS

    def train(
        self,
        config: TrainConfig,
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
        """Trains MuCon, see `mucon.training.train`."""
        from mucon.training.mucon_learner import train

        train(
            config, videos, vocabulary, folder=folder, device=device,
            report=report, should_stop=should_stop, source=source, checkpoint_seconds=checkpoint_seconds, writer=writer,
        )  # fmt: skip

    def load(self, folder: Path, device: torch.device | str = "cpu") -> MuConPredictor:
        """Reads a checkpoint folder."""
        from mucon import checkpoint as checkpoints
        from mucon.inference.predictor import MuConPredictor

        return MuConPredictor(checkpoints.load(folder, device))

    def decoding(self, config: TrainConfig) -> DecodingConfig:
        """The choices of decoding."""
        return config.decoding

    def for_videos(self, config: TrainConfig, n_videos: int, given: Collection[str] = ()) -> TrainConfig:
        """The configuration itself: nothing depends on the number of videos."""
        return config

    def visited(self, config: TrainConfig, videos: Sequence[Video]) -> Sequence[Video]:
        """All videos."""
        return videos

    def n_parameters(self, config: TrainConfig, videos: Sequence[Video], vocabulary: Vocabulary) -> int:
        """Weights of the network for these videos; counted without torch, which a driver of trials does not import."""

        def linear(n_inputs: int, n_outputs: int) -> int:
            return (n_inputs + 1) * n_outputs

        def gates(n_inputs: int) -> int:  # of an LSTM in one direction
            return 4 * (linear(n_inputs, hidden) + linear(hidden, hidden))

        backbone, hidden, n = config.backbone, config.segment_branch.hidden, vocabulary.n_actions
        width = backbone.channels
        layer = {
            "dilated": linear(3 * width, width) + linear(width, width),
            "dual_dilated": 2 * linear(3 * width, width) + linear(2 * width, width),
            "single": 0,
        }
        frames = linear(videos[0].dim, width) + backbone.n_layers * layer[backbone.kind] + linear(width, width)
        encoder = 2 * gates(width) + 2 * linear(2 * hidden, hidden)
        attention = 2 * hidden**2 + linear(hidden, hidden) + hidden
        decoder = (n + 2) * hidden + linear(3 * hidden, hidden) + gates(hidden)
        transcript = linear(hidden, hidden) + linear(hidden, n + 1)
        length = linear(hidden + n + 1, hidden // 2) + linear(hidden // 2, 1)
        return frames + 2 * width + linear(width, n) + encoder + attention + decoder + transcript + length

    def pooling(self, config: TrainConfig) -> int:
        """Frames per latent frame."""
        return config.backbone.pooling

    def identifying(self, config: TrainConfig) -> dict[str, Any]:
        """The settings of an identity; a warm start counts by its weights."""
        settings = config.trained_differences()
        if config.training.warm_start is not None:
            folder = of_run(Path(config.training.warm_start).absolute())
            state = folder / STATE
            settings["training.warm_start"] = _weights_sha256(folder, state.stat().st_mtime_ns if state.exists() else 0)
        return settings

    def quick(self, config: TrainConfig, *, labelled: bool) -> TrainConfig:
        """One epoch, one video per optimiser step, no warm start, compilation, scores or self-training."""
        return config.with_values(
            {
                "training.epochs": 1,
                "training.stop_after": None,
                "training.accumulate": 1,
                "training.warm_start": None,
                "training.compile": False,
                "training.progress_videos": 0,
                "training.label_free_videos": 0,
                "self_training.start": 1.0,
                "training.labelled": 1.0 if labelled else 0.0,
            }
        )

    def short_steps(self, config: TrainConfig) -> int:
        """None."""
        return 0

    def passes_between(self, config: TrainConfig, epochs: range) -> int:
        """Those that give the network's own labels."""
        return sum(config.self_training.refreshes(epoch, config.training.epochs) for epoch in epochs)

    def step_shape(self, config: TrainConfig) -> tuple[object, ...]:
        """Networks, mutual consistency, labels and arithmetic."""
        training = config.training
        return (
            self.name,
            config.backbone,
            config.segment_branch,
            config.loss.mutual_consistency > 0,
            training.optimiser,
            training.labelled > 0,
            training.teacher_forcing < 1,
            training.precision,
            training.threads,
        )


@cache
def _weights_sha256(folder: Path, modified: int) -> str:
    """Digest of a checkpoint's weights; all cells of a sweep share the call, a rewritten checkpoint is read again."""
    from mucon import checkpoint as checkpoints

    return checkpoints.weights_sha256(checkpoints.load(folder).model)


MUCON: Method[TrainConfig] = MuCon()
