"""Decoding written from the equation: every choice of lengths, or every start of every segment. Slow and obvious."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

FLOOR = math.log(1e-30)


def poisson_table(means: Sequence[float], longest: int) -> NDArray[np.float64]:
    """[M L+1], log of mean^l e^-mean / l!."""
    log_factorials = np.array([math.lgamma(length + 1) for length in range(longest + 1)])
    lengths = np.arange(longest + 1)
    return np.array([lengths * math.log(mean) - mean - log_factorials for mean in means])


def true_score(frame_log_probs, transcript, lengths, log_prior) -> float:
    """The score of given lengths, segment by segment. log_prior: [M L+1]."""
    score, start = 0.0, 0
    for m, length in enumerate(int(length) for length in lengths):
        evidence = np.asarray(frame_log_probs[start : start + length, transcript[m]], dtype=np.float64)
        score += np.maximum(evidence, FLOOR).sum() + log_prior[m][length]
        start += length
    assert start == len(frame_log_probs)
    return float(score)


def compositions(n_frames: int, n_segments: int, longest: int) -> Iterator[NDArray[np.int64]]:
    """Every way to write n_frames as that many whole numbers of 1..longest."""
    for cuts in itertools.combinations(range(1, n_frames), n_segments - 1):
        lengths = np.diff([0, *cuts, n_frames])
        if lengths.max() <= longest:
            yield lengths


def best_score_of_all(frame_log_probs, transcript, log_prior, longest=None) -> float:
    """The highest score over all choices of lengths, each scored by itself."""
    T = len(frame_log_probs)
    return max(
        true_score(frame_log_probs, transcript, lengths, log_prior)
        for lengths in compositions(T, len(transcript), longest or T)
    )


def best_score_by_recursion(frame_log_probs, transcript, log_prior, longest=None) -> float:
    """V_m(t) = max over s of V_(m-1)(s) + evidence of frames s..t-1 + log prior of t - s. All s and t, O(M T^2)."""
    T = len(frame_log_probs)
    starts, stops = np.meshgrid(np.arange(T + 1), np.arange(T + 1), indexing="ij")
    length = stops - starts
    allowed = (length >= 1) & (length <= (longest or T))
    best = np.full(T + 1, -np.inf)
    best[0] = 0.0
    for m, action in enumerate(transcript):
        evidence = np.maximum(np.asarray(frame_log_probs)[:, action].astype(np.float64), FLOOR)
        until = np.concatenate(([0.0], np.cumsum(evidence)))
        segment = until[stops] - until[starts] + np.asarray(log_prior)[m, np.where(allowed, length, 1)]
        best = np.where(allowed, best[:, None] + segment, -np.inf).max(axis=0)
    return float(best[T])
