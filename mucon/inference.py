"""The three predictions for a recording: frames (MuCon-Y), segments (MuCon-S) and full (MuCon-full)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mucon.checkpoint import Checkpoint
from mucon.decoding.alignment import best_lengths
from mucon.decoding.config import DecodingConfig
from mucon.decoding.length_priors import Flat, LengthPrior, Poisson, PoissonPerClass
from mucon.decoding.rounding import largest_remainder
from mucon.errors import InputError
from mucon.masks import absolute_lengths
from mucon.segments import IntArray, Segmentation

PREDICTIONS = ("frames", "segments", "full")
"""Names of the predictions."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of one recording.

    Attributes:
        segmentations: by name of the prediction. An empty transcript (the end symbol came first) gives an empty
            segmentation for `segments` and `full`: no frame has an action.
        cut: the end symbol did not come within the step limit, or there were more segments than frames and the last
            ones were left out.
    """

    segmentations: dict[str, Segmentation]
    cut: bool


def predict(
    checkpoint: Checkpoint,
    features: Tensor,
    *,
    predictions: Sequence[str] = PREDICTIONS,
    decoding: DecodingConfig | None = None,
) -> Prediction:
    """Segments a recording.

    Args:
        checkpoint: a trained model, in evaluation mode.
        features: `[T, D]` on the model's device, T >= 1.
        predictions: which of `frames`, `segments`, `full`.
        decoding: how `full` finds its lengths; the checkpoint's choice by default.

    Raises:
        InputError: an unknown prediction, or features of another width.

    Source: paper, section 4.8.
    """
    unknown = [name for name in predictions if name not in PREDICTIONS]
    if unknown:
        raise InputError(f"predictions are {', '.join(PREDICTIONS)}, not {unknown[0]!r}: choose among these")
    dim = checkpoint.model.size.dim
    if features.ndim != 2 or features.shape[1] != dim or not len(features):
        hint = "; it looks transposed" if features.ndim == 2 and features.shape[0] == dim else ""
        raise InputError(
            f"the model reads features [T, {dim}], not {list(features.shape)}{hint}: give one row per frame"
        )
    log_probs, decoded = checkpoint.model.predict(features)
    n_frames = len(features)
    transcript = np.asarray(decoded.transcript[:n_frames], dtype=np.int64)
    cut = decoded.cut or len(decoded.transcript) > n_frames
    relative = decoded.log_lengths[: len(transcript)].double()
    lengths = absolute_lengths(relative, n_frames).cpu().numpy() if len(transcript) else np.zeros(0)
    found: dict[str, Segmentation] = {}
    for name in predictions:
        if name == "frames":
            found[name] = Segmentation.from_frame_labels(log_probs.argmax(dim=1).cpu().numpy())
        elif not len(transcript):
            found[name] = Segmentation.of([], [])
        elif name == "segments":
            found[name] = Segmentation(transcript, largest_remainder(lengths, n_frames))
        else:
            found[name] = align(log_probs, transcript, lengths, decoding or checkpoint.config.decoding)
    return Prediction(found, cut)


def align(
    log_probs: Tensor, transcript: IntArray, lengths: NDArray[np.float64], decoding: DecodingConfig
) -> Segmentation:
    """The transcript with the lengths that agree best with the frames.

    Args:
        log_probs: `[T, N]`, of the frame branch.
        transcript: `[M]`, M <= T.
        lengths: `[M]` frames, real, predicted by the segment branch.
        decoding: prior on the lengths and their cap.

    Source: paper, equations (14) and (15).
    """
    prior = length_prior(transcript, lengths, log_probs.shape[1], decoding)
    best, _ = best_lengths(log_probs.cpu().numpy(), transcript, prior, max_length=decoding.max_length)
    return Segmentation(transcript, best)


def length_prior(
    transcript: IntArray, lengths: NDArray[np.float64], n_actions: int, decoding: DecodingConfig
) -> LengthPrior:
    """The prior of a transcript's lengths around the predicted ones."""
    if decoding.length_prior == "none":
        return Flat()
    if decoding.length_prior == "segment":
        return Poisson(lengths)
    counts = np.bincount(transcript, minlength=n_actions)
    sums = np.bincount(transcript, weights=lengths, minlength=n_actions)
    return PoissonPerClass(np.where(counts > 0, sums / np.maximum(counts, 1), 1.0))
