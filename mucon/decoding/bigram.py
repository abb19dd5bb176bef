"""Exact search over all transcripts under a bigram of actions; importing this module imports numba.

The kernel is in a file of its own and calls no kernel of another one, since numba invalidates its cache by file.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.arrays import Floats, Ints
from mucon.decoding.alignment import FLOOR, as_evidence, unusable
from mucon.decoding.compilation import compiled
from mucon.decoding.length_priors import LengthPrior
from mucon.errors import InputError, Problem
from mucon.segments import Segmentation


def bigram_of(transcripts: Sequence[Sequence[int]], counts: Sequence[int], n_actions: int) -> Floats:
    """Log probabilities `[N+1, N+1]` of the next action: row N is the start, column N the end of a transcript.

    They are relative frequencies; what never follows has probability 0.

    Args:
        transcripts: each of at least one action.
        counts: how often each transcript occurs.
        n_actions: N.

    >>> np.exp(bigram_of([(0, 1), (0,)], [3, 1], 2)).tolist()
    [[0.0, 0.75, 0.25], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    found = np.zeros((n_actions + 1, n_actions + 1))
    for transcript, count in zip(transcripts, counts, strict=True):
        path = [n_actions, *transcript, n_actions]
        for action, following in itertools.pairwise(path):
            found[action, following] += count
    sums = found.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        log_probs: Floats = np.log(found / np.maximum(sums, 1))
    return log_probs


def best_under_bigram(
    frame_log_probs: ArrayLike, bigram: Floats, prior: LengthPrior, *, max_length: int | None = None
) -> tuple[Segmentation, float]:
    """Finds the transcript and the lengths with the highest joint score.

    The score is that of `best_lengths` plus the log probability of the transcript under the bigram. The search is
    exact, O(N T min(T, max_length) + N² T) time and O(N T) memory. Sums are in float64; of equally good starts of a
    segment the first wins.

    Args:
        frame_log_probs: `[T, N]` as in `best_lengths`.
        bigram: `[N+1, N+1]`, see `bigram_of`.
        prior: log prior of the lengths, which depends on the action alone: its terms are those of the transcript
            0, 1, ..., N-1.
        max_length: longest segment in frames; None for no limit.

    Returns:
        The segmentation and its score.

    Raises:
        InputError: no transcript of the bigram can fill the recording, or a log probability is NaN or +inf.
    """
    evidence = as_evidence(frame_log_probs)
    T, N = evidence.shape
    cap = min([T, *(limit for limit in (prior.longest, max_length) if limit is not None)])
    terms = prior.terms(np.arange(N), cap)
    actions, lengths, score, bad_frame = search(
        evidence,
        np.ascontiguousarray(bigram),
        np.ascontiguousarray(terms.constants),
        np.ascontiguousarray(terms.slopes),
        np.ascontiguousarray(terms.shapes[:, cap::-1]),
        np.ascontiguousarray(terms.shape_of_segment),
        cap,
        FLOOR,
    )
    if bad_frame >= 0:
        raise InputError(unusable(evidence, np.arange(N), bad_frame))
    if not score > -np.inf:
        message = f"no transcript of the bigram with segments of 1 to {cap} frames fits {T} frames"
        raise InputError(Problem(rule="mismatch", place="bigram", value=T, message=message))
    return Segmentation(actions, lengths), float(score)


@compiled
def search(
    frame_log_probs: NDArray[np.floating], bigram: Floats, constants: Floats, slopes: Floats, reversed_shapes: Floats,
    shape_of_action: Ints, cap: int, floor: float,
) -> tuple[Ints, Ints, float, int]:  # fmt: skip
    """Best actions `[M]` and lengths `[M]`, their score, and the first frame with an invalid value or -1.

    Args:
        frame_log_probs: `[T, N]`; values below `floor` are raised to it.
        bigram: `[N+1, N+1]`, see `bigram_of`.
        constants: `[N]`, constants of the log priors.
        slopes: `[N]`, addition to the log priors per frame.
        reversed_shapes: `[K, cap+1]`, log prior of lengths cap, ..., 0 without constant and slope.
        shape_of_action: `[N]`, row of `reversed_shapes`.
        cap: longest segment in frames.
        floor: smallest log probability of a frame.
    """
    T, N = frame_log_probs.shape
    gained = np.zeros((N, T + 1))  # evidence and slopes in frames 0..t-1
    for t in range(T):
        for n in range(N):
            value = float(frame_log_probs[t, n])
            if not value < np.inf:
                return np.zeros(0, np.int64), np.zeros(0, np.int64), 0.0, t
            gained[n, t + 1] = gained[n, t] + max(value, floor) + slopes[n]
    weights = np.full((N, T + 1), -np.inf)  # best score before a segment of n that starts at t, less `gained`
    total = np.full((N, T + 1), -np.inf)  # best score of segments that end before t, the last one of n
    starts, before = np.zeros((N, T + 1), np.int32), np.full((N, T + 1), -1, np.int32)
    for n in range(N):
        weights[n, 0] = bigram[N, n] + constants[n]
    for t in range(1, T + 1):
        low = max(0, t - cap)
        for n in range(N):
            weight, shape = weights[n, low:t], reversed_shapes[shape_of_action[n], cap - t + low : cap]
            top, start = -np.inf, 0
            for s in range(len(weight)):
                value = weight[s] + shape[s]
                if value > top:
                    top, start = value, s
            total[n, t], starts[n, t] = top + gained[n, t], low + start
        for n in range(N):
            top, previous = -np.inf, -1
            for m in range(N):
                value = total[m, t] + bigram[m, n]
                if value > top:
                    top, previous = value, m
            weights[n, t], before[n, t] = top - gained[n, t] + constants[n], previous
    score, last = -np.inf, -1
    for n in range(N):
        value = total[n, T] + bigram[n, N]
        if value > score:
            score, last = value, n
    actions, lengths, stop, n_segments = np.zeros(T, np.int64), np.zeros(T, np.int64), T, 0
    while last >= 0 and stop > 0:
        start = starts[last, stop]
        actions[n_segments], lengths[n_segments] = last, stop - start
        n_segments += 1
        last, stop = before[last, start], start
    return actions[:n_segments][::-1].copy(), lengths[:n_segments][::-1].copy(), score, -1
