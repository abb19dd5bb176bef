"""NeuralNetwork-Viterbi: frames learn the labels of the alignment that the network itself finds.

Source: Richard, Kuehne, Iqbal and Gall, "NeuralNetwork-Viterbi: A Framework for Weakly Supervised Video Learning",
CVPR 2018, and their released program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mucon.arrays import Ints
from mucon.errors import check_ranges
from mucon.method import Method
from mucon.methods.weak import WeakMethod, WeakTrainingConfig
from mucon.methods.window_gru import WindowGruConfig, Windows
from mucon.methods.window_gru.config import AlignedConfig, released_schedule
from mucon.methods.window_gru.learner import AlignedLearner

ITERATIONS = 10_000
"""Videos that the released program visits."""
PASSES = 7
"""The same number of passes over its 1,460 training videos, rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferConfig:
    """The frames of a step: those of its video, and drawn frames of the videos that were visited last.

    Attributes:
        ratio: drawn frames per frame of the video, at most all frames in the buffer. Deviation: the released program
            draws 25.
        minibatch: frames per step of the optimiser.

    Raises:
        InputError: a value outside its range.
    """

    ratio: float = 5.0
    minibatch: int = 512

    def __post_init__(self) -> None:
        check_ranges(
            "buffer.",
            [
                ("ratio", self.ratio, "at least 0 and finite", 0 <= self.ratio < math.inf),
                ("minibatch", self.minibatch, "at least 1", self.minibatch >= 1),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NnvConfig(AlignedConfig):
    """The released program's passes and network, with Adam on the mean loss."""

    buffer: BufferConfig = field(default_factory=BufferConfig)
    training: WeakTrainingConfig = field(default_factory=lambda: WeakTrainingConfig(epochs=PASSES))

    @classmethod
    def published(cls, n_videos: int) -> Mapping[str, Any]:
        """The settings of the released program, by path."""
        return {**released_schedule(ITERATIONS, n_videos, 0.25), "buffer.ratio": 25.0}


class NnvLearner(AlignedLearner):
    """Cross-entropy of the decoded labels of a video's frames and of drawn frames of earlier videos."""

    TERMS = ("total",)
    config: NnvConfig

    def prepare(self) -> None:
        """Creates an empty buffer, and the windows of all frames."""
        super().prepare()
        choice = self.schedule.device_resident
        self.windows = Windows(self.videos, self.config.network.window, self.device, choice=choice)

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """Steps on the frames of one video and drawn ones; see `Learner.step`. Reads the posteriors back once."""
        labels = self.align(index, self.network.frame_log_probs(features), epoch).labels
        videos, places, targets = self._examples(index, labels, np.random.default_rng([self.seed, epoch, step]))
        wanted = torch.from_numpy(targets).to(self.device, non_blocking=True)
        total = torch.zeros((), device=self.device)
        norms = []
        for first in range(0, len(targets), self.config.buffer.minibatch):
            part = slice(first, first + self.config.buffer.minibatch)
            loss = functional.nll_loss(
                self.network.of_windows(self.windows.get(videos[part], places[part])), wanted[part]
            )
            torch.autograd.backward(loss)
            norms.append(self.optimiser.step(rate))
            total += loss.detach() * len(wanted[part])
        self.buffer.put(epoch, step, index, labels)
        return torch.cat((total[None] / len(targets), torch.stack(norms).mean(0)))

    def _examples(self, index: int, labels: Ints, random: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        """Videos, places and labels of a step's frames, in random order."""
        T = len(labels)
        drawn = self.buffer.draw(int(min(self.config.buffer.ratio * T, self.buffer.n_frames)), random)
        order = random.permutation(T + len(drawn[0]))
        own = (np.full(T, index), np.arange(T), labels)
        videos, places, targets = (np.concatenate(pair)[order] for pair in zip(own, drawn, strict=True))
        return videos, places, targets


class _Nnv(WeakMethod[NnvConfig]):
    def short_steps(self, config: NnvConfig) -> int:
        """Until the buffer has as many frames as a step draws."""
        return math.ceil(config.buffer.ratio)


def demo() -> NnvConfig:
    """A small network and a short schedule for the demo data."""
    return NnvConfig(
        network=WindowGruConfig(hidden=32, window=11), training=WeakTrainingConfig(epochs=4, learning_rate=0.003)
    )


def published_program() -> NnvConfig:
    """The schedule of the released program."""
    return NnvConfig(training=WeakTrainingConfig(epochs=PASSES, schedule="published"))


RECIPES = {"weak": NnvConfig, "demo": demo, "published_program": published_program}
NNV: Method[NnvConfig] = _Nnv("nnv", NnvConfig, RECIPES, NnvLearner, main="full")
