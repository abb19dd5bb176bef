"""The decoder of the published program including its faults, to reproduce its numbers.

It maximises another score than `best_lengths`, on a coarser grid, with the same kernel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.arrays import Floats, Ints
from mucon.decoding.alignment import FLOOR, as_evidence, means_problem, too_short, transcript_problems, unusable
from mucon.decoding.length_priors import LEAST_MEAN, checked_means, log_factorials
from mucon.errors import InputError, Problem, check_ranges


def published_lengths(
    frame_log_probs: ArrayLike,
    transcript: ArrayLike,
    class_means: ArrayLike,
    *,
    step: int = 30,
    max_length: int = 2000,
) -> tuple[Ints, Ints, float]:
    """The published program's labels, lengths and score.

    It reproduces these faults, which no other function has:

    - Segments are whole steps. The last T mod `step` frames belong to no step and do not affect the score.
    - The step in which a segment begins counts as evidence for the segment *before* it, so that borders are one step
      early and `score` belongs to no path.
    - The left-over frames get the last segment's action, but at the *start* of `labels`; in `lengths` they are at the
      end, as they should be.
    - The log prior of a length is divided by a peak value that is correct only for means that round down:
      `n log n - n - log(floor(mean)!)` with n the rounded mean. It is a constant per segment and changes only the
      score.
    - A segment lasts at most `max_length` frames without the left-over ones (1,980 in steps of 30).

    Deviation: evidence is raised to `FLOOR` and means to `LEAST_MEAN`; the program computes NaN.

    Args:
        frame_log_probs: `[T, N]`.
        transcript: `[M]` action ids, M <= T // step.
        class_means: `[N]` frames, mean predicted length of each action.
        step: frames per step.
        max_length: longest segment in frames.

    Returns:
        `[T]` labels, `[M]` lengths that sum to T, and the score.

    Raises:
        InputError: a step below 1, an empty transcript, an id outside 0..N-1, more segments than whole steps, segments
            too short to fill the recording, another number of means than N, or a log probability that is NaN or +inf.

    >>> labels, lengths, _ = published_lengths(np.log([[0.9, 0.1]] * 2 + [[0.1, 0.9]] * 3), [0, 1], [2.0, 3.0], step=1)
    >>> lengths.tolist(), labels.tolist()
    ([1, 4], [0, 1, 1, 1, 1])
    """
    from mucon.decoding.kernels import align

    evidence = as_evidence(frame_log_probs)
    T = len(evidence)
    actions = np.array(transcript, dtype=np.int64).reshape(-1)
    means = checked_means(class_means, "action")
    longest = _checked_longest(evidence.shape, actions, len(means), step, max_length)
    n_steps = T // step
    constants, slopes, shape = _prior(means[actions], step, longest)
    first, later = _steps(evidence, actions, step)
    steps, _, _ = align(
        later, np.arange(len(actions)), slopes, shape[None, ::-1].copy(), np.zeros(len(actions), np.int64), longest,
        True, -np.inf,
    )  # fmt: skip
    stops = np.cumsum(steps)
    frames = sum(float(later[stop - n : stop, m].sum()) for m, (n, stop) in enumerate(zip(steps, stops, strict=True)))
    score = first + frames + float((constants + slopes * steps + shape[steps]).sum())
    left_over = T - n_steps * step
    lengths = steps * step
    labels = np.concatenate((np.full(left_over, actions[-1]), np.repeat(actions, lengths)))
    lengths[-1] += left_over
    return labels, lengths, score


def _steps(evidence: NDArray[np.floating], actions: Ints, step: int) -> tuple[float, Floats]:
    """Evidence of the first step, and `[T // step, M]` that of the step *after* each, 0 after the last one."""
    whole = len(evidence) // step * step
    values = evidence[:whole, actions].astype(np.float64)
    unusable_frames = np.flatnonzero(~(values < np.inf).all(axis=1))
    if len(unusable_frames):
        raise InputError(unusable(evidence, actions, int(unusable_frames[0])))
    per_step = np.maximum(values, FLOOR).reshape(-1, step, len(actions)).sum(axis=1)
    later = np.concatenate((per_step[1:], np.zeros((1, len(actions)))))
    later.flags.writeable = False  # like `as_evidence`: no second compiled version
    return float(per_step[0, 0]), later


def _prior(means: Floats, step: int, longest: int) -> tuple[Floats, Floats, Floats]:
    """Constants `[M]` and slopes `[M]` of the segments, and the shape of their log priors, per step."""
    from scipy.special import gammaln

    rounded = np.rint(means)
    peaks = rounded * np.log(np.maximum(rounded, LEAST_MEAN)) - rounded
    peaks -= gammaln(np.floor(means) + 1.0)
    return -means - peaks, step * np.log(means), -log_factorials(longest * step)[::step]


def _checked_longest(shape: tuple[int, ...], actions: Ints, n_means: int, step: int, max_length: int) -> int:
    """The longest segment in steps."""
    T, N = shape
    check_ranges("", [("step", step, "at least 1 frame", step >= 1)])
    problems = transcript_problems(actions, T, N)
    if n_means != N:
        problems.append(means_problem(n_means, N))
    if problems:
        raise InputError(problems)
    M, n_steps, longest = len(actions), T // step, min(max_length, T) // step
    if n_steps < M:
        expected = f"at most {T // M} frames ({M} segments in {T} frames, at least one step each)"
        raise InputError(Problem(rule="mismatch", place="step", value=step, expected=expected))
    if M * longest < n_steps:
        raise InputError(too_short(longest * step, M, T))
    return longest
