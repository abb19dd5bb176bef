"""Facts about the training videos that inference may use, computed with the trained network."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mucon.checkpoint import Checkpoint, TrainingFacts
from mucon.decoding.class_means import class_mean_lengths, frame_shares
from mucon.decoding.config import DecodingConfig
from mucon.inference.predictions import align_transcript
from mucon.videos import Video


def training_facts(checkpoint: Checkpoint, videos: Sequence[Video], device: torch.device) -> TrainingFacts:
    """Aligns every training video with its transcript, and counts.

    Uses no annotated length: an action's mean length and share are those of the network's own `full` alignment.

    Args:
        checkpoint: a trained model in evaluation mode on the device; not changed.
        videos: the training videos, with transcripts.
        device: device of the model.
    """
    aligned = [
        align_transcript(
            checkpoint, video.features(device), video.transcript, predictions=("full",), decoding=DecodingConfig()
        ).segmentations["full"]
        for video in videos
    ]
    segments = [(segmentation.transcript, segmentation.lengths) for segmentation in aligned]
    n_actions = checkpoint.vocabulary.n_actions
    return TrainingFacts(
        transcripts=tuple(sorted({video.transcript for video in videos})),
        mean_lengths=tuple(class_mean_lengths(segments, n_actions).tolist()),
        frame_shares=tuple(frame_shares(segments, n_actions).tolist()),
    )
