"""The compiled part of decoding. Importing this module imports numba, so other modules import it inside functions.

All kernels are in one file, because numba invalidates its cache on disk by file.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mucon.arrays import Bools, Floats, Ints
from mucon.decoding.compilation import compiled


@compiled
def best_start(weights: Floats, reversed_shape: Floats, left: int, right: int, shift: int) -> tuple[float, np.intp]:
    """Max and first argmax over s in left..right of `weights[s] + reversed_shape[shift + s]`.

    Indices are unsigned: a signed index costs a test for negative values each time. A negative `shift` wraps around.
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

    `shape` is concave, so the best start never moves back as t grows: rows are computed in the order of a balanced
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
    """Like `best_starts_monotone` for any shape; tries every start: O(rows · columns)."""
    longest = len(reversed_shape) - 1
    for t in range(first, last + 1):
        left, right = max(low, t - cap), min(high, t - 1)
        best[t], starts[t] = best_start(weights, reversed_shape, left, right, longest - t)


@compiled
def align(
    frame_log_probs: NDArray[np.floating], transcript: Ints, slopes: Floats, reversed_shapes: Floats,
    shape_of_segment: Ints, cap: int, concave: bool, floor: float,
) -> tuple[Ints, float, int]:  # fmt: skip
    """Best lengths of `transcript`, the evidence of the frames, and the first frame with an invalid value or -1.

    Args:
        frame_log_probs: `[T, N]`; values below `floor` are raised to it.
        transcript: `[M]`.
        slopes: `[M]`, addition to a segment's log prior per frame.
        reversed_shapes: `[K, L+1]`, log prior of lengths L, L-1, ..., 0 without the slope; L >= cap.
        shape_of_segment: `[M]`, row of `reversed_shapes`.
        cap: longest segment in frames; 1 <= cap <= T and M·cap >= T >= M.
        concave: every row of `reversed_shapes` is concave.
        floor: smallest log probability of a frame.
    """
    T = frame_log_probs.shape[0]
    M = len(transcript)
    starts = np.zeros((M, T + 1), np.int32)
    total = np.zeros(T + 1)  # best score of the segments so far, ending before t
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


@compiled
def cumulate(
    frame_log_probs: NDArray[np.floating], used: Bools, slopes: Floats, floor: float
) -> tuple[Floats, Floats, int]:
    """Evidence and slopes of each action in frames 0..t-1, and the highest evidence of frames t..T-1.

    Args:
        frame_log_probs: `[T, N]`; values below `floor` are raised to it.
        used: `[N]`, actions that are read; the rows of the others stay 0.
        slopes: `[N]`, addition to the log prior of a segment of the action per frame.
        floor: smallest log probability of a frame.

    Returns:
        `[N, T+1]`; `[T+1]`, from the best action of every frame, without slopes; the first frame with an invalid
        value or -1.
    """
    T, N = frame_log_probs.shape
    gained = np.zeros((N, T + 1))
    most = np.zeros(T + 1)
    for t in range(T):
        top = floor
        for action in range(N):
            if not used[action]:
                continue
            value = float(frame_log_probs[t, action])
            if not value < np.inf:
                return gained, most, t
            value = max(value, floor)
            top = max(top, value)
            gained[action, t + 1] = gained[action, t] + value + slopes[action]
        most[t] = top
    for t in range(T - 1, -1, -1):
        most[t] += most[t + 1]
    return gained, most, -1


@compiled
def depths_below(depths: Ints, stops: Ints, complete: Bools, actions: Ints, peaks: Floats) -> tuple[Ints, Ints, Floats]:
    """For each node of a prefix tree: fewest and most remaining segments, and the highest sum of their priors.

    Args:
        depths: `[K]`, nodes in depth-first order; 1 for a first action.
        stops: `[K]`, the node after the subtree of each.
        complete: `[K]`, a usable transcript ends here.
        actions: `[K]`.
        peaks: `[N]`, the highest log prior of a segment of each action.

    Returns:
        `[K]` fewest and `[K]` most, -1 if no transcript ends in the subtree, and `[K]` sums, -inf there.
    """
    n_nodes = len(depths)
    fewest, most = np.full(n_nodes, -1, np.int64), np.full(n_nodes, -1, np.int64)
    reach = np.full(n_nodes, -np.inf)
    for node in range(n_nodes - 1, -1, -1):
        if complete[node]:
            fewest[node] = most[node] = 0
            reach[node] = 0.0
        child = node + 1
        while child < stops[node]:
            if most[child] >= 0:
                most[node] = max(most[node], most[child] + 1)
                fewest[node] = fewest[child] + 1 if fewest[node] < 0 else min(fewest[node], fewest[child] + 1)
                reach[node] = max(reach[node], reach[child] + peaks[actions[child]])
            child = stops[child]
    return fewest, most, reach


@compiled
def extend(
    total: Floats, low: int, high: int, gained: Floats, constant: float, reversed_shape: Floats,
    first: int, last: int, cap: int, weights: Floats, starts: NDArray[np.int32], extended: Floats,
) -> None:  # fmt: skip
    """Fills `extended[t]`, t in first..last, with the best score of a prefix and one more segment that end before t.

    Args:
        total: `[T+1]`, best scores of the prefix, valid at low..high.
        low: first valid end of `total`.
        high: last valid end of `total`.
        gained: `[T+1]`, row of the segment's action from `cumulate`.
        constant: constant of the segment's log prior.
        reversed_shape: `[L+1]`, as a row in `align`, concave.
        first: first end that is filled.
        last: last end that is filled.
        cap: longest segment in frames.
        weights: `[T+1]`, scratch.
        starts: `[T+1]`, scratch.
        extended: `[T+1]`.
    """
    for t in range(low, high + 1):
        weights[t] = total[t] - gained[t]
    best_starts_monotone(weights, reversed_shape, first, last, low, high, cap, extended, starts)
    for t in range(first, last + 1):
        extended[t] += gained[t] + constant


@compiled
def highest(total: Floats, still: Floats, low: int, high: int) -> float:
    """Max over t in low..high of `total[t] + still[t]`."""
    top = -np.inf
    for t in range(low, high + 1):
        top = max(top, total[t] + still[t])
    return top


@compiled
def walk(
    depths: Ints, stops: Ints, complete: Bools, actions: Ints, fewest: Ints, most: Ints, reach: Floats,
    gained: Floats, still: Floats, constants: Floats, peaks: Floats, reversed_shape: Floats, cap: int,
) -> tuple[Floats, int]:  # fmt: skip
    """Best score of each transcript of a prefix tree, and the number of computed rows.

    Nodes are visited depth first. A row, the best scores of one prefix at every end, is computed once for all
    transcripts that begin with it. A subtree is skipped if its upper bound, the sum of the prefix's score, the highest
    evidence of the remaining frames and the peaks of the remaining priors, is below the best score so far.

    Args:
        depths: `[K]`, as in `depths_below`.
        stops: `[K]`, as in `depths_below`.
        complete: `[K]`, as in `depths_below`; at least one.
        actions: `[K]`, as in `depths_below`.
        fewest: `[K]` from `depths_below`.
        most: `[K]` from `depths_below`.
        reach: `[K]` from `depths_below`.
        gained: `[N, T+1]` from `cumulate`.
        still: `[T+1]` from `cumulate`.
        constants: `[N]`, constants of the log priors.
        peaks: `[N]`, the highest log priors.
        reversed_shape: as in `extend`.
        cap: longest segment in frames.

    Returns:
        `[K]`, -inf if no transcript ends here or it cannot be the best; number of rows.
    """
    n_nodes, T = len(depths), len(still) - 1
    n_levels = 1
    for node in range(n_nodes):
        n_levels = max(n_levels, depths[node] + 1)
    total = np.zeros((n_levels, T + 1))
    lows, highs, tops = np.zeros(n_levels, np.int64), np.zeros(n_levels, np.int64), np.zeros(n_levels)
    weights, starts = np.empty(T + 1), np.empty(T + 1, np.int32)
    scores = np.full(n_nodes, -np.inf)
    highest_score, n_rows, node = -np.inf, 0, 0
    tops[0] = still[0]
    while node < n_nodes:
        level, action = depths[node], actions[node]
        bound = tops[level - 1] + peaks[action] + reach[node]
        if most[node] < 0 or bound < highest_score - 1e-9 * (1.0 + abs(highest_score)):
            node = stops[node]
            continue
        first, last = max(level, T - most[node] * cap), min(T - fewest[node], level * cap)
        extend(
            total[level - 1], lows[level - 1], highs[level - 1], gained[action], constants[action], reversed_shape,
            first, last, cap, weights, starts, total[level],
        )  # fmt: skip
        n_rows += 1
        lows[level], highs[level] = first, last
        tops[level] = highest(total[level], still, first, last)
        if complete[node]:
            scores[node] = total[level, T]
            highest_score = max(highest_score, scores[node])
        node += 1
    return scores, n_rows


@compiled
def place_of(bounds: Floats, n_kept: int, bound: float) -> int:
    """Index for a bound among the highest: a free one, that of the lowest if the bound exceeds it, or -1."""
    if n_kept < len(bounds):
        return n_kept
    least = 0
    for place in range(1, n_kept):
        if bounds[place] < bounds[least]:
            least = place
    return least if bound > bounds[least] else -1


@compiled
def walk_beam(
    depths: Ints, stops: Ints, complete: Bools, actions: Ints, fewest: Ints, most: Ints, reach: Floats,
    gained: Floats, still: Floats, constants: Floats, peaks: Floats, reversed_shape: Floats, cap: int, beam: int,
) -> tuple[Floats, int]:  # fmt: skip
    """Like `walk`, but level by level, following only `beam` prefixes of each length; not exact.

    Follows the prefixes with the highest upper bounds (see `walk`). Every transcript that ends one segment after a
    followed prefix gets its score.
    """
    n_nodes, T = len(depths), len(still) - 1
    width = min(beam, n_nodes)
    total = np.zeros((2, width + 1, T + 1))  # rows of this level and of the next, with a spare one
    slots, nodes = np.zeros((2, width), np.int64), np.zeros((2, width), np.int64)
    bounds, weights, starts = np.empty(width), np.empty(T + 1), np.empty(T + 1, np.int32)
    scores = np.full(n_nodes, -np.inf)
    n_followed, n_rows, level = 1, 0, 0
    while n_followed:
        current, following = level % 2, (level + 1) % 2
        n_kept, spare = 0, 0
        for i in range(n_followed):
            low, high, node, stop = 0, 0, -1, n_nodes
            if level:
                node = nodes[current, i]
                stop = stops[node]
                low, high = max(level, T - most[node] * cap), min(T - fewest[node], level * cap)
            node += 1
            while node < stop:
                action = actions[node]
                if most[node] >= 0:
                    first, last = max(level + 1, T - most[node] * cap), min(T - fewest[node], (level + 1) * cap)
                    row = total[following, spare]
                    extend(
                        total[current, slots[current, i]], low, high, gained[action], constants[action], reversed_shape,
                        first, last, cap, weights, starts, row,
                    )  # fmt: skip
                    n_rows += 1
                    if complete[node]:
                        scores[node] = row[T]
                    bound = highest(row, still, first, last) + reach[node]
                    place = place_of(bounds, n_kept, bound) if most[node] else -1
                    if place == n_kept:
                        n_kept += 1
                        slots[following, place], spare = spare, n_kept
                    elif place >= 0:
                        slots[following, place], spare = spare, slots[following, place]
                    if place >= 0:
                        bounds[place], nodes[following, place] = bound, node
                node = stops[node]
        n_followed = n_kept
        level += 1
    return scores, n_rows
