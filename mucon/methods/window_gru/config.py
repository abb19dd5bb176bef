"""Settings of the methods that align with the window GRU's posteriors and learn from the alignment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from mucon.errors import check_ranges
from mucon.methods.weak import WeakConfig, WeakTrainingConfig
from mucon.methods.window_gru.network import WindowGruConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentConfig:
    """How the transcript of a training video is aligned before its step.

    Attributes:
        decoder: `exact`, or `published`: the released program's decoder including its faults, see
            `mucon.decoding.published`. Predictions are always exact.
        step: frames per step of `published`; `exact` decides every frame.
        class_prior: divide the posteriors by each action's share of the decoded frames, also in predictions.

    Raises:
        InputError: a value outside its range.
    """

    decoder: Literal["exact", "published"] = "exact"
    step: int = 30
    class_prior: bool = True

    def __post_init__(self) -> None:
        check_ranges("alignment.", [("step", self.step, "at least 1 frame", self.step >= 1)])


def released_schedule(iterations: int, n_videos: int, drop: float) -> dict[str, Any]:
    """The schedule of the released programs, by path: gradient descent with a rate of 0.01 that drops once.

    Args:
        iterations: visited videos, rounded up to whole epochs.
        n_videos: number of training videos.
        drop: share of the run after which the rate drops.
    """
    return {
        "training.epochs": -(-iterations // n_videos),
        "training.optimiser": "sgd",
        "training.learning_rate": 0.01,
        "training.lr_drop_fraction": drop,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedConfig(WeakConfig):
    """Base of the configurations of NNV and CDFL."""

    network: WindowGruConfig = field(default_factory=WindowGruConfig)
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    training: WeakTrainingConfig = field(default_factory=WeakTrainingConfig)

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """Those of every weak method, and the steps of the exact decoder."""
        yield from WeakConfig.without_effect(self, labelled)
        if self.alignment.decoder == "exact":
            yield "alignment.step"
