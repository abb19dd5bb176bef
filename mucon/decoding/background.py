"""An offset of the background's log posterior, and rules that set it without labels of the scored recordings.

A network that is trained by the mutual consistency loss aligns too many frames to the background: it lies between all
other actions, and doubtful frames beside a border are cheap to give to it. Each rule is one function; all of them see
training recordings alone. What they need to know differs, and belongs into a table of results:

| rule | function | knowledge |
|---|---|---|
| `share` | `offset_of_share` | the background's share in the frames of the training recordings |
| `labelled` | `likeliest_offset` | the frame labels of at least one training recording |
| `held_out` | `most_accurate_offset` | the frame labels of recordings that training left out |
| `score` | `lowest_score_offset` | nothing; a rule of thumb without a theory |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mucon.arrays import Bools, Floats, Ints
from mucon.decoding.alignment import best_lengths
from mucon.decoding.class_means import class_mean_lengths
from mucon.decoding.length_priors import Flat, PoissonPerClass
from mucon.errors import Problem

FARTHEST = 10.0
"""Largest offset in nats, in either direction."""
OFFSETS = tuple(np.arange(0.0, 3.01, 0.25).tolist())
"""Offsets in nats that `most_accurate_offset` and `lowest_score_offset` compare."""
ROUNDS = 2
"""How often the mean lengths are estimated from the alignments at an offset."""
CLOSE = 0.0025
"""Difference from the stated share at which `offset_of_share` stops."""
HALVINGS = 40
RULE = "decoding.background_rule"


def lowered(log_probs: NDArray[Any], background: Collection[int], offset: float) -> NDArray[Any]:
    """Log probabilities `[T, N]` with an offset taken off the background's, normalised again.

    >>> np.exp(lowered(np.log([[0.5, 0.5]]), [0], np.log(3))).round(2).tolist()
    [[0.25, 0.75]]
    """
    if not offset or not background:
        return log_probs
    values = log_probs.copy()
    values[:, list(background)] -= offset
    highest = values.max(axis=1, keepdims=True)
    normalised: NDArray[Any] = values - highest - np.log(np.exp(values - highest).sum(axis=1, keepdims=True))
    return normalised


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """A recording with a known transcript, and the log probabilities of its actions alone.

    Attributes:
        log_probs: `[T, K]`.
        actions: `[K]` the distinct ids of its actions.
        transcript: `[M]` indices of `actions`.
        background: `[K]` which actions are background.
    """

    log_probs: NDArray[Any]
    actions: Ints
    transcript: Ints
    background: Bools

    @classmethod
    def of(cls, log_probs: NDArray[Any], transcript: Sequence[int], background: Collection[int]) -> Self:
        """From the log probabilities `[T, N]` of all actions."""
        actions, indices = np.unique(np.asarray(transcript, dtype=np.int64), return_inverse=True)
        return cls(log_probs[:, actions], actions, indices.astype(np.int64), np.isin(actions, list(background)))


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """Alignments of recordings with their transcripts at one offset.

    Attributes:
        lengths: of each recording, `[M]` frames.
        share: of the background in all frames.
        score: mean of the alignments' scores over all frames.
    """

    lengths: tuple[Ints, ...]
    share: float
    score: float


def aligned(recordings: Sequence[Observed], offset: float) -> Aligned:
    """Aligns recordings with an offset taken off the background.

    The prior of the lengths is Poisson with the mean length of each action; the means are estimated from alignments by
    the evidence alone, and then `ROUNDS` times from alignments with this prior.
    """
    n_actions = 1 + max(int(one.actions.max()) for one in recordings)
    evidence = [one.log_probs - (offset * one.background).astype(one.log_probs.dtype) for one in recordings]
    found = [best_lengths(values, one.transcript, Flat()) for values, one in zip(evidence, recordings, strict=True)]
    for _ in range(ROUNDS):
        segments = ((one.actions[one.transcript], own) for one, (own, _) in zip(recordings, found, strict=True))
        means = class_mean_lengths(segments, n_actions)
        found = [
            best_lengths(values, one.transcript, PoissonPerClass(means[one.actions]))
            for values, one in zip(evidence, recordings, strict=True)
        ]
    n_frames = sum(len(one.log_probs) for one in recordings)
    n_background = sum(
        int(own[one.background[one.transcript]].sum()) for one, (own, _) in zip(recordings, found, strict=True)
    )
    score = sum(score for _, score in found) / n_frames
    return Aligned(tuple(own for own, _ in found), n_background / n_frames, score)


def offset_of_share(recordings: Sequence[Observed], share: float) -> float:
    """The offset with which the background has a stated share of the aligned frames, by bisection.

    An end of the range, `FARTHEST` nats, if no offset gives the share.

    Args:
        recordings: at least one.
        share: above 0 and below 1.
    """
    low, high = -FARTHEST, FARTHEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = aligned(recordings, middle).share
        if abs(found - share) <= CLOSE or high - low < 0.01:
            return middle
        low, high = (middle, high) if found > share else (low, middle)
    return (low + high) / 2


def likeliest_offset(log_probs: Sequence[Floats], is_background: Sequence[Bools]) -> float:
    """The offset with which frame labels are most likely.

    The likelihood is concave in the offset. At its maximum, the mean posterior of the background equals the
    background's true share.

    Args:
        log_probs: of each recording, `[T]` log probability that a frame is background.
        is_background: of each recording, `[T]` whether it is.
    """
    background = np.minimum(np.concatenate(log_probs).astype(np.float64), -1e-12)
    odds = np.clip(background - np.log(-np.expm1(background)), -100, 100)
    n_background = float(sum(int(own.sum()) for own in is_background))
    low, high = -FARTHEST, FARTHEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        expected = float((1 / (1 + np.exp(middle - odds))).sum())
        low, high = (middle, high) if expected > n_background else (low, middle)
    return (low + high) / 2


def most_accurate_offset(
    recordings: Sequence[Observed], lengths: Sequence[Sequence[int]], offsets: Sequence[float] = OFFSETS
) -> float:
    """The offset whose alignments of labelled recordings have most frames right; the smallest of equally good ones.

    Args:
        recordings: recordings that the network was not trained on.
        lengths: of each recording, its `[M]` true lengths.
        offsets: the compared ones.
    """
    true = [np.repeat(one.transcript, own) for one, own in zip(recordings, lengths, strict=True)]

    def right(offset: float) -> int:
        found = aligned(recordings, offset).lengths
        return sum(
            int((labels == np.repeat(one.transcript, own)).sum())
            for labels, one, own in zip(true, recordings, found, strict=True)
        )

    return _first_best(offsets, right)


def lowest_score_offset(recordings: Sequence[Observed], offsets: Sequence[float] = OFFSETS) -> float:
    """The offset whose alignments have the lowest score a frame.

    No theory supports it. An alignment that gives almost all or almost no frames to the background is easy, and has a
    higher score than one between them.
    """
    return _first_best(offsets, lambda offset: -aligned(recordings, offset).score)


def _first_best(offsets: Sequence[float], value: Callable[[float], float]) -> float:
    values = [value(offset) for offset in offsets]
    return offsets[int(np.argmax(values))]


def no_background(rule: str) -> Problem:
    """The problem of a rule for the background where no action is background."""
    message, hint = "no action is background", "set decoding.background_rule=offset"
    return Problem(rule="missing", place=RULE, value=rule, message=message, hint=hint)


def no_labels(rule: str) -> Problem:
    """The problem of a rule for the background without the labels that it needs."""
    if rule == "labelled":
        message, hint = "no training recording is labelled", "train with training.labelled above 0"
    else:
        message, hint = "no labelled recording was left out of training", "train with --hold-out-validation"
    return Problem(rule="missing", place=RULE, value=rule, message=message, hint=hint)
