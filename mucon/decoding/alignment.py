"""The best lengths of a transcript's segments, given each frame's log probabilities: exact, at every frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.decoding.length_priors import LengthPrior, LengthTerms
from mucon.errors import InputError

FLOOR = float(np.log(1e-30))
"""The least log probability of a frame: what is below, -inf too, counts as this much."""


def best_lengths(
    frame_log_probs: ArrayLike,
    transcript: ArrayLike,
    prior: LengthPrior,
    *,
    max_length: int | None = None,
) -> tuple[NDArray[np.int64], float]:
    """The lengths with the highest score, and that score.

    The score of lengths is the sum over the frames of the log probability of their segment's action (at least
    `FLOOR`) plus the sum over the segments of the log prior of their length. Each segment has at least one frame, and
    the lengths sum to T. Max-plus dynamic programming over the segments; where the prior is log-concave the best
    start of a segment never moves back as its end moves on, and divide and conquer over the ends makes it
    O(M T log T), else O(M T min(T, max_length)). Sums are in float64. Among equal scores the choice is always the
    same. The interpreter's lock is released meanwhile.

    Source: L* = argmax of the product of y_t[a_m] and P_{l_m}, the paper's section on inference.
    Deviation: the published program steps 30 frames, scores each boundary's frames with the earlier label and cuts
    segments at 2,000 frames; here every frame is tried and no length is cut.

    Args:
        frame_log_probs: `[T N]`, log probabilities; float32 and float64 are read in place. -inf is allowed.
        transcript: `[M]`, action ids, 1 <= M <= T. The same action may stand twice in a row.
        prior: log prior of the lengths.
        max_length: the longest segment in frames, None without limit.

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
        raise InputError(
            f"at least one choice of lengths is possible under the prior, for {len(actions)} segments in "
            f"{len(evidence)} frames there is none: give the prior more lengths"
        )
    return lengths, score


def _align(
    evidence: NDArray[np.floating], actions: NDArray[np.int64], terms: LengthTerms, cap: int, concave: bool
) -> tuple[NDArray[np.int64], float]:
    """The best lengths, and the frames' share of their score."""
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
    """`[T N]` float32 or float64, contiguous and read only, so that one compiled version serves all.

    Raises:
        InputError: not two dimensions.
    """
    values = np.asarray(frame_log_probs)
    if values.ndim != 2:
        raise InputError(f"frame log probabilities are [T N], these are {list(values.shape)}: reshape them")
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


def _checked_cap(
    shape: tuple[int, ...], actions: NDArray[np.int64], longest: int | None, max_length: int | None
) -> int:
    T, N = shape
    M = len(actions)
    if not M:
        raise InputError(f"a transcript has at least one action, this one for {T} frames has none: give one")
    outside = np.flatnonzero((actions < 0) | (actions >= N))
    if len(outside):
        raise InputError(
            f"an action is one of 0..{N - 1}, segment {m} has {actions[m]}: correct the transcript"
            for m in outside.tolist()
        )
    if M > T:
        raise InputError(
            f"each segment has at least one frame, a transcript of {M} segments does not fit {T} frames: "
            "give a shorter transcript"
        )
    if max_length is not None and max_length < 1:
        raise InputError(f"max_length is at least 1 frame, it is {max_length}: raise it")
    cap = min([T, *(limit for limit in (longest, max_length) if limit is not None)])
    if M * cap < T:
        raise InputError(
            f"segments of at most {cap} frames fill the recording, {M} of them cannot fill {T} frames: "
            f"allow at least {-(-T // M)} frames"
        )
    return cap


def unusable(evidence: NDArray[np.floating], actions: NDArray[np.int64], frame: int) -> str:
    """What to say of a frame in which the log probability of one of the actions is NaN or +inf."""
    action = next(int(n) for n in actions if not evidence[frame, n] < np.inf)
    return (
        f"log probabilities are numbers or -inf, frame {frame} has {evidence[frame, action]} for action {action}: "
        "look for NaN in the features or the weights"
    )
