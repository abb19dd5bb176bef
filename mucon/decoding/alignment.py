"""Exact alignment: the best lengths of a transcript's segments, given the log probabilities of every frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.arrays import Ints
from mucon.decoding.length_priors import LengthPrior, LengthTerms
from mucon.errors import InputError, Problem, check_ranges

FLOOR = float(np.log(1e-30))
"""Smallest log probability of a frame; lower ones and -inf are raised to it."""


def best_lengths(
    frame_log_probs: ArrayLike,
    transcript: ArrayLike,
    prior: LengthPrior,
    *,
    max_length: int | None = None,
) -> tuple[Ints, float]:
    """Finds the lengths with the highest score.

    The score is the sum over the frames of the log probability of their segment's action (at least `FLOOR`), plus the
    sum over the segments of the log prior of their length. Each segment has at least one frame, and the lengths sum
    to T. The algorithm is max-plus dynamic programming over the segments. If the prior is log-concave, the best start
    of a segment never moves back as its end moves forward, and divide and conquer over the ends needs O(M T log T),
    otherwise O(M T min(T, max_length)). Sums are in float64. Ties are broken deterministically. The global interpreter
    lock is released during the search.

    Source: L* = argmax of the product of y_t[a_m] and P_{l_m}, the paper's section on inference.
    Deviation: the published program steps 30 frames, scores each boundary's frames with the earlier label and cuts
    segments at 2,000 frames; here every frame is considered and no length is cut.

    Args:
        frame_log_probs: `[T, N]`; float32 and float64 are read in place. -inf is allowed.
        transcript: `[M]` action ids, 1 <= M <= T. Neighbours may be equal.
        prior: log prior of the lengths.
        max_length: longest segment in frames; None for no limit.

    Returns:
        `[M]` int64 frames, and the score.

    Raises:
        InputError: an empty transcript, an id outside 0..N-1, M > T, M · max_length < T, a log probability of the
            transcript's actions that is NaN or +inf, or a prior under which no lengths are possible.

    >>> from mucon.decoding.length_priors import Flat
    >>> lengths, _ = best_lengths(np.log([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]]), [0, 1], Flat())
    >>> lengths.tolist()
    [2, 1]
    """
    evidence = as_evidence(frame_log_probs)
    actions = np.array(transcript, dtype=np.int64).reshape(-1)
    cap = _checked_cap(evidence.shape, actions, prior.longest, max_length)
    terms = prior.terms(actions, cap)
    lengths, score = _align(evidence, actions, terms, cap, prior.is_log_concave)
    score += float(terms.log_probs(lengths).sum())
    if score == -np.inf:
        message = f"no lengths of {len(actions)} segments in {len(evidence)} frames are possible"
        raise InputError(Problem(rule="mismatch", place="length prior", value=len(actions), message=message))
    return lengths, score


def _align(
    evidence: NDArray[np.floating], actions: Ints, terms: LengthTerms, cap: int, concave: bool
) -> tuple[Ints, float]:
    """The best lengths, and their score without constants and slopes of the prior."""
    from mucon.decoding.kernels import align

    lengths, score, bad_frame = align(
        evidence,
        actions,
        np.ascontiguousarray(terms.slopes),
        np.ascontiguousarray(terms.shapes[:, cap::-1]),
        np.ascontiguousarray(terms.shape_of_segment),
        cap,
        concave,
        FLOOR,
    )
    if bad_frame >= 0:
        raise InputError(unusable(evidence, actions, bad_frame))
    return lengths, score


def as_evidence(frame_log_probs: ArrayLike) -> NDArray[np.floating]:
    """`[T, N]` float32 or float64, contiguous and read-only, so that one compiled version suffices.

    Raises:
        InputError: an array without two dimensions.
    """
    values = np.asarray(frame_log_probs)
    if values.ndim != 2:
        shape = list(values.shape)
        raise InputError(Problem(rule="shape", place="frame_log_probs", value=shape, expected="the shape [T, N]"))
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


def _checked_cap(shape: tuple[int, ...], actions: Ints, longest: int | None, max_length: int | None) -> int:
    T, N = shape
    M = len(actions)
    problems = transcript_problems(actions, T, N)
    if problems:
        raise InputError(problems)
    if max_length is not None:
        check_ranges("", [("max_length", max_length, "at least 1 frame", max_length >= 1)])
    cap = min([T, *(limit for limit in (longest, max_length) if limit is not None)])
    if M * cap < T:
        raise InputError(too_short(cap, M, T))
    return cap


def transcript_problems(actions: Ints, n_frames: int, n_actions: int) -> list[Problem]:
    """Why a transcript `[M]` cannot be aligned to a recording; empty if it can.

    Args:
        actions: `[M]`.
        n_frames: T.
        n_actions: N.
    """
    M = len(actions)
    if not M:
        return [Problem(rule="missing", place="transcript", expected="at least one action")]
    outside = np.flatnonzero((actions < 0) | (actions >= n_actions)).tolist()
    expected = f"an action id from 0 to {n_actions - 1}"
    problems = [
        Problem(rule="range", place=f"transcript[{m}]", value=int(actions[m]), expected=expected) for m in outside
    ]
    if not problems and n_frames < M:
        expected = f"at most {n_frames} segments (one frame each)"
        problems.append(Problem(rule="mismatch", place="transcript", value=M, expected=expected))
    return problems


def too_short(longest: int, n_segments: int, n_frames: int) -> Problem:
    """The longest segments do not fill the recording."""
    expected = f"at least {-(-n_frames // n_segments)} frames ({n_segments} segments fill {n_frames} frames)"
    return Problem(rule="mismatch", place="max_length", value=longest, expected=expected)


def means_problem(n_means: int, n_actions: int) -> Problem:
    """The mean lengths are not one per action."""
    return Problem(rule="shape", place="class_means", value=n_means, expected=f"{n_actions} means (one per action)")


def unusable(evidence: NDArray[np.floating], actions: Ints, frame: int) -> Problem:
    """The problem of a frame in which the log probability of one of the actions is NaN or +inf."""
    action = next(int(n) for n in actions if not evidence[frame, n] < np.inf)
    return Problem(
        rule="range",
        place=f"frame_log_probs[{frame}, {action}]",
        value=float(evidence[frame, action]),
        expected="a number or -inf",
        hint="check features and weights for NaN",
    )
