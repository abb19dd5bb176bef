"""How well a network that is still training segments a few of its training videos."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mucon.checkpoint import Checkpoint
from mucon.decoding.config import DecodingConfig
from mucon.inference import predict
from mucon.metrics.scores import score
from mucon.videos import Video

SHOWN = (("frames", "mof"), ("full", "mof"), ("full", "matching_score"))
"""Prediction and metric of each number."""


def videos_to_score(videos: Sequence[Video], at_most: int, seed: int) -> list[Video]:
    """Some of the training videos whose lengths are known, the same in each epoch; none where none are known."""
    known = [video for video in videos if video.lengths is not None]
    order = np.random.default_rng([seed, 0x5C0]).permutation(len(known))
    return [known[i] for i in sorted(order[:at_most])]


def progress_scores(checkpoint: Checkpoint, videos: Sequence[Video], device: torch.device) -> dict[str, float]:
    """Scores by name, as `full.mof`; nothing without videos. Neither weights nor random generators change.

    `full` is decoded as in the paper whatever the configuration says: some choices need facts that are only known
    when training has ended, and none of them may end it.
    """
    truths = [truth for video in videos if (truth := video.segmentation) is not None]
    if not truths:
        return {}
    was_training = checkpoint.model.training
    checkpoint.model.eval()
    try:
        found = [
            predict(checkpoint, video.features(device), predictions=("frames", "full"), decoding=DecodingConfig())
            for video in videos
        ]
    finally:
        checkpoint.model.train(was_training)
    scores = {
        name: score(truths, [one.segmentations[name] for one in found], checkpoint.vocabulary.background_ids).values
        for name in ("frames", "full")
    }
    return {f"{name}.{metric}": scores[name][metric] for name, metric in SHOWN if metric in scores[name]}
