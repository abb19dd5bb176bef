"""The loss of ECTC: minus the log likelihood of the transcript over all its alignments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from mucon.arrays import Ints


def alignment_loss(log_probs: Tensor, transcript: Ints, gains: Tensor) -> Tensor:
    """Minus the log likelihood of a transcript, a scalar; see `kernels.forward_backward`.

    Where every gain is 1, every alignment has the product of its frames' probabilities. The sums are computed on the
    CPU in float64: log probabilities and gains are read back from the device once.
    Deviation: the published program takes the gradient of plain CTC, which ignores the denominators. This one is that
    of the stated likelihood.

    Args:
        log_probs: `[T, N]`.
        transcript: `[M]` action ids, 1 <= M <= T.
        gains: `[T]`, from `similarity_gains`.

    Source: Huang, Fei-Fei and Niebles, "Connectionist temporal modeling for weakly supervised action labeling",
    ECCV 2016.
    """
    return _AlignmentLoss.apply(log_probs, transcript, gains)


class _AlignmentLoss(torch.autograd.Function):
    """`alignment_loss`; the gradient is computed with the value."""

    apply: Callable[..., Tensor]

    @staticmethod
    def forward(ctx: Any, log_probs: Tensor, transcript: Ints, gains: Tensor) -> Tensor:
        from mucon.methods.ectc.kernels import forward_backward

        read = torch.cat((log_probs, gains[:, None].to(log_probs.dtype)), dim=1).double().cpu().numpy()
        likelihood, gradient = forward_backward(read[:, :-1].copy(), transcript, read[:, -1].copy())
        ctx.save_for_backward(torch.from_numpy(-gradient).to(log_probs))
        return log_probs.new_tensor(-likelihood)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return grad * gradient, None, None


def similarity_gains(features: Tensor, theta: float) -> Tensor:
    """How much more likely the same action is after a similar frame: gains `[T]`, at least 1.

    The gain is `max(theta, s) / theta`, where s is the cosine of a frame's features and those of the frame before it,
    scaled from -1..1 to 0..1. It is 1 for frames that are less similar than theta, and for the first one.

    Args:
        features: `[T, D]`.
        theta: least similarity, above 0; with 1 all gains are 1.
    """
    similar = (1 + functional.cosine_similarity(features[1:], features[:-1], dim=1)) / 2
    return torch.cat((features.new_ones(1), similar.clamp(min=theta) / theta))
