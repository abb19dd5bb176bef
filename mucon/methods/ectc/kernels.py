"""The compiled forward-backward sums of ECTC. Importing this module imports numba, so `loss` imports it when called."""

from __future__ import annotations

import numpy as np

from mucon.arrays import Floats, Ints
from mucon.decoding.compilation import compiled


@compiled
def forward_backward(log_probs: Floats, transcript: Ints, gains: Floats) -> tuple[float, Floats]:
    """Log likelihood of a transcript, summed over all its alignments, and its gradient.

    In every frame after the first an alignment stays in its segment or moves to the next one. Let p be the
    probabilities of frame t, w its gain and b the action of frame t-1: a stay has the probability
    `p(b) w / (p(b) w + 1 - p(b))`, a move to the action a has `p(a) / (p(b) w + 1 - p(b))`. The sums are those of
    logarithms, so that no path underflows: long recordings with confident and wrong frames keep a gradient.

    Args:
        log_probs: `[T, N]`, log of p; T >= M.
        transcript: `[M]`, M >= 1.
        gains: `[T]`, w >= 1; the first one is not used.

    Returns:
        The log likelihood, and its derivatives `[T, N]` by the log probabilities, where p in the denominators is
        `exp(log_probs)`.
    """
    T, M = len(log_probs), len(transcript)
    stay, leave = np.empty((T, M)), np.empty((T, M))  # log weight of a stay in frame t, and of the end before it
    share = np.empty((T, M))  # minus the derivative of `leave` by the log probability
    for t in range(T):
        log_gain = np.log(gains[t])
        for m in range(M):
            extra = np.exp(log_probs[t, transcript[m]]) * (gains[t] - 1.0)
            leave[t, m] = -np.log1p(extra)
            stay[t, m] = log_gain + leave[t, m]
            share[t, m] = extra / (1.0 + extra)
    before, after = np.full((T, M), -np.inf), np.full((T, M), -np.inf)  # log sums up to frame t, and after it
    before[0, 0] = log_probs[0, transcript[0]]
    for t in range(1, T):
        for m in range(M):
            path = before[t - 1, m] + stay[t, m]
            if m > 0:
                path = np.logaddexp(path, before[t - 1, m - 1] + leave[t, m - 1])
            before[t, m] = path + log_probs[t, transcript[m]]
    after[T - 1, M - 1] = 0.0
    for t in range(T - 2, -1, -1):
        for m in range(M):
            path = after[t + 1, m] + stay[t + 1, m] + log_probs[t + 1, transcript[m]]
            if m + 1 < M:
                move = after[t + 1, m + 1] + leave[t + 1, m] + log_probs[t + 1, transcript[m + 1]]
                path = np.logaddexp(path, move)
            after[t, m] = path
    likelihood = before[T - 1, M - 1]
    gradient = np.zeros_like(log_probs)
    for t in range(T):
        for m in range(M):
            posterior = np.exp(before[t, m] + after[t, m] - likelihood)
            gradient[t, transcript[m]] += posterior
            if t + 1 < T:
                gradient[t + 1, transcript[m]] -= posterior * share[t + 1, m]
    return likelihood, gradient
