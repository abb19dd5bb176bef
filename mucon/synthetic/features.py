"""Simulated recordings: features for real transcripts and lengths, from a feature model and a seed.

A frame is the mean of its action plus this recording's variation of it, blurred at borders, plus the recording's offset
and noise. The features of a recording depend only on the seed, its id, the model and its own annotation, so a subset of
a dataset has the same features as the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mucon.arrays import Floats
from mucon.errors import check_ranges
from mucon.synthetic.feature_model import FeatureModel
from mucon.synthetic.grammar import blurred

_MEAN, _MIXTURE, _FEATURES, _ORDER, LENGTHS = range(101, 106)


@dataclass(frozen=True, slots=True)
class Simulator:
    """Generates the features of recordings.

    Args:
        model: model of the features.
        actions: names of the vocabulary. An action's mean depends on its name, not on its id.
        seed: at least 0.

    Raises:
        InputError: a negative seed.
    """

    model: FeatureModel
    actions: tuple[str, ...]
    seed: int
    means: Floats = field(init=False, repr=False, compare=False)
    """Means of the actions `[N, latent]`, all equally far from 0."""
    mixture: Floats | None = field(init=False, repr=False, compare=False)
    """Weights `[latent, D]` of the latent features in each feature; None if latent = D."""
    deviations: Floats = field(init=False, repr=False, compare=False)
    """Standard deviation of each feature `[D]`."""
    levels: Floats = field(init=False, repr=False, compare=False)
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
        """Generates features `[T, D]` of the model's dtype, deterministically; T is the sum of the lengths.

        Args:
            id: id of the recording.
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
        features: NDArray[np.floating] = frames.astype(model.dtype)
        return features


def window_noise(generator: np.random.Generator, n_frames: int, dim: int, window: int, ramp: int) -> Floats:
    """Noise `[T, D]` of variance 1: white noise averaged over `window` frames and again over `ramp`."""
    fresh = generator.standard_normal((n_frames + window + ramp - 2, dim))
    smooth = _sums(_sums(fresh, ramp), window)
    smooth /= np.sqrt((_trapezoid(window, ramp) ** 2).sum())
    return smooth


def feature_deviations(model: FeatureModel) -> Floats:
    """Standard deviation of each feature `[D]`, ascending; the logarithm is quadratic in the index."""
    exponents = np.linspace(0, 1, model.dim) ** 2
    deviations: Floats = model.smallest_std * (model.largest_std / model.smallest_std) ** exponents
    return deviations


def drawn_first(ids: Sequence[str], n: int, seed: int) -> tuple[str, ...]:
    """The first n ids of a random order, sorted; nested for growing n and for subsets of the ids.

    >>> set(drawn_first(["a", "b", "c", "d"], 2, seed=1)) <= set(drawn_first(["a", "b", "c", "d"], 3, seed=1))
    True
    """
    return tuple(sorted(sorted(ids, key=lambda id: _digest(seed, _ORDER, id))[:n]))


def keyed(seed: int, purpose: int, name: str) -> np.random.Generator:
    """A random generator for a seed, a purpose and a name.

    Raises:
        InputError: a negative seed.
    """
    check_ranges("", [("seed", seed, "at least 0", seed >= 0)])
    words = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype="<u4")
    return np.random.default_rng([seed, purpose, *words.tolist()])


def _digest(seed: int, purpose: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {purpose} {name}".encode()).digest()


def _trapezoid(window: int, ramp: int) -> Floats:
    return np.convolve(np.ones(window), np.ones(ramp))


def _sums(values: Floats, width: int) -> Floats:
    """Sums over `width` neighbouring frames, `[T - width + 1, D]`."""
    totals = np.concatenate((np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)))
    return totals[width:] - totals[:-width]
