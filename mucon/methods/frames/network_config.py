"""Settings that methods with one network share, whichever labels they learn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from mucon.configuration import Config
from mucon.errors import RangeRule, check_ranges
from mucon.methods.frames.networks import FrameNetworkConfig
from mucon.training_config import DeviceResident, last_epoch, range_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTrainingConfig:
    """One video per step; a subclass adds settings and changes defaults.

    Attributes:
        epochs: passes over the training videos.
        stop_after: see `mucon.training_config.TrainingConfig`.
        optimiser: `adam`, `adamw` (see `weight_decay`), or `sgd` without momentum.
        learning_rate: initial rate.
        weight_decay: added to the gradient of every parameter; with `adamw`, each step takes the share rate · decay of
            the weights instead.
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

    ORDER: ClassVar[tuple[str, ...]] = ()
    """See `mucon.configuration.fields_of`."""

    epochs: int = 20
    stop_after: int | None = None
    optimiser: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 0.001
    weight_decay: float = 0.0
    clip_norm: float | None = None
    threads: int = 1
    progress_videos: int = 20
    progress_every: int = 5
    device_resident: DeviceResident = "auto"

    def __post_init__(self) -> None:
        check_ranges("training.", self.ranges())

    def ranges(self) -> list[RangeRule]:
        """The ranges of the settings, for `mucon.errors.check_ranges`; a subclass adds its own."""
        return range_rules(self)

    @property
    def last_epoch(self) -> int:
        """The epoch, counted from 1, after which training ends."""
        return last_epoch(self.epochs, self.stop_after)

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        return self.learning_rate

    @property
    def precision(self) -> Literal["float32"]:
        """Precision of the arithmetic."""
        return "float32"

    @property
    def warm_start(self) -> None:
        """Weights are always fresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig(Config):
    """Everything that determines a run besides its data; a subclass narrows the types and adds fields.

    Attributes:
        network: size of the network.
        seed: random seed for initialization, shuffling and everything else that is drawn.

    Raises:
        InputError: a value outside its range.
    """

    NOT_TRAINED: ClassVar[tuple[str, ...]] = (
        "training.device_resident",
        "training.progress_every",
        "training.progress_videos",
        "training.threads",
    )

    network: FrameNetworkConfig = field(default_factory=FrameNetworkConfig)
    training: NetworkTrainingConfig = field(default_factory=NetworkTrainingConfig)
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges("", [("seed", self.seed, "at least 0", self.seed >= 0)])

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """An early stop after the last epoch."""
        if self.training.last_epoch == self.training.epochs:
            yield "training.stop_after"
