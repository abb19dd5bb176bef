"""Settings and learner of CDFL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from mucon.errors import check_ranges
from mucon.methods.cdfl.loss import Discriminative, candidates, loss_terms
from mucon.methods.weak import WeakTrainingConfig
from mucon.methods.window_gru import WindowGruConfig
from mucon.methods.window_gru.config import AlignedConfig, released_schedule
from mucon.methods.window_gru.learner import AlignedLearner

ITERATIONS = 100_000
"""Videos that the released program visits."""
PASSES = 69
"""The same number of passes over its 1,460 training videos, rounded."""
PUBLISHED_FRAMES = 512
"""The released program divides the sum over all frames of a video by this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CdflLossConfig:
    """The loss of a video: the soft minimum over its transcript's paths, minus that over their rivals.

    Attributes:
        window: each boundary of the alignment may move by up to half of it, in frames; 0 keeps the alignment.
        step: frames between two places of a boundary.
        discriminative: labels that compete with the true one of a segment, see `mucon.methods.cdfl.loss`. Deviation:
            `none` by default; the released program has those of `released`.
        scale: `mean`: the loss is divided by the frames of the video. Deviation: the released program divides by 512
            (`published`), which makes the steps of short videos small.

    Raises:
        InputError: a value outside its range.
    """

    window: int = 10
    step: int = 5
    discriminative: Discriminative = "none"
    scale: Literal["mean", "published"] = "mean"

    def __post_init__(self) -> None:
        twice = 2 * self.step
        fits = self.step >= 1 and self.window >= 0 and self.window % twice == 0
        check_ranges(
            "loss.",
            [
                ("step", self.step, "at least 1 frame", self.step >= 1),
                ("window", self.window, f"a multiple of {twice} frames (twice loss.step)", fits or self.step < 1),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CdflConfig(AlignedConfig):
    """The released program's passes and network, with Adam on the mean loss."""

    loss: CdflLossConfig = field(default_factory=CdflLossConfig)
    training: WeakTrainingConfig = field(default_factory=lambda: WeakTrainingConfig(epochs=PASSES))

    @classmethod
    def published(cls, n_videos: int) -> Mapping[str, Any]:
        """The settings of the released program, by path."""
        return {
            **released_schedule(ITERATIONS, n_videos, 0.6),
            "loss.scale": "published",
            "loss.discriminative": "released",
        }

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """Those of the alignment, and the step of a window without places."""
        yield from AlignedConfig.without_effect(self, labelled)
        if self.loss.window == 0:
            yield "loss.step"


class CdflLearner(AlignedLearner):
    """One gradient of all frames of a video; the buffer serves only the class prior and the mean lengths."""

    TERMS = ("total", "valid", "rivals")
    config: CdflConfig

    def prepare(self) -> None:
        """Creates an empty buffer, and the transcripts on the device."""
        super().prepare()
        self.actions = [torch.from_numpy(transcript).to(self.device) for transcript in self.transcripts]

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """A step on one video; see `Learner.step`. Reads the posteriors back once, for the alignment."""
        settings = self.config.loss
        log_probs = self.network(features)
        aligned = self.align(index, log_probs, epoch)
        places, exist = (
            torch.from_numpy(array).to(self.device, non_blocking=True)
            for array in candidates(aligned.lengths, window=settings.window, step=settings.step)
        )
        valid, rivals = loss_terms(log_probs, self.actions[index], places, exist, settings.discriminative)
        frames = PUBLISHED_FRAMES if settings.scale == "published" else len(features)
        terms = torch.stack((valid - rivals, valid, rivals)).float() / frames
        torch.autograd.backward(terms[0])
        norms = self.optimiser.step(rate)
        self.buffer.put(epoch, step, index, aligned.labels)
        return torch.cat((terms.detach(), norms))


def demo() -> CdflConfig:
    """A small network and a short schedule for the demo data."""
    return CdflConfig(
        network=WindowGruConfig(hidden=32, window=11), training=WeakTrainingConfig(epochs=14, learning_rate=0.003)
    )


def published_program() -> CdflConfig:
    """The schedule of the released program."""
    return CdflConfig(training=WeakTrainingConfig(epochs=PASSES, schedule="published"))
