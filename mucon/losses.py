"""Losses of one video as pure functions of float32 or float64 tensors (paper, sections 4.4 and 4.6)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn import functional

from mucon.errors import check_ranges

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Real


@dataclass(frozen=True, slots=True, kw_only=True)
class LossConfig:
    """Weights of the terms, and choices that the paper does not specify. A weight of 0 disables a term.

    Attributes:
        mutual_consistency: weight of L_mu.
        transcript: weight of L_t.
        length: alpha, weight of the length regulariser.
        smoothing: beta, weight of the smoothing loss.
        over_segments: reduction of L_mu over the segments. Deviation: the paper sums; the published program, and so
            the published numbers, use the mean.
        normalise: divisor of L_mu's summed logits: `length` (l'_m, the paper), `stretched_length` (including the
            overlap, the published program) or `mask_sum` (the sum of the mask over the frames).
        detach_length: no gradient through that divisor.
        consistency: `segment`: cross-entropy of averaged logits, equation (2); `frame`: masked cross-entropy of each
            frame, summed over segments and divided by T (the published program's alternative).
        length_width: w; log lengths in [-w, w] have no cost.
        smoothing_threshold: tau.
        smoothing_rule: `per_term`: mean of min(tau, |difference|)² (paper). `after_mean`: mean of the squares, limited
            to tau² (published program).
        smoothing_detached: no gradient through the earlier frame. Deviation: the paper does not detach it.
        frame: weight of the frame cross-entropy of labelled videos.
        supervised_length: weight of the length loss of labelled videos.
        supervised_length_rule: `log`: relative log lengths (paper), each side centred by its mean. `share`: shares of
            the video (published program).
        length_on_labelled: apply the length regulariser L_l to labelled videos too. Deviation: the paper does not
            specify it; in 28 % of Breakfast's videos the true log lengths differ by more than 4, which w = 2 would
            penalise.
    """

    mutual_consistency: float = 1.0
    transcript: float = 1.0
    length: float = 0.1
    smoothing: float = 0.1
    over_segments: Literal["mean", "sum"] = "mean"
    normalise: Literal["length", "stretched_length", "mask_sum"] = "length"
    detach_length: bool = False
    consistency: Literal["segment", "frame"] = "segment"
    length_width: float = 2.0
    smoothing_threshold: float = 4.0
    smoothing_rule: Literal["per_term", "after_mean"] = "per_term"
    smoothing_detached: bool = True
    frame: float = 1.0
    supervised_length: float = 1.0
    supervised_length_rule: Literal["log", "share"] = "log"
    length_on_labelled: bool = False

    def __post_init__(self) -> None:
        numbers = [(f.name, getattr(self, f.name)) for f in fields(self) if f.type == "float"]
        check_ranges("loss.", [(name, value, "at least 0", value >= 0) for name, value in numbers])


def segment_consistency(
    latent_logits: Float[Tensor, "L N"],
    latent_masks: Float[Tensor, "M L"],
    transcript: Int[Tensor, " M"],
    divisors: Float[Tensor, " M"],
    over_segments: Literal["mean", "sum"] = "mean",
) -> Float[Tensor, ""]:
    """L_mu: cross-entropy between each segment's averaged logits and its action; a scalar.

    Args:
        latent_logits: `[T', N]` before the softmax.
        latent_masks: `[M, T']`, masks summed over the frames of each latent frame (`masks.frames_per_latent`).
        transcript: `[M]` int64.
        divisors: `[M]` frames, divisors of the summed logits.
        over_segments: reduction.

    Source: paper, equations (1) to (3).
    """
    averaged = (latent_masks @ latent_logits) / divisors[:, None]
    return functional.cross_entropy(averaged, transcript, reduction=over_segments)


def frame_consistency(
    latent_logits: Float[Tensor, "L N"],
    latent_masks: Float[Tensor, "M L"],
    transcript: Int[Tensor, " M"],
    n_frames: int,
) -> Float[Tensor, ""]:
    """Masked cross-entropy of the frames, summed over segments and divided by T; a scalar.

    Args:
        latent_logits: `[T', N]`.
        latent_masks: `[M, T']`, masks summed over the frames of each latent frame.
        transcript: `[M]` int64.
        n_frames: T.
    """
    costs = -functional.log_softmax(latent_logits, dim=1)
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
