"""Settings that frame classifiers share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from mucon.errors import check_ranges
from mucon.methods.frames.networks import FrameNetworkConfig, NetworkConfig
from mucon.training_config import DeviceResident, last_epoch, range_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameLossConfig:
    """Loss of each stage: cross-entropy of the frames + smoothing · truncated mean squared error.

    Attributes:
        smoothing: lambda, weight of the truncated mean squared error.
        threshold: tau; a squared difference of log-probabilities counts at most tau^2.

    Raises:
        InputError: a value outside its range.
    """

    smoothing: float = 0.15
    threshold: float = 4.0

    def __post_init__(self) -> None:
        check_ranges(
            "loss.",
            [
                ("smoothing", self.smoothing, "at least 0", self.smoothing >= 0),
                ("threshold", self.threshold, "above 0", self.threshold > 0),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTrainingConfig:
    """One video per step at a constant learning rate.

    Attributes:
        epochs: passes over the labelled videos.
        stop_after: see `mucon.training_config.TrainingConfig`.
        labelled: share of the training videos whose frame labels are used; the same videos as in MuCon's training
            with that share and seed. Above 0, or from 0 to below 1 with `labels_from`.
        labels_from: run folder of a trained model of any method; the videos whose frame labels are not used are
            trained on with its predictions as labels. None: they are not trained on. The predictions follow the
            transcripts of the videos if the model can align them.
        optimiser: `adam`, or `sgd` without momentum.
        learning_rate: rate of all epochs.
        weight_decay: added to the gradient of every parameter.
        clip_norm: largest norm of the gradient, or None.
        threads: CPU threads; training sets them itself, since other numbers give other bits.
        progress_videos: largest number of training videos with known lengths that are scored during training.
        progress_every: epochs between two such scores; the last epoch is always scored.
        device_resident: whether the features of the training videos stay on a GPU: `auto` keeps them there if they fit
            beside a margin, and otherwise reads the next video ahead; `on` refuses to train if they do not fit; `off`
            reads ahead. Changes no result, and has no effect on a CPU.

    Raises:
        InputError: a value outside its range.
    """

    epochs: int = 50
    stop_after: int | None = None
    labelled: float = 1.0
    labels_from: str | None = None
    optimiser: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.0005
    weight_decay: float = 0.0
    clip_norm: float | None = None
    threads: int = 1
    progress_videos: int = 20
    progress_every: int = 5
    device_resident: DeviceResident = "auto"

    def __post_init__(self) -> None:
        check_ranges(
            "training.",
            [
                *range_rules(self),
                ("labelled", self.labelled, *self._labelled_range()),
            ],
        )

    def _labelled_range(self) -> tuple[str, bool]:
        if self.labels_from is None:
            return "above 0 and at most 1", 0 < self.labelled <= 1
        return "from 0 to below 1 with training.labels_from", 0 <= self.labelled < 1

    @property
    def last_epoch(self) -> int:
        """The epoch, counted from 1, after which training ends."""
        return last_epoch(self.epochs, self.stop_after)

    @property
    def precision(self) -> Literal["float32"]:
        """Precision of the arithmetic."""
        return "float32"

    @property
    def warm_start(self) -> None:
        """Weights are always fresh."""


NOT_TRAINED = (
    "training.device_resident",
    "training.progress_every",
    "training.progress_videos",
    "training.threads",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameConfig(NetworkConfig):
    """Everything that determines a run of a frame classifier besides its data.

    Attributes:
        network: size of the network; a subclass narrows its type.
        seed: random seed for initialization, shuffling and dropout.
    """

    NOT_TRAINED: ClassVar[tuple[str, ...]] = NOT_TRAINED

    network: FrameNetworkConfig = field(default_factory=FrameNetworkConfig)
    loss: FrameLossConfig = field(default_factory=FrameLossConfig)
    training: FrameTrainingConfig = field(default_factory=FrameTrainingConfig)
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges("", [("seed", self.seed, "at least 0", self.seed >= 0)])

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """The threshold of a smoothing loss without weight, and an early stop after the last epoch."""
        if self.loss.smoothing == 0:
            yield "loss.threshold"
        if self.training.last_epoch == self.training.epochs:
            yield "training.stop_after"
