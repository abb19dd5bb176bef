"""The losses of one video. Nothing here reads a value back from the device."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mucon import losses, masks
from mucon.config import LossConfig, MaskConfig
from mucon.errors import InputError, Problem
from mucon.model.network import TeacherForced

TERMS = ("total", "mutual_consistency", "transcript", "length", "smoothing")
"""Losses of every video, in the order in which they are reported."""
LENGTH_RANGE = 4.0
"""Largest weight of a segment with `loss.over_segments=length`, and 1 / the smallest one; T/M frames have weight 1."""
SUPERVISED_TERMS = ("frame", "supervised_length")
"""Additional losses of labelled videos, reported after those."""


class FrameLabels(NamedTuple):
    """Annotation of a labelled video.

    Attributes:
        labels: `[T]` int64 action of each frame.
        lengths: `[M]` int64 frames of each segment.
    """

    labels: Tensor
    lengths: Tensor


def video_losses(
    outputs: TeacherForced,
    transcript: Tensor,
    mask_config: MaskConfig,
    config: LossConfig,
    *,
    labels: FrameLabels | None = None,
    own: Tensor | None = None,
    class_weights: Tensor | None = None,
) -> dict[str, Tensor]:
    """Computes the terms of a video's loss and their weighted sum `total`, scalars of float32 or wider.

    The weight of each term is the field of `config` with the term's name; a term of weight 0 is still reported.

    Args:
        outputs: outputs of the network, with teacher forcing or free running.
        transcript: `[M]` int64.
        mask_config: shape of the masks.
        config: weights and choices.
        labels: given for a labelled video, whose loss includes the `SUPERVISED_TERMS`; its length regulariser is
            reported, but counts only with `config.length_on_labelled`.
        own: `[M]` int64 actions of a free-running segment branch, with which L_mu then compares.
        class_weights: `[N]` weights of the actions' segments in L_mu; None: all 1.

    Source: paper, section 5.2: L = L_mu + L_t + alpha L_l + beta L_s; section 4.7 for labelled videos.
    """
    actions = transcript if own is None else own
    latent_logits, log_lengths = at_least_float32(outputs.latent_logits), at_least_float32(outputs.log_lengths)
    transcript_logits = at_least_float32(outputs.transcript_logits)
    n_frames = len(outputs.latent_of_frame)
    end = transcript.new_full((1,), transcript_logits.shape[1] - 1)
    lengths = masks.absolute_lengths(log_lengths, n_frames)
    segment_masks = masks.segment_masks(lengths, n_frames, mask_config)
    latent_masks = masks.frames_per_latent(segment_masks, outputs.latent_of_frame, len(latent_logits))
    weights = None if class_weights is None else class_weights[actions].to(latent_logits.dtype)
    if config.consistency == "segment":
        divisors = _divisors(lengths, latent_masks, mask_config, config)
        over_segments = "mean" if config.over_segments == "length" else config.over_segments
        if config.over_segments == "length":
            by_length = _clipped(lengths)
            weights = by_length if weights is None else by_length * weights
        mutual = losses.segment_consistency(
            latent_logits, latent_masks, actions, divisors, over_segments, weights=weights
        )
    else:
        mutual = losses.frame_consistency(latent_logits, latent_masks, actions, n_frames, weights)
    terms = {
        "mutual_consistency": mutual,
        "transcript": losses.transcript_loss(transcript_logits, torch.cat((transcript, end))),
        "length": losses.length_loss(log_lengths, config.length_width),
        "smoothing": losses.smoothing_loss(
            latent_logits, n_frames, config.smoothing_threshold, config.smoothing_rule, config.smoothing_detached
        ),
    }
    if labels is not None:
        terms["frame"] = losses.frame_cross_entropy(latent_logits, outputs.latent_of_frame, labels.labels)
        terms["supervised_length"] = losses.supervised_length_loss(
            log_lengths, labels.lengths, config.supervised_length_rule
        )
    counted = [name for name in terms if name != "length" or labels is None or config.length_on_labelled]
    total = sum((getattr(config, name) * terms[name] for name in counted), latent_logits.new_zeros(()))
    return {"total": total, **terms}


def compiled_video_losses() -> Callable[..., dict[str, Tensor]]:
    """Compiles `video_losses` with torch.compile: same arguments, same numbers up to rounding, fewer kernels.

    The numbers of frames and segments are symbols of the graph, so recordings of all lengths share it. Another graph
    is compiled for each set of terms, and for recordings so long that the loops are laid out differently.

    Raises (when called):
        InputError: there is no compiler for the device.
    """
    from torch._dynamo.exc import BackendCompilerFailed  # takes longer to import than all of mucon

    warnings.filterwarnings("ignore", "Dynamo detected a call to a `functools.lru_cache`", UserWarning)
    compiled: Callable[..., dict[str, Tensor]] = torch.compile(video_losses, dynamic=True)

    @functools.wraps(video_losses)
    def call(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        try:
            return compiled(*args, **kwargs)
        except BackendCompilerFailed as error:
            raise InputError(
                Problem(
                    rule="unsupported",
                    place="training.compile",
                    value=True,
                    message=f"no usable compiler: {str(error).splitlines()[0]}",
                    hint="install g++ (CPU) or triton (GPU), or set training.compile=false",
                )
            ) from error

    return call


def at_least_float32(x: Tensor) -> Tensor:
    """A tensor of the same numbers in float32 or wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _clipped(lengths: Tensor) -> Tensor:
    """Lengths `[M]` relative to their mean without gradient, from 1 / `LENGTH_RANGE` to `LENGTH_RANGE`."""
    fixed = lengths.detach()
    return (fixed / fixed.mean()).clamp(1 / LENGTH_RANGE, LENGTH_RANGE)


def _divisors(lengths: Tensor, latent_masks: Tensor, mask_config: MaskConfig, config: LossConfig) -> Tensor:
    if config.normalise == "mask_sum":
        divisors = latent_masks.sum(1).clamp(min=1e-6)
    elif config.normalise == "stretched_length":
        divisors = masks.stretched(lengths, lengths, mask_config)[1]
    else:
        divisors = lengths
    return divisors.detach() if config.detach_length else divisors


def loss_vector(terms: Mapping[str, Tensor], names: Sequence[str] = TERMS) -> Tensor:
    """The terms as one detached vector `[K]` in the order of `names`; a term that the video does not have is 0."""
    absent = terms["total"].detach().new_zeros(())
    return torch.stack([terms[name].detach() if name in terms else absent for name in names])
