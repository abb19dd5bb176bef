"""The statistics of `fv_stats.json`, measured in the same way on any features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def autocorrelation(recordings: Sequence[np.ndarray], lag: int) -> float:
    """Correlation of a feature with itself `lag` frames later: per recording and feature, then their mean."""
    correlations = []
    for features in recordings:
        early = features[:-lag].astype(np.float64)
        late = features[lag:].astype(np.float64)
        early -= early.mean(axis=0)
        late -= late.mean(axis=0)
        correlations.append((early * late).mean(axis=0) / np.sqrt((early**2).mean(axis=0) * (late**2).mean(axis=0)))
    return float(np.mean(correlations))


def between_share(recordings: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> float:
    """Share of the variance, summed over the features, between the means of the classes."""
    frames = np.concatenate(recordings).astype(np.float64)
    actions = np.concatenate(labels)
    frames -= frames.mean(axis=0)
    between = sum((actions == a).sum() * (frames[actions == a].mean(axis=0) ** 2).sum() for a in np.unique(actions))
    return float(between / (frames**2).sum())


def window_correlation(window: int, ramp: int, lag: int) -> float:
    """Correlation over `lag` frames of white noise averaged over `window` frames and again over `ramp`.

    >>> window_correlation(10, 1, 5), window_correlation(10, 1, 10)
    (0.5, 0.0)
    """
    weights = np.convolve(np.ones(window), np.ones(ramp))
    return float((weights[lag:] * weights[: max(len(weights) - lag, 0)]).sum() / (weights**2).sum())
