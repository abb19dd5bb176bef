"""Facts about the training videos that inference may use, computed with the trained network."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from mucon.checkpoint import Checkpoint, TrainingFacts
from mucon.decoding.alignment import best_lengths
from mucon.decoding.background import (
    Observed,
    likeliest_offset,
    lowest_score_offset,
    most_accurate_offset,
    no_background,
    no_labels,
    offset_of_share,
)
from mucon.decoding.class_means import class_mean_lengths, frame_shares
from mucon.decoding.config import DecodingConfig
from mucon.decoding.fitted import FittedLengths
from mucon.decoding.fusion import align
from mucon.decoding.length_priors import Flat
from mucon.device import full_precision
from mucon.errors import InputError
from mucon.inference.predictions import see_given
from mucon.inference.requests import problems_of_log_probs
from mucon.videos import Video


def training_facts(checkpoint: Checkpoint, videos: Sequence[Video], device: torch.device) -> TrainingFacts:
    """Aligns every training video with its transcript, and counts.

    Uses no annotated length: an action's mean length and share are those of the network's own `full` alignment, and the
    fitted length prior is that of alignments by the evidence alone, which the predicted lengths do not affect.

    Args:
        checkpoint: a trained model in evaluation mode on the device; not changed.
        videos: the training videos, with transcripts.
        device: device of the model.
    """
    n_actions = checkpoint.vocabulary.n_actions
    segments, freely, n_frames, posteriors = [], [], 0, np.zeros(n_actions)
    for video, log_probs, lengths in _seen(checkpoint, videos, device):
        transcript = np.asarray(video.transcript, dtype=np.int64)
        segments.append((transcript, align(log_probs, transcript, lengths, DecodingConfig()).lengths))
        freely.append((transcript, best_lengths(log_probs, transcript, Flat())[0], lengths))
        n_frames += len(log_probs)
        posteriors += np.exp(log_probs, dtype=np.float64).sum(axis=0)
    counts = sorted(Counter(video.transcript for video in videos).items())
    return TrainingFacts(
        transcripts=tuple(transcript for transcript, _ in counts),
        counts=tuple(count for _, count in counts),
        mean_lengths=tuple(class_mean_lengths(segments, n_actions).tolist()),
        frame_shares=tuple(frame_shares(segments, n_actions).tolist()),
        mean_posteriors=tuple((posteriors / n_frames).tolist()),
        fitted=FittedLengths.of(freely, n_actions),
    )


def with_background(
    facts: TrainingFacts, checkpoint: Checkpoint, videos: Sequence[Video], decoding: DecodingConfig
) -> TrainingFacts:
    """Facts with the background's offset by the rule of decoding, which is computed unless they contain it.

    Args:
        facts: facts about the training videos.
        checkpoint: as for `training_facts`.
        videos: the training part of a split. The rule `held_out` uses those that the model was not trained on, with
            their lengths; `labelled` those that are labelled; the others use no length.
        decoding: the choices.

    Raises:
        InputError: there is no background, or no recording that the rule needs.
    """
    rule, key = decoding.background_rule, decoding.background_key
    if rule == "offset" or key in facts.background_offsets:
        return facts
    check_background(checkpoint.vocabulary.background_ids, decoding)
    device = next(checkpoint.model.parameters()).device
    if rule == "labelled":
        offset = _likeliest(checkpoint, [video for video in videos if video.labelled], device)
    elif rule == "held_out":
        seen = set() if checkpoint.trained_on is None else set(checkpoint.trained_on.among(videos))
        left_out = [video for video in videos if video.id not in seen and video.lengths is not None]
        recordings = observed(checkpoint, left_out, device)
        offset = most_accurate_offset(recordings, [video.lengths or () for video in left_out]) if left_out else None
    else:
        recordings = observed(checkpoint, videos, device)
        share = decoding.background_share
        offset = lowest_score_offset(recordings) if share is None else offset_of_share(recordings, share)
    if offset is None:
        raise InputError(no_labels(rule))
    return dataclasses.replace(facts, background_offsets={**facts.background_offsets, key: offset})


def check_background(background: Sequence[int], decoding: DecodingConfig) -> None:
    """Checks that a rule for the background has a background.

    Raises:
        InputError: the actions have none.
    """
    if decoding.background_rule != "offset" and not background:
        raise InputError(no_background(decoding.background_rule))


@full_precision()
def _likeliest(checkpoint: Checkpoint, videos: Sequence[Video], device: torch.device) -> float | None:
    background = list(checkpoint.vocabulary.background_ids)
    log_probs, is_background = [], []
    for video in videos:
        if video.lengths is not None:
            values = checkpoint.model.encode(video.features(device))[1]
            log_probs.append(torch.logsumexp(values[:, background].double(), dim=1).cpu().numpy())
            is_background.append(np.isin(np.repeat(video.transcript, video.lengths), background))
    return likeliest_offset(log_probs, is_background) if log_probs else None


def observed(checkpoint: Checkpoint, videos: Sequence[Video], device: torch.device) -> list[Observed]:
    """The training videos as the network sees them with their transcripts."""
    background = checkpoint.vocabulary.background_ids
    seen = _seen(checkpoint, videos, device)
    return [Observed.of(log_probs, video.transcript, background) for video, log_probs, _ in seen]


def _seen(
    checkpoint: Checkpoint, videos: Sequence[Video], device: torch.device
) -> Iterator[tuple[Video, NDArray[np.float32], NDArray[np.float64]]]:
    """Each video with its log probabilities `[T, N]` and predicted lengths `[M]`, read back once per video.

    Raises:
        InputError: the network computes NaN.
    """
    for video in videos:
        with full_precision():
            transcript = np.asarray(video.transcript, dtype=np.int64)
            values, lengths = see_given(checkpoint.model, video.features(device), transcript)
        problems = problems_of_log_probs(values)
        if problems:
            raise InputError(InputError(problems).under(video.id))
        yield video, values, lengths
