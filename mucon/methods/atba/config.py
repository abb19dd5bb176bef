"""Configuration of ATBA, and its recipes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mucon.errors import RangeRule
from mucon.methods.atba.alignment import AlignmentConfig
from mucon.methods.atba.losses import AtbaLossConfig
from mucon.methods.atba.network import AtbaNetworkConfig
from mucon.methods.weak import WeakConfig, WeakTrainingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class AtbaTrainingConfig(WeakTrainingConfig):
    """Two stages: the actions of each video alone, then also the pseudo labels, with a fresh optimiser.

    Both begin with a warm-up of a fortieth of all epochs, the first one from 1 % of the rate and the second one from
    10 %; in the second one the rate then falls to 1 % along a cosine. A drop is on top of that.

    Attributes:
        accumulate: videos whose gradients are averaged for one step of the optimiser. Deviation: 32 in the released
            program, with 400 epochs; 4 and 100 make a quarter of the passes and twice as many steps.
        stage1_epochs: epochs of the first stage, fewer than all; by default a tenth of them, at least one if
            there are two.

    Raises:
        InputError: a value outside its range.
    """

    epochs: int = 100
    optimiser: Literal["adam", "adamw", "sgd"] = "adamw"
    learning_rate: float = 0.0005
    weight_decay: float = 0.0001
    accumulate: int = 4
    stage1_epochs: int | None = None

    def ranges(self) -> list[RangeRule]:
        """Those of all weak methods, and of the stages."""
        rules = [*WeakTrainingConfig.ranges(self), ("accumulate", self.accumulate, "at least 1", self.accumulate >= 1)]
        if self.stage1_epochs is not None:
            first = f"at least 0 and below the number of epochs ({self.epochs})"
            rules.append(("stage1_epochs", self.stage1_epochs, first, 0 <= self.stage1_epochs < self.epochs))
        return rules

    @property
    def first_stage(self) -> int:
        """Epochs of the first stage."""
        return min(max(self.epochs // 10, 1), self.epochs - 1) if self.stage1_epochs is None else self.stage1_epochs

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        in_second = epoch >= self.first_stage
        begun, start = (epoch - self.first_stage, 0.1) if in_second else (epoch, 0.01)
        warm_up = self.epochs // 40
        if begun < warm_up:
            share = start + (1 - start) * begun / warm_up
        elif in_second:
            falling = max(self.epochs - self.first_stage - warm_up, 1)
            share = 0.01 + 0.99 * (1 + math.cos(math.pi * (begun - warm_up) / falling)) / 2
        else:
            share = 1.0
        return WeakTrainingConfig.rate(self, epoch) * share


@dataclass(frozen=True, slots=True, kw_only=True)
class AtbaConfig(WeakConfig):
    """Boundary alignment, class tokens and two stages.

    Deviations: the default network has 64 maps and 3 layers (256 and 6 in the released program) and sees every frame.
    """

    network: AtbaNetworkConfig = field(default_factory=AtbaNetworkConfig)
    loss: AtbaLossConfig = field(default_factory=AtbaLossConfig)
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    training: AtbaTrainingConfig = field(default_factory=AtbaTrainingConfig)

    @classmethod
    def published(cls, n_videos: int) -> Mapping[str, Any]:  # noqa: ARG003  # the same for every number
        """Epochs and videos per step of the released program; the other settings are the defaults."""
        return {"training.epochs": 400, "training.accumulate": 32}

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """Also the settings of the boundaries where the alignment is exact, and a first stage of usual length."""
        yield from WeakConfig.without_effect(self, labelled)
        if self.training.first_stage == replace(self.training, stage1_epochs=None).first_stage:
            yield "training.stage1_epochs"
        if self.alignment.kind == "exact":
            names = ("boundary_window", "transition_window", "candidates", "suppression")
            yield from (f"alignment.{name}" for name in names)


def demo() -> AtbaConfig:
    """A small network and a short schedule for the demo data."""
    return AtbaConfig(
        network=AtbaNetworkConfig(maps=32, layers=2),
        training=AtbaTrainingConfig(epochs=12, learning_rate=0.003, accumulate=1),
    )


def published_program() -> AtbaConfig:
    """The published network and schedule, with one frame of every ten, as on Breakfast."""
    return AtbaConfig(
        network=AtbaNetworkConfig(maps=256, layers=6, sample_rate=10),
        training=AtbaTrainingConfig(schedule="published"),
    )
