"""ATBA's losses of a recording: actions of the transcript, pseudo labels, and features beside class tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from mucon.errors import check_ranges

TEMPERATURE = 0.2
"""Divisor of the cosines of features and tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtbaLossConfig:
    """Loss: of the video + of the frames + `glc` · of the features beside the tokens.

    Attributes:
        glc: weight of the last term.
        background_weight: weight of the frames that the pseudo labels give to a background action.

    Raises:
        InputError: a value outside its range.
    """

    glc: float = 0.1
    background_weight: float = 1.0

    def __post_init__(self) -> None:
        check_ranges(
            "loss.",
            [
                ("glc", self.glc, "at least 0", self.glc >= 0),
                ("background_weight", self.background_weight, "above 0", self.background_weight > 0),
            ],
        )


def video_loss(logits: Tensor, present: Tensor) -> Tensor:
    """Binary cross-entropy of the presence of each action, mean over the classes; a scalar.

    Args:
        logits: `[N]`.
        present: `[N]`, 1 for the actions of the transcript and 0 for the others.
    """
    return functional.binary_cross_entropy_with_logits(logits, present)


def frame_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Cross-entropy with the pseudo labels, weighted mean over the frames; a scalar.

    Args:
        logits: `[T, N]`.
        labels: `[T]` int64.
        weights: `[N]`, weight of the frames of each class.
    """
    return functional.cross_entropy(logits, labels, weights)


def token_loss(frames: Tensor, tokens: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the token of a class among all tokens, given the mean feature of its frames; a scalar.

    The logits are cosines over `TEMPERATURE`; the mean is over the classes that have frames. No gradient flows to the
    tokens.

    Args:
        frames: `[T, C]`, features.
        tokens: `[N, C]`.
        labels: `[T]` int64.
    """
    classes = torch.arange(len(tokens), device=labels.device)
    members = (labels == classes[:, None]).to(frames.dtype)
    counts = members.sum(dim=1)
    means = (members @ frames) / counts.clamp(min=1)[:, None]
    logits = functional.normalize(means, dim=1) @ functional.normalize(tokens.detach(), dim=1).T / TEMPERATURE
    present = (counts > 0).to(frames.dtype)
    return -(torch.log_softmax(logits, dim=1).diagonal() * present).sum() / present.sum()
