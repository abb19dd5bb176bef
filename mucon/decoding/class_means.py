"""Mean length and share of each action in predicted or annotated segmentations."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from mucon.arrays import Floats, Ints
from mucon.errors import InputError, Problem, check_ranges

_LENGTH = "a finite length of at least 0 frames"


def class_mean_lengths(
    segments: Iterable[tuple[ArrayLike, ArrayLike]], n_actions: int, *, fallback: float | None = None
) -> Floats:
    """Mean number of frames of a segment of each action: `[N]`.

    All segments of all recordings have equal weight. An action without a segment gets `fallback`, by default the mean
    of all segments, so that its length is no evidence for or against it.
    Deviation: the published program averages over one recording's prediction and gives 1 frame to the other actions.

    Args:
        segments: for each recording the transcript `[M]` and the lengths `[M]` in frames, real or whole; M may be 0.
        n_actions: N.
        fallback: frames, for actions without a segment.

    Raises:
        InputError: no segment and no fallback, different numbers of actions and lengths, an action outside 0..N-1, or
            a length that is negative, NaN or infinite.

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
            raise InputError(Problem(rule="missing", place="segments", expected="at least one, or a fallback"))
        fallback = float(sums.sum() / counts.sum())
    else:
        check_ranges("", [("fallback", fallback, _LENGTH, 0 <= fallback < np.inf)])
    return np.where(counts > 0, sums / np.maximum(counts, 1), fallback)


def frame_shares(segments: Iterable[tuple[ArrayLike, ArrayLike]], n_actions: int) -> Floats:
    """Share of each action in the frames of all recordings: `[N]` with the sum 1.

    Args:
        segments: for each recording the transcript `[M]` and the lengths `[M]` in frames; together at least one frame.
        n_actions: N.

    >>> frame_shares([([0, 1, 0], [10, 20, 10])], 3).tolist()
    [0.5, 0.5, 0.0]
    """
    frames = np.zeros(n_actions)
    for transcript, lengths in segments:
        frames += np.bincount(np.asarray(transcript), weights=np.asarray(lengths), minlength=n_actions)
    shares: Floats = frames / frames.sum()
    return shares


def _check(video: int, actions: Ints, frames: Floats, n_actions: int) -> None:
    if len(actions) != len(frames):
        expected = f"{len(actions)} lengths (one per action)"
        raise InputError(Problem(rule="shape", place=f"recording {video}", value=len(frames), expected=expected))
    ids = f"an action id from 0 to {n_actions - 1}"
    place = f"recording {video}, segment"
    check_ranges(place, [(f" {m}", int(n), ids, 0 <= n < n_actions) for m, n in enumerate(actions.tolist())])
    check_ranges(place, [(f" {m}", length, _LENGTH, 0 <= length < np.inf) for m, length in enumerate(frames.tolist())])
