"""What inference may use of the training videos, as the trained network sees them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mucon.checkpoint import Checkpoint, TrainingFacts
from mucon.decoding.class_means import class_mean_lengths
from mucon.decoding.config import DecodingConfig
from mucon.inference.predictions import align_transcript
from mucon.videos import Video


def training_facts(checkpoint: Checkpoint, videos: Sequence[Video], device: torch.device) -> TrainingFacts:
    """Aligns every training video with its transcript, and counts.

    No annotated length is used: an action's mean length and share are those of the network's own `full` alignment.

    Args:
        checkpoint: a trained model in evaluation mode on the device; it does not change.
        videos: those of the training, with transcripts.
        device: the model's.
    """
    found = [
        align_transcript(
            checkpoint, video.features(device), video.transcript, predictions=("full",), decoding=DecodingConfig()
        ).segmentations["full"]
        for video in videos
    ]
    frames = np.zeros(checkpoint.vocabulary.n_actions)
    for one in found:
        frames += np.bincount(one.transcript, weights=one.lengths, minlength=len(frames))
    means = class_mean_lengths(((one.transcript, one.lengths) for one in found), len(frames))
    return TrainingFacts(
        transcripts=tuple(sorted({video.transcript for video in videos})),
        mean_lengths=tuple(means.tolist()),
        frame_shares=tuple((frames / frames.sum()).tolist()),
    )
