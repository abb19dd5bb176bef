"""The rule that finds the best loop and ends the training, from transcripts alone.

Source: Ding and Xu, "Weakly-supervised action segmentation with iterative soft boundary assignment", CVPR 2018, and the
released program.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mucon.arrays import Ints

EPSILON = 1e-7
"""Least distance of a probability from 0 and 1."""
FIRST_CANDIDATE = 2
"""The first loop, counted from 0, that can be the best one."""


def set_loss(probs: NDArray[np.floating], transcript: Sequence[int] | Ints) -> float:
    """Summed binary cross-entropy between the set of a transcript's actions and each action's largest probability.

    The loss of a loop is its mean over the training videos.

    Args:
        probs: `[T, N]`.
        transcript: `[M]`.
    """
    largest = np.clip(probs.max(axis=0).astype(np.float64), EPSILON, 1 - EPSILON)
    present = np.zeros(len(largest), dtype=bool)
    present[np.asarray(transcript)] = True
    return float(-np.log(np.where(present, largest, 1 - largest)).sum())


def best_loop(losses: Sequence[float]) -> int | None:
    """The first loop with the least loss, counted from 0; None before there is a candidate.

    >>> best_loop([0.1, 0.2, 0.6, 0.5, 0.7])
    3
    """
    return min(range(FIRST_CANDIDATE, len(losses)), key=lambda loop: losses[loop], default=None)


def has_stopped(losses: Sequence[float], patience: int) -> bool:
    """Whether more than `patience` loops have ended since the best one.

    >>> has_stopped([0.1, 0.2, 0.6, 0.5, 0.7, 0.7], 2), has_stopped([0.1, 0.2, 0.6, 0.5, 0.7, 0.7, 0.6], 2)
    (False, True)
    """
    best = best_loop(losses)
    return best is not None and len(losses) - 1 - best > patience
