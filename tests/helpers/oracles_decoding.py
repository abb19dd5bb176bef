"""Decoding written from the equation: every choice of lengths, or every start of every segment. Slow and obvious."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.decoding.length_priors import LengthTerms

FLOOR = math.log(1e-30)


@dataclass(frozen=True, eq=False)
class Tabled:
    """Any log prior, written out per segment. Lengths after the last column are impossible.

    Attributes:
        table: `[M, L+1]`, log prior of lengths 0..L (column 0 is not used), -inf for impossible lengths.
    """

    table: ArrayLike

    @property
    def is_log_concave(self) -> bool:
        table = np.asarray(self.table, dtype=np.float64)[:, 1:]
        return bool(np.isfinite(table).all() and (np.diff(table, n=2, axis=1) <= 0).all())

    @property
    def longest(self) -> int:
        return int(np.asarray(self.table).shape[1]) - 1

    def terms(self, transcript: NDArray[np.int64], max_length: int) -> LengthTerms:
        table = np.asarray(self.table, dtype=np.float64)[:, : max_length + 1].copy()
        assert len(table) == len(transcript)
        table[:, 0] = 0.0
        M = len(transcript)
        return LengthTerms(np.zeros(M), np.zeros(M), table, np.arange(M))


def poisson_table(means: Sequence[float], longest: int) -> NDArray[np.float64]:
    """`[M, L+1]`, log of mean^l e^-mean / l!."""
    log_factorials = np.array([math.lgamma(length + 1) for length in range(longest + 1)])
    lengths = np.arange(longest + 1)
    return np.array([lengths * math.log(mean) - mean - log_factorials for mean in means])


def true_score(frame_log_probs, transcript, lengths, log_prior) -> float:
    """The score of given lengths, segment by segment. log_prior: `[M, L+1]`."""
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


def best_transcript_by_alignment(frame_log_probs, transcripts, means, longest=None) -> tuple[int, float]:
    """Every transcript that can fill the recording aligned by itself; the first of the best, and its score."""
    T = len(frame_log_probs)
    scores = [
        best_score_by_recursion(frame_log_probs, transcript, poisson_table(np.asarray(means)[transcript], T), longest)
        if len(transcript) <= T <= len(transcript) * (longest or T)
        else -math.inf
        for transcript in (np.asarray(one) for one in transcripts)
    ]
    best = max(scores)
    return next(i for i, score in enumerate(scores) if math.isclose(score, best, rel_tol=1e-12, abs_tol=1e-12)), best


def published_score_of_all(frame_log_probs, transcript, means, step, max_length) -> float:
    """Every choice of whole steps, scored as golden/README.md says the published program scores.

    A segment's frames count for it from one step after its begin to one step after its end; frames after the last
    whole step do not count. The peak by which a prior is divided was found from the scores in golden/viterbi.npz.
    """
    n_steps = len(frame_log_probs) // step
    best = -math.inf
    for steps in compositions(n_steps, len(transcript), max_length // step):
        score, begin = 0.0, 0
        for m, n in enumerate(int(n) for n in steps):
            action, mean = transcript[m], means[transcript[m]]
            first = 0 if m == 0 else begin + 1
            stop = min(begin + n + 1, n_steps)
            score += float(np.sum(np.asarray(frame_log_probs)[first * step : stop * step, action]))
            score += n * step * math.log(mean) - mean - math.lgamma(n * step + 1)
            rounded = round(mean)
            score -= (rounded * math.log(rounded) if rounded else 0.0) - rounded - math.lgamma(math.floor(mean) + 1)
            begin += n
        best = max(best, score)
    return best
