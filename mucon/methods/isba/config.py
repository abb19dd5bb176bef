"""Configuration of ISBA and its recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mucon.errors import check_ranges
from mucon.methods.encoder_decoder.tcfpn import TcfpnNetworkConfig
from mucon.methods.isba.stop_rule import FIRST_CANDIDATE
from mucon.methods.weak import WeakConfig, WeakTrainingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryConfig:
    """How boundaries are refined between the loops of a training.

    Attributes:
        loops: loops into which the epochs are divided; one for each epoch if there are fewer epochs.
            Deviation: by default each epoch is a loop, see `mucon.methods.isba`.
        warm_start: a loop begins with the weights of the one before.
            Deviation: the released program trains a new network in each loop.
        patience: loops after the best one that may be no better; with one more, training effectively ends: the
            remaining epochs change nothing and take no time.
        margin: a difference of probabilities at a boundary up to this refines nothing.
        flip: probability that a boundary moves the other way.

    Raises:
        InputError: a value outside its range.
    """

    loops: int = 30
    warm_start: bool = True
    patience: int = 2
    margin: float = 0.02
    flip: float = 0.1

    def __post_init__(self) -> None:
        check_ranges(
            "boundaries.",
            [
                ("loops", self.loops, "at least 1", self.loops >= 1),
                ("patience", self.patience, "at least 0", self.patience >= 0),
                ("margin", self.margin, "from 0 to 1", 0 <= self.margin <= 1),
                ("flip", self.flip, "from 0 to 1", 0 <= self.flip <= 1),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IsbaConfig(WeakConfig):
    """TCFPN on soft targets from tokens; by default a loop per epoch.

    Attributes:
        boundaries: how the targets are refined.
    """

    network: TcfpnNetworkConfig = field(default_factory=TcfpnNetworkConfig)
    boundaries: BoundaryConfig = field(default_factory=BoundaryConfig)
    training: WeakTrainingConfig = field(default_factory=lambda: WeakTrainingConfig(epochs=30, learning_rate=0.0005))

    @classmethod
    def published(cls, n_videos: int) -> Mapping[str, Any]:  # noqa: ARG003  # it counts epochs
        """Up to twenty loops of 100 epochs, each with a new network."""
        return {
            "training.epochs": 2000,
            "training.learning_rate": 0.0001,
            "boundaries.loops": 20,
            "boundaries.warm_start": False,
        }

    @property
    def n_loops(self) -> int:
        """Number of loops with at least one epoch."""
        return min(self.boundaries.loops, self.training.epochs)

    def loop_of(self, epoch: int) -> int:
        """The loop, counted from 0, of an epoch, counted from 0."""
        return epoch * self.n_loops // self.training.epochs

    def looks_again(self, epoch: int) -> bool:
        """Whether an epoch is the first one of a loop, except for the first loop."""
        return epoch > 0 and self.loop_of(epoch) > self.loop_of(epoch - 1)

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """Also the first weights of loops that do not come."""
        yield from WeakConfig.without_effect(self, labelled)
        if self.n_loops == 1:
            yield "boundaries.warm_start"

    def limits(self) -> Mapping[str, int]:
        """A loop has at least one epoch; a patience from its limit on never ends the training."""
        return {
            "boundaries.loops": self.training.epochs,
            "boundaries.patience": max(self.n_loops - FIRST_CANDIDATE - 2, 0),
        }


def small() -> IsbaConfig:
    """A context of five frames on each side, for short recordings."""
    return IsbaConfig(network=TcfpnNetworkConfig(channels=(48,), kernel=5))


def demo() -> IsbaConfig:
    """A small network with a short context, for the demo data."""
    return IsbaConfig(
        network=TcfpnNetworkConfig(channels=(16,), maps=24, kernel=3),
        training=WeakTrainingConfig(epochs=20, learning_rate=0.002),
    )


def breakfast() -> IsbaConfig:
    """Every 15th frame, as the released program."""
    return IsbaConfig(network=TcfpnNetworkConfig(sample_rate=15))


RECIPES = {"weak": IsbaConfig, "small": small, "demo": demo, "breakfast": breakfast}
