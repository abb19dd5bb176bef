"""The interface of a method: what a sweep, the command line and the library need to train and use it.

A method is a configuration class, a training function and a loading function. `mucon.methods` contains them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mucon.checkpoint_files import Progress
from mucon.configuration import Config
from mucon.decoding.config import DecodingConfig
from mucon.device import Precision
from mucon.identity.trained_on import TrainedOn
from mucon.inference.requests import Prediction
from mucon.training_config import CHECKPOINT_SECONDS, Schedule
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary
from storage.fencing import ALONE, Writer

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from mucon.training.loop import EpochReport

C = TypeVar("C", bound=Config)


class TrainingSettings(Schedule, Protocol):
    """The settings `training.*` that the configuration of every method has."""

    @property
    def labelled(self) -> float:
        """Share of the training videos whose frame labels are used."""

    @property
    def precision(self) -> Precision:
        """Requested precision of the arithmetic."""

    @property
    def warm_start(self) -> str | None:
        """Folder of the model whose weights are the initial ones; None for fresh weights."""

    @property
    def progress_videos(self) -> int:
        """Largest number of training videos that are scored during training."""


def training_of(config: Config) -> TrainingSettings:
    """The settings `training.*` of a configuration of any method."""
    settings: TrainingSettings = getattr(config, "training")  # noqa: B009  # no field of the base class
    return settings


def models_of(config: Config) -> dict[str, str]:
    """Setting -> folder of each trained model from which a training takes weights or labels."""
    training = training_of(config)
    found = {name: getattr(training, name, None) for name in ("warm_start", "labels_from")}
    return {f"training.{name}": folder for name, folder in found.items() if folder is not None}


class Predictor(Protocol):
    """A trained model of any method, ready for inference."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def config(self) -> Config:
        """Configuration with which it was trained."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The actions."""

    @property
    def dim(self) -> int:
        """D, number of features per frame."""

    @property
    def device(self) -> torch.device:
        """Device of the network."""

    @property
    def progress(self) -> Progress:
        """Position in the training run, with its seconds."""

    @property
    def trained_on(self) -> TrainedOn | None:
        """The data of the training; None if the checkpoint does not record them."""

    @property
    def predictions(self) -> tuple[str, ...]:
        """Names of the available predictions."""

    @property
    def main(self) -> str:
        """The prediction that the method is known for; one of `predictions`."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The supported ones of `mucon.inference.TASKS`."""

    def weights_sha256(self) -> str:
        """Digest of the weights; equal digests mean equal bits."""

    def to(self, device: torch.device) -> Predictor:
        """Returns an independent copy on a device; this predictor stays where it is."""

    def prepared(self, training_videos: Sequence[Video], decoding: DecodingConfig | None = None) -> Predictor:
        """Returns a predictor with the facts about the training videos that some decoding choices need.

        Args:
            training_videos: with transcripts; only read if facts are needed and the checkpoint contains none.
            decoding: the choices; by default those of the configuration.
        """

    def begin(
        self,
        features: Tensor,
        *,
        predictions: Sequence[str] = ...,
        decoding: DecodingConfig | None = None,
        alternatives: int = 0,
    ) -> Callable[[], Prediction]:
        """Runs the network and returns a function that decodes.

        The function releases the interpreter lock while it decodes and may run in another thread. It does not raise
        for a recording that has no such prediction, see `Prediction.undefined`.

        Args:
            features: `[T, D]` on the predictor's device, T >= 1.
            predictions: names to predict; by default all.
            decoding: choices of decoding; by default those of the configuration.
            alternatives: most alternatives to the main prediction, see `Prediction.alternatives`.

        Raises:
            InputError: an unknown prediction, features of another shape, or decoding choices or alternatives (rule
                `unsupported`) for a method that has none.
        """

    def align(
        self,
        features: Tensor,
        transcript: Sequence[int],
        *,
        predictions: Sequence[str] = ...,
        decoding: DecodingConfig | None = None,
    ) -> Prediction:
        """Aligns a known transcript to a recording.

        Args:
            features: `[T, D]` on the predictor's device, T >= 1.
            transcript: `[M]` action ids, 1 <= M <= T.
            predictions: as for `begin`.
            decoding: as for `begin`.

        Raises:
            InputError: as `begin`, or (rule `unsupported`) a method without alignment. A transcript that cannot be
                aligned makes the predictions undefined.
        """


class Method(Protocol[C]):
    """A way to train a model for action segmentation."""

    @property
    def name(self) -> str:
        """Name on command lines, in checkpoints and in identities of trials."""

    @property
    def numerics(self) -> int:
        """Version of the arithmetic of training: raised whenever the same configuration trains to other weights."""

    @property
    def config(self) -> type[C]:
        """Configuration class; `config()` is the published recipe."""

    @property
    def recipes(self) -> Mapping[str, Callable[[], C]]:
        """Named configurations: the default one first, and at least `demo`, a small one for the demo data.

        A function may have several names; the later ones are aliases.
        """

    @property
    def predictions(self) -> tuple[str, ...]:
        """Names of the predictions, see `Predictor.predictions`."""

    @property
    def main(self) -> str:
        """The prediction that the method is known for."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The supported ones of `mucon.inference.TASKS`."""

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
        """Trains until the last epoch, and resumes with the same bits from `folder/checkpoint` if that exists.

        Args:
            config: configuration of the run.
            videos: all training videos, in any order; the lengths of unlabelled ones are never used.
            vocabulary: the actions.
            folder: the run folder; `folder/checkpoint` is written from time to time and when training stops.
            device: `auto`, `cpu`, `cuda` or `cuda:0`.
            report: called after each epoch; again for epochs after the last checkpoint if the process died.
            should_stop: called before each step; if it returns true, training stops with a checkpoint.
            source: the store of the videos, recorded with the checkpoint.
            checkpoint_seconds: seconds between two checkpoints, see `Loop`.
            writer: the right to write into the run folder, asked at each rename.

        Raises:
            InputError: unsuitable videos, or a checkpoint of another run or of other data.
            Interrupted: `should_stop` returned true.
            Diverged: a loss, a gradient or a weight became NaN or infinite.
            SupersededError: another process has taken over the run folder.
        """

    def load(self, folder: Path, device: torch.device | str = "cpu") -> Predictor:
        """Reads a checkpoint folder.

        Raises:
            InputError: no checkpoint, one of another method or format version, or damaged files.
        """

    def decoding(self, config: C) -> DecodingConfig | None:
        """The choices of decoding in a configuration; None for a method that has none."""

    def for_videos(self, config: C, n_videos: int, given: Collection[str] = ()) -> C:
        """The configuration with what depends on the number of training videos, such as epochs for a number of steps.

        Doing it twice changes nothing.

        Args:
            config: the configuration.
            n_videos: number of training videos.
            given: paths of settings that were asked for, which are kept even if they have their defaults.
        """

    def visited(self, config: C, videos: Sequence[Video]) -> Sequence[Video]:
        """The videos of an epoch, one step each.

        Raises:
            InputError: `training.labelled` asks for more annotated videos than there are.
        """

    def n_parameters(self, config: C, videos: Sequence[Video], vocabulary: Vocabulary) -> int:
        """Number of weights of the network that training creates for these videos."""

    def pooling(self, config: C) -> int:
        """Frames per latent frame; segments that are shorter cannot be resolved."""

    def identifying(self, config: C) -> dict[str, Any]:
        """The settings that determine the trained weights and differ from the defaults, by path, for an identity.

        The path of a model from which training starts is replaced by the digest of its weights.

        Raises:
            InputError: there is no such model.
        """

    def quick(self, config: C, *, labelled: bool) -> C:
        """A variant of a configuration for timing steps: one epoch, one video per optimiser step, nothing besides.

        Args:
            config: the configuration whose steps are timed.
            labelled: label all videos; otherwise none, unless the method cannot train without labels.
        """

    def short_steps(self, config: C) -> int:
        """Steps at the start of a training that take less time than later ones, and are not timed."""

    def passes_between(self, config: C, epochs: range) -> int:
        """Number of predictions of all training videos that some epochs begin with, besides their steps.

        Args:
            config: the configuration.
            epochs: counted from 0.
        """

    def step_shape(self, config: C) -> tuple[object, ...]:
        """The parts of a configuration that determine the duration of a step; equal tuples take equally long."""
