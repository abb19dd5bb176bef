"""The frame accuracy that labels allow if predictions are constant over pooled frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from storage.reader import Store

Ints = NDArray[Any]

POOLINGS = (1, 2, 4, 8, 16, 32, 64)
LEAST_CEILING = 0.98
"""Frame accuracy that the recommended pooling must allow: on Breakfast this gives the 16 of the paper."""
BATCH_FRAMES = 2**20
"""Frames of the clips that are looked at together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """Numbers of frames per latent frame.

    Attributes:
        ceiling: largest possible share of right frames of all labelled clips, by pooling; empty without labels.
        crowded: number of clips with more segments than latent frames, by pooling.
        recommended: the largest pooling whose ceiling is at least `LEAST_CEILING` and that crowds no more clips than no
            pooling does; None without labels.
    """

    ceiling: dict[int, float]
    crowded: dict[int, int]
    recommended: int | None


def pooling_of(store: Store) -> Pooling:
    """Computes the ceilings of frame accuracy; reads the records.

    A clip of T frames has T' = max(floor(T / pooling), 1) latent frames, and frame t belongs to latent frame
    floor(t T' / T). The best prediction gives each latent frame the action that most of its frames have.
    """
    columns = (store.catalogue.column(name) for name in ("transcript", "lengths"))
    clips = [(frames, *labels) for frames, *labels in zip(store.catalogue.frames.tolist(), *columns, strict=True)]
    labelled = [(transcript, lengths) for _, transcript, lengths in clips if lengths is not None]
    n_frames = sum(sum(lengths) for _, lengths in labelled)
    ceiling = {}
    if labelled:
        right = dict.fromkeys(POOLINGS, 0)
        for batch in _batches(labelled):
            for pooling in POOLINGS:
                right[pooling] += _right_frames(*batch, pooling)
        ceiling = {pooling: n / n_frames for pooling, n in right.items()}
    crowded = {
        pooling: sum(len(transcript or ()) > max(frames // pooling, 1) for frames, transcript, _ in clips)
        for pooling in POOLINGS
    }
    fitting = [p for p, best in ceiling.items() if best >= LEAST_CEILING and crowded[p] <= crowded[1]]
    return Pooling(ceiling=ceiling, crowded=crowded, recommended=max(fitting, default=None))


def _batches(labelled: Sequence[tuple[list[int], list[int]]]) -> Iterator[tuple[Ints, Ints]]:
    """Yields labels of the frames and numbers of frames of some clips."""
    transcripts: list[int] = []
    lengths: list[int] = []
    frames: list[int] = []
    total = 0
    for number, (actions, of_actions) in enumerate(labelled, 1):
        transcripts += actions
        lengths += of_actions
        frames.append(sum(of_actions))
        total += frames[-1]
        if total >= BATCH_FRAMES or number == len(labelled):
            yield np.repeat(transcripts, lengths), np.array(frames)
            transcripts, lengths, frames, total = [], [], [], 0


def _right_frames(labels: Ints, frames: Ints, pooling: int) -> int:
    """Frames of some clips that the best prediction gets right.

    >>> _right_frames(np.array([0, 0, 1, 1, 1, 2, 2]), np.array([5, 2]), 2)
    6
    """
    latent = np.maximum(frames // pooling, 1)
    first = np.cumsum(frames) - frames
    frame = np.arange(len(labels)) - np.repeat(first, frames)
    window = np.repeat(np.cumsum(latent) - latent, frames) + frame * np.repeat(latent, frames) // np.repeat(
        frames, frames
    )
    n_actions = int(labels.max()) + 1
    keys = window * n_actions + labels
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    runs = np.diff(starts, append=len(keys))
    kinds, kind = np.unique(keys[starts], return_inverse=True)
    counts = np.bincount(kind, weights=runs).astype(np.int64)
    return int(np.maximum.reduceat(counts, np.flatnonzero(np.diff(kinds // n_actions, prepend=-1))).sum())


def pooling_rows(pooling: Pooling) -> list[tuple[str, str]]:
    """Formats the ceilings as a row of the overview; no row without labels."""
    if not pooling.ceiling:
        return []
    ceilings = ", ".join(f"{100 * best:.1f} % by {p}" for p, best in pooling.ceiling.items() if p > 1)
    rule = f"the largest that allows {100 * LEAST_CEILING:.0f} %"
    chosen = "" if pooling.recommended is None else f"; recommended: {pooling.recommended}, {rule}"
    return [("pooling", f"frame accuracy at most {ceilings}{chosen}")]
