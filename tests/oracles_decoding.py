"""Decoding written from the equation: every choice of lengths, or every start of every segment. Slow and obvious."""

from __future__ import annotations

import itertools
import math

import numpy as np

FLOOR = math.log(1e-30)


def poisson_log_prob(length: int, mean: float) -> float:
    """log of mean^l e^-mean / l!."""
    return length * math.log(mean) - mean - math.lgamma(length + 1)


def poisson_table(means, longest):
    """[M L+1]."""
    return np.array([[poisson_log_prob(length, mean) for length in range(longest + 1)] for mean in means])


def true_score(frame_log_probs, transcript, lengths, log_prior) -> float:
    """The score of given lengths, term by term. log_prior: [M L+1]."""
    score, start = 0.0, 0
    for m, length in enumerate(lengths):
        for t in range(start, start + int(length)):
            score += max(float(frame_log_probs[t, transcript[m]]), FLOOR)
        score += log_prior[m][int(length)]
        start += int(length)
    return score


def compositions(n_frames, n_segments, longest):
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
    """The highest score: V_m(t) = max over s of V_(m-1)(s) + the score of segment m in frames s..t-1. O(M T^2)."""
    T, M = len(frame_log_probs), len(transcript)
    longest = longest or T
    log_prior = np.asarray(log_prior)
    best = np.full(T + 1, -np.inf)
    best[0] = 0.0
    for m in range(M):
        evidence = np.maximum(np.asarray(frame_log_probs)[:, transcript[m]].astype(np.float64), FLOOR)
        until = np.concatenate(([0.0], np.cumsum(evidence)))
        new = np.full(T + 1, -np.inf)
        for t in range(1, T + 1):
            starts = np.arange(max(0, t - longest), t)
            new[t] = (best[starts] + until[t] - until[starts] + log_prior[m, t - starts]).max()
        best = new
    return float(best[T])
