"""Settings that methods share which learn from transcripts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from mucon.configuration import Config, flatten
from mucon.errors import check_ranges
from mucon.methods.frames.config import NOT_TRAINED
from mucon.methods.frames.networks import FrameNetworkConfig, NetworkConfig
from mucon.training_config import DeviceResident, last_epoch, range_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakTrainingConfig:
    """One video per step.

    Attributes:
        schedule: `passes`: so many epochs, with Adam by default. `published`: optimiser, rate and number of iterations
            of the released program, see `WeakConfig.published`; settings that are given, or differ from their defaults,
            take precedence. `WeakConfig.for_videos` writes their values into the configuration.
            Deviation: the default is not the released schedule, which counts iterations on a thousand long videos: on
            small data sets the same number of passes has a hundredth of the steps.
        epochs: passes over the training videos.
        stop_after: see `mucon.training_config.TrainingConfig`.
        optimiser: `adam`, `adamw` (see `weight_decay`), or `sgd` without momentum.
        learning_rate: initial rate.
        lr_drop_fraction: share of the run after which the rate drops.
        lr_drop_factor: factor of the rate at the drop.
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

    schedule: Literal["passes", "published"] = "passes"
    epochs: int = 20
    stop_after: int | None = None
    optimiser: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 0.001
    lr_drop_fraction: float = 1.0
    lr_drop_factor: float = 0.1
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
                ("lr_drop_fraction", self.lr_drop_fraction, "from 0 to 1", 0 <= self.lr_drop_fraction <= 1),
                ("lr_drop_factor", self.lr_drop_factor, "above 0", self.lr_drop_factor > 0),
            ],
        )

    @property
    def last_epoch(self) -> int:
        """The epoch, counted from 1, after which training ends."""
        return last_epoch(self.epochs, self.stop_after)

    @property
    def drop_after(self) -> int:
        """Number of epochs with the initial rate."""
        return round(self.lr_drop_fraction * self.epochs)

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        return self.learning_rate * (self.lr_drop_factor if epoch >= self.drop_after else 1.0)

    @property
    def labelled(self) -> float:
        """No frame label is used."""
        return 0.0

    @property
    def precision(self) -> Literal["float32"]:
        """Precision of the arithmetic."""
        return "float32"

    @property
    def warm_start(self) -> None:
        """Weights are always fresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakConfig(NetworkConfig):
    """Everything that determines a run besides its data; a subclass narrows the types and adds fields.

    Attributes:
        network: size of the network.
        seed: random seed for initialization, shuffling and everything else that is drawn.

    Raises:
        InputError: a value outside its range, or the schedule `published` of a method that has none.
    """

    NOT_TRAINED: ClassVar[tuple[str, ...]] = NOT_TRAINED
    HAS_PUBLISHED: ClassVar[bool] = True
    """Whether a released program has a schedule, and a subclass `published`."""

    network: FrameNetworkConfig = field(default_factory=FrameNetworkConfig)
    training: WeakTrainingConfig = field(default_factory=WeakTrainingConfig)
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges("", [("seed", self.seed, "at least 0", self.seed >= 0)])
        schedule, expected = self.training.schedule, "passes, since no released program contains a schedule"
        check_ranges("training.", [("schedule", schedule, expected, self.HAS_PUBLISHED or schedule == "passes")])

    @classmethod
    def published(cls, n_videos: int) -> Mapping[str, Any]:
        """The settings of the released program for a number of training videos, by path.

        Args:
            n_videos: number of training videos; a released number of iterations is rounded up to whole epochs.
        """
        raise NotImplementedError

    def for_videos(self, n_videos: int, given: Collection[str] = ()) -> Self:
        """The configuration with the settings of its schedule, which is then `passes`.

        Args:
            n_videos: number of training videos.
            given: paths of settings that are kept, besides those that differ from their defaults.
        """
        if self.training.schedule == "passes":
            return self
        kept = {*self.differences(), *given}
        values = {path: value for path, value in self.published(n_videos).items() if path not in kept}
        return self.with_values({**values, "training.schedule": "passes"})

    def canonical(self, *, labelled: bool | None = None) -> Self:
        """See `Config.canonical`; a number from its limit on is the default if that is not below it, or the limit."""
        plain = Config.canonical(self, labelled=labelled)
        values, default = flatten(plain.to_dict()), self._defaults()
        limits = {path: limit for path, limit in plain.limits().items() if values[path] >= limit}
        return plain.with_values(
            {path: default[path] if default[path] >= limit else limit for path, limit in limits.items()}
        )

    def looks_again(self, epoch: int) -> bool:
        """Whether an epoch, counted from 0, begins with a prediction of all training videos."""
        return False

    def limits(self) -> Mapping[str, int]:
        """Path of a number -> its limit: it and all larger numbers have the same effect."""
        return {}

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """The factor of a drop that never comes, and an early stop after the last epoch."""
        training = self.training
        if training.drop_after >= training.epochs:
            yield from ("training.lr_drop_fraction", "training.lr_drop_factor")
        if training.last_epoch == training.epochs:
            yield "training.stop_after"
