"""Sums over frames, by blocks of groups, from which means and deviations of a split part follow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BLOCKS = 64
"""Most blocks of a part."""


class Sums:
    """Sums over the frames of some clips.

    The clips of a group, such as a subject, are in one block.

    Attributes:
        frames: `[B]` number of frames of each block.
        sums: `[B D]` sums of the values.
        squares: `[B D]` sums of the squares.
        units: names of the groups, or of clips without a group, in each block.
        zeros: number of values that are zero.
        norms: sum of the Euclidean norms of the frames.
    """

    def __init__(self, dim: int, n_blocks: int) -> None:
        self.frames = np.zeros(n_blocks)
        self.sums = np.zeros((n_blocks, dim))
        self.squares = np.zeros((n_blocks, dim))
        self.units: list[set[str]] = [set() for _ in range(n_blocks)]
        self.zeros = 0
        self.norms = 0.0

    def add_frames(self, values: Floats) -> None:
        """Adds frames `[T D]` to the first block."""
        squares = values * values
        self.frames[0] += len(values)
        self.sums[0] += values.sum(axis=0)
        self.squares[0] += squares.sum(axis=0)
        self.zeros += values.size - int(np.count_nonzero(values))
        self.norms += float(np.sqrt(squares.sum(axis=1)).sum())

    def add_clip(self, clip: Sums, unit: str, number: int) -> None:
        """Adds the sums of a clip.

        Args:
            clip: its sums, in one block.
            unit: its group, or its id.
            number: index of the group among all groups, which chooses the block.
        """
        block = number % len(self.units)
        self.frames[block] += clip.frames[0]
        self.sums[block] += clip.sums[0]
        self.squares[block] += clip.squares[0]
        self.units[block].add(unit)
        self.zeros += clip.zeros
        self.norms += clip.norms

    def total(self) -> tuple[float, Floats, Floats]:
        """Returns frames, sums `[D]` and sums of squares `[D]` over all blocks."""
        return float(self.frames.sum()), self.sums.sum(axis=0), self.squares.sum(axis=0)
