"""Losses of one video beyond the paper, as pure functions of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


def presence_loss(
    latent_logits: Float[Tensor, "L N"], transcript: Int[Tensor, " M"], top: float = 0.125
) -> Float[Tensor, ""]:
    """Binary cross-entropy of the presence of each action in a video, mean over the actions; a scalar.

    The logit of an action is the mean of its highest ones over time.

    Args:
        latent_logits: `[T', N]`.
        transcript: `[M]` int64.
        top: share of the latent frames that count, at least one of them.
    """
    highest = latent_logits.topk(max(1, int(top * len(latent_logits))), dim=0).values.mean(dim=0)
    present = torch.zeros_like(highest).index_fill(0, transcript, 1.0)
    return functional.binary_cross_entropy_with_logits(highest, present)


def class_means(
    latent: Float[Tensor, "L C"], latent_masks: Float[Tensor, "M L"], transcript: Int[Tensor, " M"], n_actions: int
) -> tuple[Float[Tensor, "N C"], Bool[Tensor, " N"]]:
    """Mean latent frame `[N, D']` of each action under the masks of its segments, and which actions occur, `[N]`.

    Args:
        latent: `[T', D']`.
        latent_masks: `[M, T']`, not negative.
        transcript: `[M]` int64.
        n_actions: N.
    """
    members = (transcript[:, None] == torch.arange(n_actions, device=transcript.device)).to(latent.dtype)
    weights = members.T @ latent_masks.to(latent.dtype)
    sums = weights.sum(dim=1, keepdim=True)
    return (weights @ latent) / sums.clamp(min=1e-6), sums[:, 0] > 0


def prototype_loss(
    means: Float[Tensor, "N C"],
    present: Bool[Tensor, " N"],
    prototypes: Float[Tensor, "N C"],
    known: Bool[Tensor, " N"],
    temperature: float = 0.2,
) -> Float[Tensor, ""]:
    """Cross-entropy of each action's prototype, given the action's mean latent frame; a scalar.

    The logits are cosines over the temperature; the mean is over the actions of the video whose prototype is known, and
    0 if there are none. No gradient flows to the prototypes.

    Args:
        means: `[N, D']`.
        present: `[N]`, actions of the video.
        prototypes: `[N, D']`.
        known: `[N]`, actions with a prototype.
        temperature: divisor of the cosines.
    """
    counted = (present & known).to(means.dtype)
    cosines = functional.normalize(means, dim=1) @ functional.normalize(prototypes.detach(), dim=1).T
    logits = (cosines / temperature).masked_fill(~known, -1e4)
    own = torch.log_softmax(logits, dim=1).diagonal()
    return -(own * counted).sum() / counted.sum().clamp(min=1)
