"""D3TW-style training: a video's own transcript has to fit its frames better than other transcripts do.

The cost of a transcript is the soft minimum, over all its alignments, of minus the log probabilities of the frames. No
program was released, and the paper leaves temperature, margin and number of the other transcripts open here: they are
settings, and the network is that of NNV.
Source: Chang, Huang, Sui, Fei-Fei and Niebles, "D3TW: Discriminative Differentiable Dynamic Time Warping for Weakly
Supervised Action Alignment and Segmentation", CVPR 2019.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mucon.arrays import Ints
from mucon.decoding.alignment import best_lengths
from mucon.decoding.fusion import known_facts
from mucon.decoding.length_priors import Flat
from mucon.errors import DataWarning, InputError, Problem, check_ranges
from mucon.method import Method
from mucon.methods.ectc.loss import alignment_loss
from mucon.methods.weak import EvidencePredictor, WeakConfig, WeakLearner, WeakMethod, WeakTrainingConfig
from mucon.methods.window_gru import WindowGru, WindowGruConfig
from mucon.segments import Segmentation


@dataclass(frozen=True, slots=True, kw_only=True)
class D3twLossConfig:
    """The costs and how they are compared.

    Attributes:
        gamma: temperature of the soft minimum, in nats per frame; with a small one only the best alignment counts.
        margin: nats per frame by which the cost of another transcript has to be higher. With 0, training ends when the
            transcripts are distinguished, which does not require correct frames.
        negatives: number of other transcripts per step, drawn from those of the training videos.

    Raises:
        InputError: a value outside its range.
    """

    gamma: float = 0.1
    margin: float = 0.5
    negatives: int = 4

    def __post_init__(self) -> None:
        check_ranges(
            "loss.",
            [
                ("gamma", self.gamma, "above 0 and finite", 0 < self.gamma < math.inf),
                ("margin", self.margin, "at least 0 and finite", 0 <= self.margin < math.inf),
                ("negatives", self.negatives, "at least 1", self.negatives >= 1),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class D3twConfig(WeakConfig):
    """Everything that determines a run besides its data."""

    HAS_PUBLISHED: ClassVar[bool] = False

    network: WindowGruConfig = field(default_factory=WindowGruConfig)
    loss: D3twLossConfig = field(default_factory=D3twLossConfig)


def transcript_cost(log_probs: Tensor, transcript: Ints, gamma: float) -> Tensor:
    """The soft minimum of minus the log probabilities over all alignments, a scalar; see `alignment_loss`.

    Args:
        log_probs: `[T, N]`.
        transcript: `[M]` action ids, 1 <= M <= T.
        gamma: temperature, above 0.
    """
    return gamma * alignment_loss(log_probs / gamma, transcript, log_probs.new_ones(len(log_probs)))


class D3twLearner(WeakLearner):
    """A hinge on the difference of a video's own cost and that of each drawn transcript, per frame.

    Warns:
        DataWarning: all training videos have the same transcript, so that nothing is learned.
    """

    TERMS: ClassVar[tuple[str, ...]] = ("total", "own")
    config: D3twConfig
    network: WindowGru

    def prepare(self) -> None:
        """Collects the transcripts that are not those of a video."""
        distinct = [np.array(one) for one in sorted({tuple(own.tolist()) for own in self.transcripts})]
        if len(distinct) == 1:
            message = (
                "all training videos have the same transcript; the loss compares different ones and learns nothing"
            )
            problem = Problem(rule="missing", place="transcripts", value=len(distinct), message=message)
            warnings.warn(DataWarning(problem), stacklevel=3)
        self.others = [
            [one for one in distinct if not np.array_equal(one, own) and len(one) <= video.n_frames]
            for own, video in zip(self.transcripts, self.videos, strict=True)
        ]

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """A step on one video; see `Learner.step`. Reads the log probabilities back once for each transcript.

        A video that is too short for all other transcripts has no loss.
        """
        settings, others = self.config.loss, self.others[index]
        log_probs = self.network(features)
        own = transcript_cost(log_probs, self.transcripts[index], settings.gamma) / len(features)
        total = 0 * own
        random = np.random.default_rng([self.seed, epoch, step])
        drawn = random.choice(len(others), min(settings.negatives, len(others)), replace=False)
        for other in drawn:
            cost = transcript_cost(log_probs, others[other], settings.gamma) / len(features)
            total = total + torch.relu(own - cost + settings.margin) / len(drawn)
        torch.autograd.backward(total)
        return torch.cat((torch.stack((total, own)).detach(), self.optimiser.step(rate)))


class D3twPredictor(EvidencePredictor):
    """`full` is the training transcript with the lowest cost; alignments are those that fit the frames best."""

    def segmented(self, name: str, log_probs: NDArray[np.floating]) -> Segmentation:
        """A prediction for log posteriors `[T, N]`; see `EvidencePredictor.segmented`."""
        if name == "frames":
            return EvidencePredictor.segmented(self, name, log_probs)
        transcripts = known_facts(self.facts, "training facts").transcripts
        fitting = [np.array(one) for one in transcripts if len(one) <= len(log_probs)]
        if not fitting:
            shortest = min(map(len, transcripts))
            expected = f"at least {shortest} frames, the segments of the shortest training transcript"
            raise InputError(Problem(rule="shape", place="features", value=len(log_probs), expected=expected))
        assert isinstance(self.config, D3twConfig)
        values, gamma = torch.from_numpy(log_probs), self.config.loss.gamma
        costs = [float(transcript_cost(values, one, gamma)) for one in fitting]
        return self.aligned(name, log_probs, fitting[int(np.argmin(costs))].tolist())

    def aligned(self, name: str, log_probs: NDArray[np.floating], transcript: Sequence[int]) -> Segmentation:
        """The given transcript `[M]` with the lengths that fit the frames best, for both predictions."""
        return Segmentation.of(transcript, best_lengths(log_probs, transcript, Flat())[0])


def demo() -> D3twConfig:
    """A small network and a short schedule for the demo data."""
    training = WeakTrainingConfig(epochs=14, learning_rate=0.003)
    return D3twConfig(network=WindowGruConfig(hidden=32, window=11), training=training)


RECIPES = {"weak": D3twConfig, "demo": demo}
D3TW: Method[D3twConfig] = WeakMethod("d3tw", D3twConfig, RECIPES, D3twLearner, main="full", predictor=D3twPredictor)
