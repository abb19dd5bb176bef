"""Pseudo labels by boundaries: the strongest changes of the frame posteriors, assigned to a transcript's transitions.

Everything is NumPy on the CPU in float64. Two deviations from the released program make it total: the suppression
shrinks until there are enough candidates, and a recording with fewer frames than segments is stretched.

Source: Xu and Zheng, "Efficient and Effective Weakly-Supervised Action Segmentation via Action-Transition-Aware
Boundary Alignment", CVPR 2024.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from mucon.arrays import Floats, Ints
from mucon.errors import check_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentConfig:
    """The alignment of transcripts, whose labels the frames learn.

    Attributes:
        kind: `atba`: boundaries among the candidates. `exact`: lengths with the highest log posterior and Poisson log
            probability about class means, which are those of the labels of the epoch before; at first all are equal.
        boundary_window: frames of the boundary score's window; odd.
        transition_window: frames of the transition score's window; odd.
        candidates: largest number of candidates for each transition.
        suppression: frames on each side of a candidate that are no candidates, as a share of the mean segment.

    Raises:
        InputError: a value outside its range.
    """

    kind: Literal["atba", "exact"] = "atba"
    boundary_window: int = 7
    transition_window: int = 31
    candidates: int = 4
    suppression: float = 0.3

    def __post_init__(self) -> None:
        windows = {"boundary_window": self.boundary_window, "transition_window": self.transition_window}
        check_ranges(
            "alignment.",
            [
                *((name, n, "odd and at least 3", n >= 3 and n % 2 == 1) for name, n in windows.items()),
                ("candidates", self.candidates, "at least 1", self.candidates >= 1),
                ("suppression", self.suppression, "at least 0", 0 <= self.suppression < np.inf),
            ],
        )


def pseudo_labels(
    posteriors: ArrayLike, transcript: ArrayLike, align: Callable[[Floats, Ints], Ints]
) -> tuple[Ints, Floats]:
    """The action of each frame `[T]`, and the frames of each segment `[M]`.

    A recording with fewer frames than segments is stretched; some segments then have less than a frame. Posteriors that
    are not finite give equal parts: their loss is not finite either, and ends the training.

    Args:
        posteriors: `[T, N]`, each row a distribution.
        transcript: `[M]` action ids, M >= 1.
        align: lengths `[M]` from posteriors `[T', N]`, T' >= M, and the transcript.
    """
    actions = np.asarray(transcript, dtype=np.int64)
    p = np.asarray(posteriors, dtype=np.float64)
    stretch = -(-len(actions) // len(p))
    stretched = np.repeat(p, stretch, axis=0)
    if np.isfinite(p).all():
        lengths = align(stretched, actions)
    else:
        lengths = np.diff(np.arange(len(actions) + 1) * len(stretched) // len(actions))
    return np.repeat(actions, lengths)[stretch // 2 :: stretch], lengths / stretch


def boundary_lengths(posteriors: Floats, transcript: Ints, config: AlignmentConfig) -> Ints:
    """Lengths `[M]` of the segments: each boundary is a candidate, chosen for the sum of both scores.

    Args:
        posteriors: `[T, N]`, each row a distribution; T >= M.
        transcript: `[M]` action ids, M >= 1.
        config: windows and candidates.
    """
    boundary = boundary_scores(posteriors, config.boundary_window)
    candidates = candidate_frames(boundary, len(transcript), config)
    transition = transition_scores(posteriors, transcript, config.transition_window)
    starts = candidates[best_assignment(boundary[candidates] + transition[:, candidates])]
    return np.diff(starts, prepend=0, append=len(posteriors))


def boundary_scores(posteriors: Floats, window: int) -> Floats:
    """How well frame t divides its window into two different parts: `[T]` in [-1, 1], -inf for frame 0.

    The similarity of frames i and j is s = 1 - 2 JS(i, j) / ln 2, with the Jensen-Shannon divergence. The score is the
    mean of the window's s, which count positive within the frames before t and within those from t on, and negative
    between the two; t with itself counts 0. Frames outside the recording are zero vectors: they are similar to
    each other (1) and neither similar nor different to any other frame (0).

    Args:
        posteriors: `[T, N]`.
        window: W, odd.
    """
    T, half = len(posteriors), window // 2
    padded = np.pad(posteriors, ((half, half), (0, 0)))
    entropy = _entropy(padded)
    total = np.full(T, window - 1.0)  # each frame of the window but t with itself
    for k in range(1, window):
        divergence = _entropy((padded[k:] + padded[:-k]) / 2) - (entropy[k:] + entropy[:-k]) / 2
        first = np.arange(window - k)
        signs = np.where((first + k < half) | (first >= half), 1.0, -1.0)
        similarity = 1 - 2 / np.log(2) * divergence
        total += 2 * sliding_window_view(similarity, window - k)[:T] @ signs
    total[0] = -np.inf
    return total / window**2


def _entropy(p: Floats) -> Floats:
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    entropy: Floats = -np.einsum("tn,tn->t", p, logs)
    return entropy


def candidate_frames(scores: Floats, n_segments: int, config: AlignmentConfig) -> Ints:
    """The frames `[C]`, ascending, that may begin a segment: the highest scores, each the best of its neighbourhood.

    Frames around a candidate are suppressed. C is at most `candidates` · (M - 1) and at least M - 1: the suppressed
    neighbourhood is halved until enough candidates are left. Of equal scores the earliest counts.

    Args:
        scores: `[T]`, -inf for frame 0; T >= M.
        n_segments: M.
        config: number of candidates and suppression.
    """
    T, needed = len(scores), n_segments - 1
    width = int(min(config.suppression * T / n_segments, T))
    while True:
        left = scores.copy()
        found: list[int] = []
        while len(found) < config.candidates * needed:
            best = int(np.argmax(left))
            if left[best] == -np.inf:
                break
            found.append(best)
            left[max(0, best - width) : best + width + 1] = -np.inf
        if len(found) >= needed:
            return np.sort(np.asarray(found, dtype=np.int64))
        width //= 2


def transition_scores(posteriors: Floats, transcript: Ints, window: int) -> Floats:
    """How well frame t begins segment r+1 of the transcript: `[M-1, T]` in [-1, 1].

    The mean over the window and both actions: action r counts positive before t and negative from t on, action r+1 the
    other way round. Frames outside the recording count 0.

    Args:
        posteriors: `[T, N]`.
        transcript: `[M]`.
        window: odd.
    """
    T, half = len(posteriors), window // 2
    sums = np.zeros((T + 1, posteriors.shape[1]))
    np.cumsum(posteriors, axis=0, out=sums[1:])
    frames = np.arange(T)
    before = sums[frames] - sums[np.maximum(frames - half, 0)]
    after = sums[np.minimum(frames + half + 1, T)] - sums[frames]
    falls = (before - after).T
    scores: Floats = (falls[transcript[:-1]] - falls[transcript[1:]]) / (2 * window)
    return scores


def best_assignment(gains: Floats) -> Ints:
    """The candidates `[R]`, ascending, with the highest sum of gains: one for each transition, others are left out.

    Of equal sums the one with the earlier candidates counts.

    Args:
        gains: `[R, C]` of transition r at candidate c; R <= C.
    """
    R, C = gains.shape
    best = np.full(R + 1, -np.inf)  # of the first r transitions, so far
    best[0] = 0.0
    taken = np.zeros((C, R), dtype=np.bool_)
    for c in range(C):
        with_this = best[:-1] + gains[:, c]
        taken[c] = with_this > best[1:]
        best[1:] = np.where(taken[c], with_this, best[1:])
    chosen = np.empty(R, dtype=np.int64)
    r = R
    for c in range(C - 1, -1, -1):
        if r and taken[c, r - 1]:
            r -= 1
            chosen[r] = c
    return chosen
