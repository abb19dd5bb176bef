"""Whether a split part has other features than the training part, beyond the differences of training groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.errors import Problem, some
from storage.inspection.sums import Sums

Floats = NDArray[np.float64]
Moments = tuple[float, Floats, Floats]

FEWEST_UNITS = 5
"""Training groups, or clips without a group, below which nothing is known of their differences."""
LEAST, FACTOR = 0.5, 2.0
"""A dimension is shifted if it differs by more than `LEAST` and by more than `FACTOR` times what is usual."""
SHARE, FEWEST = 0.05, 3
"""Share and number of shifted dimensions that are a warning."""
FAR, FAR_FACTOR = 2.0, 4.0
"""A single dimension that differs by more than this is a warning too."""
FEWEST_FRAMES = 100
"""Frames below which deviations are not compared."""
FEWEST_BLOCKS, MOST_BLOCKS = 8, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A split part beside the training part of its split.

    Differences of a dimension are |mean - training mean| / training std, and |log2(std / training std)|.

    Attributes:
        mean_difference: median over the dimensions of the first; dimensions that are constant in training do not count.
        std_ratio: median over the dimensions of std / training std.
        moved: dimensions whose mean is shifted, the farthest first.
        scaled: dimensions whose deviation is shifted, likewise.
        is_shifted: whether this is a warning.
    """

    mean_difference: float
    std_ratio: float
    moved: tuple[int, ...]
    scaled: tuple[int, ...]
    is_shifted: bool

    def warnings(self, place: str) -> list[Problem]:
        """Returns the warning of a shifted part."""
        if not self.is_shifted:
            return []
        found = [
            f"{what} in {len(dims)} dimensions (farthest: {some(dims, 3)})"
            for what, dims in (("another mean", self.moved), ("another deviation", self.scaled))
            if dims
        ]
        message = (
            f"features differ from the training part more than its groups among themselves: {' and '.join(found)}; "
            f"medians over all dimensions: mean {self.mean_difference:.2g} training deviations away, deviation "
            f"{self.std_ratio:.2g} times that of training"
        )
        hint = "compare how the files of both parts were extracted and normalised"
        value = {"moved": list(self.moved), "scaled": list(self.scaled)}
        return [Problem(rule="mismatch", place=place, value=value, message=message, hint=hint)]


def shift_of(training: Sums, part: Sums) -> Shift | None:
    """Compares a part with the training part of its split.

    The training part is divided into blocks of whole groups, about as many groups as the part has. The largest
    difference of a block from the rest of training, in a dimension, is what is usual there. Where a block has more
    groups than the part, its difference is multiplied by the square root of the ratio.

    Returns:
        The comparison; None if the training part has fewer than `FEWEST_UNITS` groups.
    """
    used = [block for block, units in enumerate(training.units) if units]
    n_units = sum(len(training.units[block]) for block in used)
    if len(used) < FEWEST_UNITS:
        return None
    of_part = sum(map(len, part.units))
    n_blocks = min(max(n_units // of_part, FEWEST_BLOCKS), MOST_BLOCKS, len(used))
    all_frames, all_sums, all_squares = training.total()
    usual = np.zeros((2, len(all_sums)))
    for number in range(n_blocks):
        block = used[number::n_blocks]
        frames, sums, squares = (
            float(training.frames[block].sum()), training.sums[block].sum(axis=0), training.squares[block].sum(axis=0),
        )  # fmt: skip
        rest = (all_frames - frames, all_sums - sums, all_squares - squares)
        in_block = sum(len(training.units[one]) for one in block)
        np.maximum(usual, _differences((frames, sums, squares), rest) * max(in_block / of_part, 1.0) ** 0.5, out=usual)
    found = _differences(part.total(), training.total())
    shifted = (found > LEAST) & (found > FACTOR * usual)
    enough = min(max(SHARE * shifted.shape[1], FEWEST), shifted.shape[1])
    far = (found > FAR) & (found > FAR_FACTOR * usual)
    moved, scaled = (
        tuple(dim for dim in np.argsort(-one, kind="stable").tolist() if which[dim])
        for which, one in zip(shifted, found, strict=True)
    )
    (_, deviations), (_, of_training) = _moments(part.total()), _moments(training.total())
    varying = of_training > 0
    ratios = deviations[varying] / of_training[varying]
    return Shift(
        mean_difference=float(np.median(found[0][varying])) if varying.any() else 0.0,
        std_ratio=float(np.median(ratios)) if varying.any() else 1.0,
        moved=moved,
        scaled=scaled,
        is_shifted=bool(far.any() or (shifted.sum(axis=1) >= enough).any()),
    )


def _differences(part: Moments, other: Moments) -> Floats:
    """Differences of means and of deviations, `[2 D]`; infinite where only one of them is constant."""
    (mean, std), (other_mean, other_std) = _moments(part), _moments(other)
    if part[0] < FEWEST_FRAMES:
        std = other_std
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.abs(mean - other_mean) / other_std
        ratios = np.abs(np.log2(std / other_std))
    return np.stack([np.where(mean == other_mean, 0.0, means), np.where(std == other_std, 0.0, ratios)])


def _moments(sums: Moments) -> tuple[Floats, Floats]:
    """Mean and deviation `[D]`; deviations that are rounding errors of the sums are 0."""
    frames, total, squares = sums
    mean = total / frames
    variance = squares / frames - mean**2
    return mean, np.sqrt(np.where(variance > 1e-12 * squares / frames, variance, 0.0))
