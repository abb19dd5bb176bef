"""Settings that methods share which learn from transcripts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from mucon.configuration import Config, flatten
from mucon.errors import RangeRule, check_ranges
from mucon.methods.frames.network_config import NetworkConfig, NetworkTrainingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakTrainingConfig(NetworkTrainingConfig):
    """One video per step, at a rate that may drop once.

    Attributes:
        schedule: `passes`: so many epochs, with Adam by default. `published`: optimiser, rate and number of iterations
            of the released program, see `WeakConfig.published`; settings that are given, or differ from their defaults,
            take precedence. `WeakConfig.for_videos` writes their values into the configuration.
            Deviation: the default is not the released schedule, which counts iterations on a thousand long videos: on
            small data sets the same number of passes has a hundredth of the steps.
        lr_drop_fraction: share of the run after which the rate drops.
        lr_drop_factor: factor of the rate at the drop.

    Raises:
        InputError: a value outside its range.
    """

    ORDER: ClassVar[tuple[str, ...]] = (
        *("schedule", "epochs", "stop_after", "optimiser", "learning_rate"),
        *("lr_drop_fraction", "lr_drop_factor"),
    )

    schedule: Literal["passes", "published"] = "passes"
    lr_drop_fraction: float = 1.0
    lr_drop_factor: float = 0.1

    def ranges(self) -> list[RangeRule]:
        """Those of all methods with one network, and of the drop."""
        return [
            *NetworkTrainingConfig.ranges(self),
            ("lr_drop_fraction", self.lr_drop_fraction, "from 0 to 1", 0 <= self.lr_drop_fraction <= 1),
            ("lr_drop_factor", self.lr_drop_factor, "above 0", self.lr_drop_factor > 0),
        ]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakConfig(NetworkConfig):
    """Everything that determines a run besides its data; a subclass narrows the types and adds fields.

    Raises:
        InputError: a value outside its range, or the schedule `published` of a method that has none.
    """

    HAS_PUBLISHED: ClassVar[bool] = True
    """Whether a released program has a schedule, and a subclass `published`."""

    training: WeakTrainingConfig = field(default_factory=WeakTrainingConfig)

    def __post_init__(self) -> None:
        NetworkConfig.__post_init__(self)
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
        """Also a drop that never comes."""
        yield from NetworkConfig.without_effect(self, labelled)
        if self.training.drop_after >= self.training.epochs:
            yield from ("training.lr_drop_fraction", "training.lr_drop_factor")
