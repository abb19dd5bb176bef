"""Priors on the lengths of segments: the log probability that segment m of a transcript lasts l frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from mucon.arrays import Floats, Ints
from mucon.errors import InputError, Problem

LEAST_MEAN = 1e-30
"""Frames; smaller means (a softmax that underflowed to 0) are raised to it."""
LEAST_GEOMETRIC_MEAN = 1 + 1e-9
"""Frames; smaller means of `GeometricPerClass` are raised to it, so that the logarithm of the loop is finite."""


@dataclass(frozen=True, slots=True, eq=False)
class LengthTerms:
    """Log priors of M segments in the form of the compiled code, which needs no table of M rows.

    The log prior of length l of segment m is
    `constants[m] + slopes[m] * l + shapes[shape_of_segment[m], l]`, for l = 0..L.

    Attributes:
        constants: `[M]`.
        slopes: `[M]`, per frame.
        shapes: `[K, L+1]`; column 0 is not used.
        shape_of_segment: `[M]` int64.
    """

    constants: Floats
    slopes: Floats
    shapes: Floats
    shape_of_segment: Ints

    def log_probs(self, lengths: ArrayLike) -> Floats:
        """Log prior `[M]` of the segments at their lengths `[M]`."""
        frames = np.asarray(lengths, dtype=np.int64)
        return self.constants + self.slopes * frames + self.shapes[self.shape_of_segment, frames]

    def table(self) -> Floats:
        """Log prior `[M, L+1]` of every segment at every length."""
        frames = np.arange(self.shapes.shape[1])
        return self.constants[:, None] + self.slopes[:, None] * frames + self.shapes[self.shape_of_segment]


class LengthPrior(Protocol):
    """The interface of a prior. The lengths of different segments are independent."""

    @property
    def is_log_concave(self) -> bool:
        """Whether all log priors are finite and concave in the length 1..L; decoding is then O(M T log T)."""

    @property
    def longest(self) -> int | None:
        """Longest possible length in frames; None for no limit."""

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors of the segments of `transcript` for lengths up to `max_length` or more.

        Raises:
            InputError: the prior does not fit the transcript.
        """


class _Unlimited:
    """A log-concave prior under which every length is possible."""

    __slots__ = ()

    @property
    def is_log_concave(self) -> bool:
        """True."""
        return True

    @property
    def longest(self) -> int | None:
        """None."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Poisson(_Unlimited):
    """A Poisson distribution per segment: segment m of the transcript lasts `means[m]` frames on average.

    Log probabilities are those of the normalised distribution over 0, 1, 2, ...: `l log(mean) - mean - log(l!)`.
    Means are real and raised to `LEAST_MEAN`.
    Source: the paper's P_{l_m} in the section on inference.
    Deviation: the published program has one mean per class (`PoissonPerClass`), divided by the peak value.

    Attributes:
        means: `[M]` frames, finite and not negative.
    """

    means: ArrayLike

    def __post_init__(self) -> None:
        checked_means(self.means, "segment")

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: different numbers of means and segments.
        """
        return _poisson_terms(means_of_segments(self.means, len(transcript)), max_length)


@dataclass(frozen=True, slots=True, eq=False)
class PerClass(_Unlimited):
    """Base of log-concave priors that depend on the action alone: segments of action n last `means[n]` frames.

    Their terms have one shape for all actions.

    Attributes:
        means: `[N]` frames, finite and not negative.
    """

    means: ArrayLike

    def __post_init__(self) -> None:
        checked_means(self.means, "action")

    def modes(self, max_length: int) -> Floats:
        """The likeliest length `[N]` of each action among 1..`max_length`."""
        raise NotImplementedError

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`."""
        raise NotImplementedError

    def _means_of(self, transcript: Ints) -> Floats:
        """Means `[M]` of the segments.

        Raises:
            InputError: the transcript has an action without a mean.
        """
        means = checked_means(self.means, "action")
        if len(transcript) and transcript.max() >= len(means):
            expected = f"more than {transcript.max()} (one per action)"
            raise InputError(Problem(rule="shape", place="number of means", value=len(means), expected=expected))
        return means[transcript]


class PoissonPerClass(PerClass):
    """A Poisson distribution per action, normalised like `Poisson`."""

    __slots__ = ()

    def modes(self, max_length: int) -> Floats:
        """The likeliest length `[N]` of each action among 1..`max_length`."""
        return np.clip(np.floor(checked_means(self.means, "action")), 1, max_length)

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: the transcript has an action without a mean.
        """
        return _poisson_terms(self._means_of(transcript), max_length)


class GeometricPerClass(PerClass):
    """A geometric distribution per action over 1, 2, ...: after each frame a segment ends with probability 1 / mean.

    These are the lengths of a state of a hidden Markov model with the loop probability `1 - 1 / mean`. Means are
    raised to `LEAST_GEOMETRIC_MEAN`, so that every length is possible.
    """

    __slots__ = ()

    def modes(self, max_length: int) -> Floats:
        """The likeliest length `[N]` of each action: 1 frame."""
        return np.ones(len(checked_means(self.means, "action")))

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: the transcript has an action without a mean.
        """
        means = np.maximum(self._means_of(transcript), LEAST_GEOMETRIC_MEAN)
        log_loops = np.log1p(-1 / means)
        M = len(means)
        return LengthTerms(-np.log(means) - log_loops, log_loops, np.zeros((1, max_length + 1)), np.zeros(M, np.int64))


@dataclass(frozen=True, slots=True)
class Flat(_Unlimited):
    """Log prior 0 for every length (not a distribution), so that only the evidence counts."""

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`."""
        M = len(transcript)
        return LengthTerms(np.zeros(M), np.zeros(M), np.zeros((1, max_length + 1)), np.zeros(M, np.int64))


def checked_means(means: ArrayLike, of: str) -> Floats:
    """Means `[M]` or `[N]`, raised to `LEAST_MEAN`.

    Args:
        means: frames.
        of: what has the means, for problems: `segment` or `action`.

    Raises:
        InputError: one problem per mean that is negative, NaN or infinite.
    """
    values = np.asarray(means, dtype=np.float64).reshape(-1)
    valid = np.isfinite(values) & (values >= 0)
    if not valid.all():
        expected = "a finite mean of at least 0 frames"
        raise InputError(
            Problem(rule="range", place=f"mean of {of} {i}", value=float(values[i]), expected=expected)
            for i in np.flatnonzero(~valid).tolist()
        )
    return np.maximum(values, LEAST_MEAN)


def means_of_segments(means: ArrayLike, n_segments: int) -> Floats:
    """Checked means `[M]` of the segments of a transcript.

    Raises:
        InputError: invalid means, or another number than M.
    """
    values = checked_means(means, "segment")
    if len(values) != n_segments:
        expected = f"{n_segments} (one per segment)"
        raise InputError(Problem(rule="shape", place="number of means", value=len(values), expected=expected))
    return values


def _poisson_terms(means: Floats, max_length: int) -> LengthTerms:
    shapes = -log_factorials(max_length)[None, :]
    return LengthTerms(-means, np.log(means), shapes, np.zeros(len(means), np.int64))


def log_factorials(n: int) -> Floats:
    """Log factorials `[n+1]`: log(0!), log(1!), ..., log(n!).

    >>> np.exp(log_factorials(4)).round(6).tolist()
    [1.0, 1.0, 2.0, 6.0, 24.0]
    """
    return _log_factorials(1 << max(n, 1).bit_length())[: n + 1]


@lru_cache(maxsize=8)
def _log_factorials(n: int) -> Floats:
    from scipy.special import gammaln

    table: Floats = gammaln(np.arange(1.0, n + 2.0))
    table.flags.writeable = False
    return table
