"""Trainings that collapsed: scores below the feature-free baseline, or far below the other seeds of their row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sweeps.service.stats.comparisons import SeedValues, split_names
from sweeps.service.stats.significance import MIN_SEEDS, rounded

DEVIATIONS = 3.0
"""Distance from the median, in scaled MAD, beyond which a score has collapsed."""
NORMAL = 1.4826
"""Factor from the median absolute deviation to the standard deviation of a normal distribution."""


def collapsed_cells(
    values: SeedValues, baselines: Mapping[str, float], *, higher_is_better: bool = True
) -> tuple[tuple[str, int], ...]:
    """The split and seed of each score of a row that has collapsed, sorted.

    A score has collapsed if it is worse than the baseline of its split, or worse than the median of the row's seeds on
    the split by more than 3 median absolute deviations (MAD, scaled to the standard deviation). The second rule needs
    `MIN_SEEDS` seeds on the split and a MAD above 0: if most seeds are equal, any other one would be marked.
    Source: Leys et al. (2013).

    Args:
        values: scores by cell.
        baselines: split -> score of the feature-free baseline, for splits that have one.
        higher_is_better: False for errors.

    >>> row = {("1", seed): value for seed, value in enumerate((0.61, 0.60, 0.31, 0.62, 0.59))}
    >>> collapsed_cells(row, {}), collapsed_cells(row, {"1": 0.595})
    ((('1', 2),), (('1', 2), ('1', 4)))
    """
    sign = 1.0 if higher_is_better else -1.0
    found: list[tuple[str, int]] = []
    for split in split_names([values]):
        seeds = sorted(seed for name, seed in values if name == split)
        scores = sign * np.array([values[split, seed] for seed in seeds])
        limits = [sign * baselines[split]] if split in baselines else []
        largest, median = float(np.abs(scores).max()), float(np.median(scores))
        deviation = float(rounded(np.median(np.abs(scores - median)), largest))
        if len(seeds) >= MIN_SEEDS and deviation:
            limits.append(median - DEVIATIONS * NORMAL * deviation)
        if limits:
            below = rounded(scores - max(limits), max(largest, abs(max(limits)))) < 0
            found += [(split, seed) for seed, is_below in zip(seeds, below, strict=True) if is_below]
    return tuple(found)
