"""Fuses the evidence of the frame branch with the transcripts and lengths of the segment branch: `full`.

`frames_of` and `evidence` read tensors. Everything else works on arrays and releases the interpreter lock while it
decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mucon.arrays import Ints
from mucon.checkpoint import Checkpoint, TrainingFacts
from mucon.decoding.alignment import best_lengths
from mucon.decoding.class_means import class_mean_lengths
from mucon.decoding.config import DecodingConfig
from mucon.decoding.length_priors import Flat, LengthPrior, Poisson, PoissonPerClass
from mucon.decoding.prefix_tree import PrefixTree
from mucon.decoding.published import published_lengths
from mucon.decoding.spread_priors import Gaussian, LogNormal, NegativeBinomial
from mucon.decoding.transcripts import Candidate, best_joint, best_of_transcripts
from mucon.errors import InputError, Problem
from mucon.masks import absolute_lengths
from mucon.model import Decoded
from mucon.segments import Segmentation

LEAST_SHARE = 1e-6
"""Lower bound of an action's prior, so that an action absent from the training videos is not divided by zero."""
SPREAD_PRIORS: Mapping[str, Callable[[ArrayLike, ArrayLike], LengthPrior]] = {
    "gaussian": Gaussian,
    "log_normal": LogNormal,
    "negative_binomial": NegativeBinomial,
}
PUBLISHED_LENGTH = 2000
"""Longest segment of the published program's decoder, in frames."""


def frames_of(log_lengths: Tensor, n_frames: int) -> NDArray[np.float64]:
    """Converts relative log lengths `[M]` of the segment branch to real frames `[M]` that sum to T."""
    if not len(log_lengths):
        return np.zeros(0)
    frames: NDArray[np.float64] = absolute_lengths(log_lengths.double(), n_frames).cpu().numpy()
    return frames


def evidence(log_probs: Tensor, checkpoint: Checkpoint, decoding: DecodingConfig) -> NDArray[np.floating]:
    """`[T, N]`: the frames' log probabilities, minus the log of each action's prior if `class_prior` asks for it.

    Raises:
        InputError: the checkpoint contains no facts about the training videos.
    """
    values: NDArray[np.floating] = log_probs.cpu().numpy()
    if decoding.class_prior == "none":
        return values
    shares = np.maximum(np.asarray(facts_of(checkpoint, "decoding.class_prior").frame_shares), LEAST_SHARE)
    divided: NDArray[np.floating] = values - np.log(shares)
    return divided


def best_training_transcript(
    log_probs: NDArray[np.floating], facts: TrainingFacts, decoding: DecodingConfig
) -> Segmentation:
    """The training transcript that fits the evidence `[T, N]` best.

    Raises:
        InputError: no transcript can fill the recording: all have more segments than frames, or too few for the length
            cap.
    """
    index, lengths, _ = best_of_transcripts(
        log_probs,
        _prefix_tree(facts.transcripts),
        facts.mean_lengths,
        max_length=decoding.max_length,
        beam=decoding.prefix_beam,
    )
    return Segmentation(np.asarray(facts.transcripts[index], dtype=np.int64), lengths)


def named_lengths(named: Sequence[Decoded], n_frames: int) -> list[tuple[Decoded, NDArray[np.float64]]]:
    """The transcripts of a beam, each with its predicted lengths `[M]` in frames."""
    return [(one, frames_of(one.log_lengths, n_frames)) for one in named]


def best_candidate(
    log_probs: NDArray[np.floating],
    named: Sequence[tuple[Decoded, NDArray[np.float64]]],
    decoding: DecodingConfig,
) -> Segmentation:
    """The transcript of a beam with the highest joint score for the evidence `[T, N]`.

    No segment if no transcript has 1 to T segments, and one is empty or there is none.

    Raises:
        InputError: no transcript can fill the recording: all have more segments than frames, or too few for the length
            cap; or values are NaN.
    """
    fitting = [(one, lengths) for one, lengths in named if 0 < len(one.transcript) <= len(log_probs)]
    if not fitting and not (named and all(one.transcript for one, _ in named)):
        return Segmentation.of([], [])
    named = fitting or named
    transcripts = [np.asarray(one.transcript, dtype=np.int64) for one, _ in named]
    candidates = [
        Candidate(transcript, one.log_prob, length_prior(transcript, lengths, log_probs.shape[1], decoding))
        for transcript, (one, lengths) in zip(transcripts, named, strict=True)
    ]
    index, lengths, _ = best_joint(log_probs, candidates, max_length=decoding.max_length)
    return Segmentation(transcripts[index], lengths)


@lru_cache(maxsize=8)
def _prefix_tree(transcripts: tuple[tuple[int, ...], ...]) -> PrefixTree:
    return PrefixTree.of(transcripts)


def facts_of(checkpoint: Checkpoint, setting: str) -> TrainingFacts:
    """The facts about the training videos that a setting of decoding needs.

    Raises:
        InputError: the checkpoint contains none.
    """
    if checkpoint.facts is None:
        raise InputError(
            Problem(
                rule="missing",
                place=setting,
                value="training",
                message="the checkpoint contains no facts about its training videos",
                hint="evaluate it with the store that it was trained on",
            )
        )
    return checkpoint.facts


def align(
    log_probs: NDArray[np.floating], transcript: Ints, lengths: NDArray[np.float64], decoding: DecodingConfig
) -> Segmentation:
    """The transcript with the lengths that fit the frames and the predicted lengths best.

    Args:
        log_probs: `[T, N]` of the frame branch.
        transcript: `[M]`, M <= T.
        lengths: `[M]` real frames, predicted by the segment branch.
        decoding: prior on the lengths and their cap. With `method=published` the result has the published program's
            labels, whose runs may differ from the transcript.

    Source: paper, equations (14) and (15).
    """
    n_actions = log_probs.shape[1]
    if decoding.method == "published":
        means = _class_means(transcript, lengths, n_actions)
        cap = PUBLISHED_LENGTH if decoding.max_length is None else decoding.max_length
        labels, _, _ = published_lengths(log_probs, transcript, means, step=decoding.step, max_length=cap)
        return Segmentation.from_frame_labels(labels)
    prior = length_prior(transcript, lengths, n_actions, decoding)
    best, _ = best_lengths(log_probs, transcript, prior, max_length=decoding.max_length)
    return Segmentation(transcript, best)


def length_prior(
    transcript: Ints, lengths: NDArray[np.float64], n_actions: int, decoding: DecodingConfig
) -> LengthPrior:
    """Prior of a transcript's lengths around the predicted ones."""
    if decoding.length_prior == "none":
        return Flat()
    if decoding.length_prior == "class":
        return PoissonPerClass(_class_means(transcript, lengths, n_actions))
    if decoding.length_prior == "segment":
        return Poisson(lengths)
    return SPREAD_PRIORS[decoding.length_prior](lengths, decoding.length_spread)


def _class_means(transcript: Ints, lengths: NDArray[np.float64], n_actions: int) -> NDArray[np.float64]:
    """`[N]` mean predicted length of each action in this recording, 1 for absent actions."""
    return class_mean_lengths([(transcript, lengths)], n_actions, fallback=1.0)
