"""Losses of one video as pure functions of float32 or float64 tensors (paper, sections 4.4 and 4.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Real


def segment_consistency(
    latent_logits: Float[Tensor, "L N"],
    latent_masks: Float[Tensor, "M L"],
    transcript: Int[Tensor, " M"],
    divisors: Float[Tensor, " M"],
    over_segments: Literal["mean", "sum"] = "mean",
    weights: Float[Tensor, " M"] | None = None,
) -> Float[Tensor, ""]:
    """L_mu: cross-entropy between each segment's averaged logits and its action; a scalar.

    Args:
        latent_logits: `[T', N]` before the softmax.
        latent_masks: `[M, T']`, masks summed over the frames of each latent frame (`masks.frames_per_latent`).
        transcript: `[M]` int64.
        divisors: `[M]` frames, divisors of the summed logits.
        over_segments: reduction.
        weights: `[M]` weights of the segments in the sum or the mean; None: all 1.

    Source: paper, equations (1) to (3).
    """
    averaged = (latent_masks @ latent_logits) / divisors[:, None]
    if weights is None:
        return functional.cross_entropy(averaged, transcript, reduction=over_segments)
    weighted = (weights * functional.cross_entropy(averaged, transcript, reduction="none")).sum()
    return weighted if over_segments == "sum" else weighted / weights.sum()


def frame_consistency(
    latent_logits: Float[Tensor, "L N"],
    latent_masks: Float[Tensor, "M L"],
    transcript: Int[Tensor, " M"],
    n_frames: int,
    weights: Float[Tensor, " M"] | None = None,
) -> Float[Tensor, ""]:
    """Masked cross-entropy of the frames, summed over segments and divided by T; a scalar.

    Args:
        latent_logits: `[T', N]`.
        latent_masks: `[M, T']`, masks summed over the frames of each latent frame.
        transcript: `[M]` int64.
        n_frames: T.
        weights: `[M]` weights of the segments; None: all 1.
    """
    costs = -functional.log_softmax(latent_logits, dim=1)
    if weights is not None:
        latent_masks = weights[:, None] * latent_masks
    return (latent_masks * costs.t()[transcript]).sum() / n_frames


def transcript_loss(
    transcript_logits: Float[Tensor, "steps symbols"], targets: Int[Tensor, " steps"]
) -> Float[Tensor, ""]:
    """L_t: cross-entropy summed over the M actions and the end symbol; a scalar.

    Args:
        transcript_logits: `[M+1, N+1]`.
        targets: `[M+1]` int64, the transcript and the end symbol N.

    Source: paper, section 4.3.
    """
    return functional.cross_entropy(transcript_logits, targets, reduction="sum")


def length_loss(log_lengths: Float[Tensor, " M"], width: float = 2.0) -> Float[Tensor, ""]:
    """L_l: sum of the distances of the relative log lengths `[M]` from [-width, width]; a scalar.

    Source: paper, equation (11).

    >>> length_loss(torch.tensor([-3.0, 0.0, 2.5])).item()
    1.5
    """
    return functional.relu(log_lengths.abs() - width).sum()


def smoothing_loss(
    latent_logits: Float[Tensor, "L N"],
    n_frames: int,
    threshold: float = 4.0,
    rule: Literal["per_term", "after_mean"] = "per_term",
    detached: bool = True,
) -> Float[Tensor, ""]:
    """L_s: squared differences between neighbouring frames' log-probabilities, averaged over (T-1)·N terms; a scalar.

    Frames of the same latent frame do not differ, so only the T'-1 borders between latent frames are computed. The
    earlier frame is detached. Deviation: the paper detaches nothing and divides by T·N; MS-TCN, where the loss comes
    from, and the published program detach it and divide as here.

    Args:
        latent_logits: `[T', N]`.
        n_frames: T.
        threshold: tau.
        rule: clamp each term, or their mean (published program).
        detached: no gradient through the earlier frame.

    Source: paper, equations (12) and (13).
    """
    log_probs = functional.log_softmax(latent_logits, dim=1)
    earlier = log_probs[:-1]
    differences = log_probs[1:] - (earlier.detach() if detached else earlier)
    count = max(n_frames - 1, 1) * latent_logits.shape[1]
    if rule == "per_term":
        return differences.abs().clamp(max=threshold).square().sum() / count
    return (differences.square().sum() / count).clamp(max=threshold**2)


def frame_cross_entropy(
    latent_logits: Float[Tensor, "L N"], latent_of_frame: Int[Tensor, " T"], frame_labels: Int[Tensor, " T"]
) -> Float[Tensor, ""]:
    """Cross-entropy of the frames with their true labels, mean over T; a scalar.

    Args:
        latent_logits: `[T', N]`.
        latent_of_frame: `[T]` int64, the latent frame of each frame.
        frame_labels: `[T]` int64.

    Source: paper, section 4.7.
    """
    return functional.cross_entropy(latent_logits[latent_of_frame], frame_labels)


def supervised_length_loss(
    log_lengths: Float[Tensor, " M"], true_lengths: Real[Tensor, " M"], rule: Literal["log", "share"] = "log"
) -> Float[Tensor, ""]:
    """Mean squared difference of predicted and true lengths; a scalar.

    Relative log lengths have no zero point, so the mean is subtracted on each side: adding the same number to all
    predicted ones changes neither the lengths nor this loss. True lengths are raised to one frame.

    Args:
        log_lengths: `[M]`, relative.
        true_lengths: `[M]` frames.
        rule: `log` compares relative log lengths, `share` compares shares of the video (published program).

    Source: paper, section 4.7.

    >>> supervised_length_loss(torch.tensor([5.0, 5.0]), torch.tensor([4, 4])).item()
    0.0
    >>> supervised_length_loss(torch.zeros(2), torch.tensor([3, 1]), "share").item()
    0.0625
    """
    if rule == "share":
        shares = true_lengths / true_lengths.sum()
        return functional.mse_loss(torch.softmax(log_lengths, dim=0), shares.to(log_lengths.dtype))
    true_logs = true_lengths.clamp(min=1).to(log_lengths.dtype).log()
    return functional.mse_loss(log_lengths - log_lengths.mean(), true_logs - true_logs.mean())
