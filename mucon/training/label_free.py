"""Scores of a partly trained network that need no frame label: how well it agrees with itself and with transcripts.

They compare epochs and seeds of one configuration. None of them is a measure of accuracy; how far each follows it is
measured, see `sweeps/early_stopping.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from mucon.arrays import Ints
from mucon.decoding.alignment import FLOOR, best_lengths
from mucon.decoding.class_means import frame_shares
from mucon.decoding.config import DecodingConfig
from mucon.decoding.fusion import length_prior
from mucon.decoding.length_priors import Flat
from mucon.decoding.rounding import largest_remainder
from mucon.metrics.lengths import length_correlation
from mucon.metrics.transcripts import edit_score
from mucon.segments import Segmentation
from mucon.videos import Video

PREFIX = "label_free."
"""First part of the names of the scores."""
Seen = tuple[NDArray[np.floating], NDArray[np.float64]]
"""Log probabilities `[T, N]` of a video's frames, and the predicted lengths `[M]` of its transcript in real frames."""


def label_free_scores(videos: Sequence[Video], see: Callable[[Video], Seen], n_actions: int) -> Mapping[str, float]:
    """Scores under names such as `label_free.agreement`; empty without videos.

    A higher score means better agreement. The alignment is that of the frame branch alone, with the transcript and
    without a prior on lengths.

    - `agreement`: share of the frames whose most likely action is that of their alignment.
    - `consistency`: share of the frames to which the predicted lengths give the action of their alignment.
    - `likelihood`: mean log probability of the aligned actions, per frame.
    - `score`: the same of the alignment with the paper's prior about the predicted lengths, with its log prior.
    - `margin`: mean difference of that log probability and the highest one of another action.
    - `confidence`: mean of the highest probability of a frame.
    - `certainty`: minus the mean entropy of a frame's distribution, in nats.
    - `shares`: minus the total variation between the actions' shares of the aligned frames and their mean
      probabilities.
    - `lengths`: correlation of predicted and aligned log lengths within recordings; absent if all are equal.
    - `order`: mean Edit of the most likely actions' runs and the transcript.

    Args:
        videos: with transcripts; their lengths are not read.
        see: runs the network, in evaluation mode, on a video with its transcript.
        n_actions: N.
    """
    if not videos:
        return {}
    sums = dict.fromkeys(("agreement", "consistency", "likelihood", "score", "margin", "confidence", "certainty"), 0.0)
    segments, posteriors, moments, orders = [], np.zeros(n_actions), [], []
    for video in videos:
        log_probs, lengths = see(video)
        transcript = np.asarray(video.transcript, dtype=np.int64)
        own = Segmentation(transcript, best_lengths(log_probs, transcript, Flat())[0])
        predicted = Segmentation(transcript, largest_remainder(lengths, len(log_probs)))
        for name, value in _frame_sums(log_probs, own.to_frame_labels(), predicted.to_frame_labels()).items():
            sums[name] += value
        prior = length_prior(transcript, lengths, n_actions, DecodingConfig())
        sums["score"] += best_lengths(log_probs, transcript, prior)[1]
        segments.append((transcript, own.lengths))
        posteriors += np.exp(log_probs, dtype=np.float64).sum(axis=0)
        moments.append(length_correlation(own, predicted))
        orders.append(edit_score(transcript, Segmentation.from_frame_labels(log_probs.argmax(axis=1)).transcript))
    n_frames = sum(int(own.sum()) for _, own in segments)
    scores = {name: value / n_frames for name, value in sums.items()}
    scores["shares"] = -float(np.abs(frame_shares(segments, n_actions) - posteriors / n_frames).sum() / 2)
    if known := [moment for moment in moments if moment is not None]:
        scores["lengths"] = reduce(add, known).value
    scores["order"] = float(np.mean([order for order in orders if order is not None]))
    return {f"{PREFIX}{name}": value for name, value in scores.items()}


def _frame_sums(log_probs: NDArray[np.floating], own: Ints, predicted: Ints) -> dict[str, float]:
    """Sums over the frames for their log probabilities `[T, N]`, aligned actions `[T]` and predicted ones `[T]`."""
    values = np.maximum(log_probs.astype(np.float64), FLOOR)
    places = np.arange(len(values))
    aligned, highest = values[places, own], values.max(axis=1)
    others = values.copy()
    others[places, own] = -np.inf
    second = np.maximum(others.max(axis=1), FLOOR)
    return {
        "agreement": float((values.argmax(axis=1) == own).sum()),
        "consistency": float((predicted == own).sum()),
        "likelihood": float(aligned.sum()),
        "margin": float((aligned - second).sum()),
        "confidence": float(np.exp(highest).sum()),
        "certainty": float((np.exp(values) * values).sum()),
    }
