"""The compiled part of decoding. Importing this module imports numba; only `alignment` does, when decoding starts.

All in one file, because numba's cache on disk is renewed by the file in which a function stands.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mucon.decoding.compilation import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def best_start(weights: Floats, reversed_shape: Floats, left: int, right: int, shift: int) -> tuple[float, np.intp]:
    """Max and first argmax over s in left..right of `weights[s] + reversed_shape[shift + s]`.

    Unsigned numbers, because an index that may be negative costs a test each time (`shift` may be; it wraps round).
    """
    top = -np.inf
    start = np.intp(left)
    offset = np.uintp(shift)
    for s in range(np.uintp(left), np.uintp(right + 1)):
        value = weights[s] + reversed_shape[offset + s]
        if value > top:
            top = value
            start = np.intp(s)
    return top, start


@compiled
def best_starts_monotone(
    weights: Floats, reversed_shape: Floats, first: int, last: int, low: int, high: int, cap: int,
    best: Floats, starts: NDArray[np.int32],
) -> None:  # fmt: skip
    """Fills `best[t]` and `starts[t]`, t in first..last, with max and argmax over s of `weights[s] + shape(t - s)`.

    `shape` is concave, so that the best start never moves back as t grows: rows are done in the order of a balanced
    tree, each between the starts of its two nearest finished neighbours. O((rows + columns) log rows).
    Every row must have a start: s in low..high with t - cap <= s <= t - 1.
    """
    n_rows = last - first + 1
    longest = len(reversed_shape) - 1
    step = 1
    while step <= n_rows:
        step *= 2
    while step >= 1:
        for i in range(step - 1, n_rows, 2 * step):
            t = first + i
            left = max(low, t - cap)
            right = min(high, t - 1)
            if i >= step:
                left = max(left, starts[t - step])
            if i + step < n_rows:
                right = min(right, starts[t + step])
            best[t], starts[t] = best_start(weights, reversed_shape, left, right, longest - t)
        step //= 2


@compiled
def best_starts_any(
    weights: Floats, reversed_shape: Floats, first: int, last: int, low: int, high: int, cap: int,
    best: Floats, starts: NDArray[np.int32],
) -> None:  # fmt: skip
    """As `best_starts_monotone` for any shape, trying every start: O(rows · columns)."""
    longest = len(reversed_shape) - 1
    for t in range(first, last + 1):
        left, right = max(low, t - cap), min(high, t - 1)
        best[t], starts[t] = best_start(weights, reversed_shape, left, right, longest - t)


@compiled
def align(
    frame_log_probs: NDArray[np.floating], transcript: Ints, slopes: Floats, reversed_shapes: Floats,
    shape_of_segment: Ints, cap: int, concave: bool, floor: float,
) -> tuple[Ints, float, int]:  # fmt: skip
    """Best lengths of `transcript`, the frames' share of their score, and the first frame that cannot be used or -1.

    Args:
        frame_log_probs: `[T N]`; below `floor` counts as `floor`.
        transcript: `[M]`.
        slopes: `[M]`, what each frame more adds to a segment's log prior.
        reversed_shapes: `[K L+1]`, log prior of lengths L, L-1, ..., 0 without the slope; L >= cap.
        shape_of_segment: `[M]`, which row of them.
        cap: the longest segment; 1 <= cap <= T and M·cap >= T >= M.
        concave: every row is concave.
        floor: see above.
    """
    T = frame_log_probs.shape[0]
    M = len(transcript)
    starts = np.zeros((M, T + 1), np.int32)
    total = np.zeros(T + 1)  # best score of the segments so far that end before t
    gained = np.zeros(T + 1)  # evidence and slope of this segment's action in frames 0..t-1
    weights = np.empty(T + 1)
    best = np.empty(T + 1)
    low = 0
    high = 0
    for m in range(M):
        action = np.uintp(transcript[m])
        slope = slopes[m]
        for t in range(T):
            value = float(frame_log_probs[t, action])
            if not value < np.inf:
                return np.zeros(M, np.int64), 0.0, t
            gained[t + 1] = gained[t] + max(value, floor) + slope
        for t in range(low, high + 1):
            weights[t] = total[t] - gained[t]
        left = M - 1 - m
        first = max(m + 1, T - left * cap)
        last = min(T - left, (m + 1) * cap)
        shape = reversed_shapes[shape_of_segment[m]]
        if concave:
            best_starts_monotone(weights, shape, first, last, low, high, cap, best, starts[m])
        else:
            best_starts_any(weights, shape, first, last, low, high, cap, best, starts[m])
        for t in range(first, last + 1):
            total[t] = best[t] + gained[t]
        low = first
        high = last
    lengths = np.zeros(M, np.int64)
    evidence = 0.0
    stop = T
    for m in range(M - 1, -1, -1):
        start = starts[m, stop]
        lengths[m] = stop - start
        for t in range(start, stop):
            evidence += max(float(frame_log_probs[t, transcript[m]]), floor)
        stop = start
    return lengths, evidence, -1
