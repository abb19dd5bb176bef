"""The configuration of the HMM/RNN, and its recipes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mucon.errors import RangeRule
from mucon.methods.hmm_rnn.network import HmmNetworkConfig
from mucon.methods.weak import WeakConfig, WeakTrainingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class HmmTrainingConfig(WeakTrainingConfig):
    """One video per step, in one batch of its frames or several.

    Attributes:
        realign_every: epochs after which the videos are aligned again and the numbers of states are estimated again.
        frames_per_state: mean frames of a segment for which its action has one more state.
        minibatch: largest number of frames in a step of the optimiser. Deviation: a batch contains frames of one video.

    Raises:
        InputError: a value outside its range.
    """

    epochs: int = 25
    realign_every: int = 5
    frames_per_state: int = 10
    minibatch: int = 512

    def ranges(self) -> list[RangeRule]:
        """Those of all weak methods, and of alignments and batches."""
        return [
            *WeakTrainingConfig.ranges(self),
            ("realign_every", self.realign_every, "at least 1", self.realign_every >= 1),
            ("frames_per_state", self.frames_per_state, "at least 1", self.frames_per_state >= 1),
            ("minibatch", self.minibatch, "at least 1", self.minibatch >= 1),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class HmmConfig(WeakConfig):
    """Everything that determines a run of the HMM/RNN besides its data."""

    network: HmmNetworkConfig = field(default_factory=HmmNetworkConfig)
    training: HmmTrainingConfig = field(default_factory=HmmTrainingConfig)

    @classmethod
    def published(cls, n_videos: int) -> Mapping[str, Any]:  # noqa: ARG003  # it counts epochs
        """The released schedule: eight alignments, five epochs after each, gradient descent with a rate of 1.

        Deviation: the released program lowers the rate when its criterion stops improving, and goes on with the best
        of five epochs.
        """
        return {"training.optimiser": "sgd", "training.learning_rate": 1.0, "training.epochs": 40}

    def looks_again(self, epoch: int) -> bool:
        """Whether all videos are aligned again before an epoch."""
        return epoch > 0 and epoch % self.training.realign_every == 0

    def limits(self) -> Mapping[str, int]:
        """An alignment after the last epoch never comes."""
        return {"training.realign_every": self.training.epochs}


def demo() -> HmmConfig:
    """A short schedule for the demo data."""
    return HmmConfig(training=HmmTrainingConfig(epochs=12, realign_every=3, learning_rate=0.003))
