"""Mean length of each action, from segmentations that were predicted or annotated."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.errors import InputError


def class_mean_lengths(
    segments: Iterable[tuple[ArrayLike, ArrayLike]], n_actions: int, *, fallback: float | None = None
) -> NDArray[np.float64]:
    """`[N]`, the mean number of frames of a segment of each action.

    Every segment counts once, whatever its recording. An action without a segment gets `fallback`, by default the
    mean of all segments: its length is then no evidence for or against it.
    Deviation: the published program averages over one recording's prediction and gives 1 frame to the others.

    Args:
        segments: for each recording its transcript `[M]` and its lengths `[M]` in frames, real or whole. An empty
            prediction adds nothing.
        n_actions: N.
        fallback: frames, for actions without a segment.

    Raises:
        InputError: not one segment at all and no fallback, actions and lengths that differ in number, an action
            outside 0..N-1, or a length that is negative, NaN or infinite.

    >>> class_mean_lengths([([0, 1, 0], [10, 40, 20]), ([1], [60])], 3).round(2).tolist()
    [15.0, 50.0, 32.5]
    """
    sums, counts = np.zeros(n_actions), np.zeros(n_actions, dtype=np.int64)
    for video, (transcript, lengths) in enumerate(segments):
        actions = np.asarray(transcript, dtype=np.int64).reshape(-1)
        frames = np.asarray(lengths, dtype=np.float64).reshape(-1)
        _check(video, actions, frames, n_actions)
        sums += np.bincount(actions, weights=frames, minlength=n_actions)
        counts += np.bincount(actions, minlength=n_actions)
    if fallback is None:
        if not counts.any():
            raise InputError(
                "a mean length needs at least one segment, there is none: predict more, or give a fallback"
            )
        fallback = float(sums.sum() / counts.sum())
    elif not (np.isfinite(fallback) and fallback >= 0):
        raise InputError(f"a mean length is finite and at least 0, the fallback is {fallback}: correct it")
    return np.where(counts > 0, sums / np.maximum(counts, 1), fallback)


def _check(video: int, actions: NDArray[np.int64], frames: NDArray[np.float64], n_actions: int) -> None:
    if len(actions) != len(frames):
        raise InputError(
            f"each action has a length, recording {video} has {len(actions)} actions and {len(frames)} lengths: "
            "correct it"
        )
    wrong = np.flatnonzero((actions < 0) | (actions >= n_actions))
    if len(wrong):
        raise InputError(
            f"an action is one of 0..{n_actions - 1}, segment {wrong[0]} of recording {video} has "
            f"{actions[wrong[0]]}: correct it"
        )
    wrong = np.flatnonzero(~(np.isfinite(frames) & (frames >= 0)))
    if len(wrong):
        raise InputError(
            f"a length is finite and at least 0, segment {wrong[0]} of recording {video} has {frames[wrong[0]]}: "
            "correct it"
        )
