"""Settings that frame classifiers share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from mucon.errors import RangeRule, check_ranges
from mucon.methods.frames.network_config import NetworkConfig, NetworkTrainingConfig


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
class FrameTrainingConfig(NetworkTrainingConfig):
    """One video per step at a constant learning rate.

    Attributes:
        epochs: passes over the labelled videos.
        labelled: share of the training videos whose frame labels are used; the same videos as in MuCon's training
            with that share and seed. Above 0, or from 0 to below 1 with `labels_from`.
        labels_from: run folder of a trained model of any method; the videos whose frame labels are not used are
            trained on with its predictions as labels. None: they are not trained on. The predictions follow the
            transcripts of the videos if the model can align them.
        optimiser: `adam`, or `sgd` without momentum.
        learning_rate: rate of all epochs.
        weight_decay: added to the gradient of every parameter.

    Raises:
        InputError: a value outside its range.
    """

    ORDER: ClassVar[tuple[str, ...]] = ("epochs", "stop_after", "labelled", "labels_from")

    epochs: int = 50
    labelled: float = 1.0
    labels_from: str | None = None
    optimiser: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.0005

    def ranges(self) -> list[RangeRule]:
        """Those of all methods with one network, and the shares that have labels."""
        expected, fits = "above 0 and at most 1", 0 < self.labelled <= 1
        if self.labels_from is not None:
            expected, fits = "from 0 to below 1 with training.labels_from", 0 <= self.labelled < 1
        return [*NetworkTrainingConfig.ranges(self), ("labelled", self.labelled, expected, fits)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameConfig(NetworkConfig):
    """Everything that determines a run of a frame classifier besides its data.

    Attributes:
        network: size of the network; a subclass narrows its type.
        seed: random seed for initialization, shuffling and dropout.
    """

    ORDER: ClassVar[tuple[str, ...]] = ("network", "loss", "training", "seed")

    loss: FrameLossConfig = field(default_factory=FrameLossConfig)
    training: FrameTrainingConfig = field(default_factory=FrameTrainingConfig)

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """Also the threshold of a smoothing loss without weight."""
        yield from NetworkConfig.without_effect(self, labelled)
        if self.loss.smoothing == 0:
            yield "loss.threshold"
