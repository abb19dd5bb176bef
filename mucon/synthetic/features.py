"""Simulated recordings: features for real transcripts and lengths, from a feature model and a seed.

A frame is the mean of its action and this recording's way of doing it, blurred where actions meet, plus the
recording's offset and noise. What a recording's features are depends on the seed, its id, the model and its own
annotation alone: a part of a data set has the features of the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mucon.errors import InputError
from mucon.synthetic.feature_model import FeatureModel
from mucon.synthetic.grammar import blurred

FloatArray = NDArray[np.float64]
_MEAN, _MIXTURE, _FEATURES, _ORDER, LENGTHS = range(101, 106)


@dataclass(frozen=True, slots=True)
class Simulator:
    """Makes the features of one recording after the other.

    Args:
        model: what they are like.
        actions: the names of the vocabulary. An action's mean depends on its name, not on its id.
        seed: of everything, at least 0.

    Raises:
        InputError: a negative seed.
    """

    model: FeatureModel
    actions: tuple[str, ...]
    seed: int
    means: FloatArray = field(init=False, repr=False, compare=False)
    """Means of the actions `[N latent]`, all equally far from 0."""
    mixture: FloatArray | None = field(init=False, repr=False, compare=False)
    """Weights `[latent D]` of the independent features in each feature, or None where they are the same."""
    deviations: FloatArray = field(init=False, repr=False, compare=False)
    """Standard deviation of each feature `[D]`."""
    levels: FloatArray = field(init=False, repr=False, compare=False)
    """Mean of each feature `[D]`."""

    def __post_init__(self) -> None:
        model = self.model
        latent = min(model.latent, model.dim)
        directions = [keyed(self.seed, _MEAN, action).standard_normal(latent) for action in self.actions]
        means = [np.sqrt(model.between * latent) * way / np.linalg.norm(way) for way in directions]
        generator = keyed(self.seed, _MIXTURE, str(model.dim))
        levels = model.level * generator.standard_normal(model.dim)
        mixture = None
        if latent < model.dim:
            mixture = generator.standard_normal((latent, model.dim))
            mixture /= np.linalg.norm(mixture, axis=0)
        for name, value in (("means", np.array(means)), ("mixture", mixture), ("levels", levels)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "deviations", feature_deviations(model))

    def features(self, id: str, transcript: Sequence[int], lengths: Sequence[int]) -> NDArray[np.floating]:
        """Features `[T D]` of the model's dtype, T the sum of the lengths; the same each time.

        Args:
            id: of the recording.
            transcript: `[M]` action ids.
            lengths: `[M]` frames, each at least 1.
        """
        model = self.model
        generator = keyed(self.seed, _FEATURES, id)
        n_frames, latent = sum(lengths), self.means.shape[1]
        offset = np.sqrt(model.offset) * generator.standard_normal(latent)
        ways = {
            action: np.sqrt(model.variation) * generator.standard_normal(latent) for action in dict.fromkeys(transcript)
        }
        segments = np.array([self.means[action] + ways[action] for action in transcript])
        frames = blurred(np.repeat(segments, lengths, axis=0), model.blur)
        frames += offset
        frames += np.sqrt(model.slow) * window_noise(generator, n_frames, latent, model.window, model.ramp)
        frames += np.sqrt(model.grain) * generator.standard_normal((n_frames, latent))
        if self.mixture is not None:
            frames = frames @ self.mixture
        frames *= self.deviations
        frames += self.levels
        made: NDArray[np.floating] = frames.astype(model.dtype)
        return made


def window_noise(generator: np.random.Generator, n_frames: int, dim: int, window: int, ramp: int) -> FloatArray:
    """Noise `[T D]` of variance 1: white noise averaged over `window` frames and again over `ramp`.

    Its correlation over k frames is `window_correlation(window, ramp, k)`.
    """
    fresh = generator.standard_normal((n_frames + window + ramp - 2, dim))
    smooth = _sums(_sums(fresh, ramp), window)
    smooth /= np.sqrt((_trapezoid(window, ramp) ** 2).sum())
    return smooth


def window_correlation(window: int, ramp: int, lag: int) -> float:
    """Correlation of `window_noise` over `lag` frames.

    >>> window_correlation(10, 1, 5), window_correlation(10, 1, 10)
    (0.5, 0.0)
    """
    weights = _trapezoid(window, ramp)
    return float((weights[lag:] * weights[: max(len(weights) - lag, 0)]).sum() / (weights**2).sum())


def feature_deviations(model: FeatureModel) -> FloatArray:
    """Standard deviation of each feature `[D]`, ascending: their logarithm grows with the square of the place."""
    places = np.linspace(0, 1, model.dim) ** 2
    deviations: FloatArray = model.smallest_std * (model.largest_std / model.smallest_std) ** places
    return deviations


def drawn_first(ids: Sequence[str], n: int, seed: int) -> tuple[str, ...]:
    """The first n ids, sorted, of an order that depends on the seed: nested for growing n, or more ids.

    >>> set(drawn_first(["a", "b", "c", "d"], 2, seed=1)) <= set(drawn_first(["a", "b", "c", "d"], 3, seed=1))
    True
    """
    return tuple(sorted(sorted(ids, key=lambda id: _digest(seed, _ORDER, id))[:n]))


def keyed(seed: int, purpose: int, name: str) -> np.random.Generator:
    """Random numbers that depend on a seed, what they are for, and a name.

    Raises:
        InputError: a negative seed.
    """
    if seed < 0:
        raise InputError(f"simulated recordings: seed is at least 0, not {seed}: choose a value in that range")
    words = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype="<u4")
    return np.random.default_rng([seed, purpose, *words.tolist()])


def _digest(seed: int, purpose: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {purpose} {name}".encode()).digest()


def _trapezoid(window: int, ramp: int) -> FloatArray:
    return np.convolve(np.ones(window), np.ones(ramp))


def _sums(values: FloatArray, width: int) -> FloatArray:
    """Sums over `width` neighbouring frames, `[T - width + 1 D]`."""
    totals = np.concatenate((np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)))
    return totals[width:] - totals[:-width]
