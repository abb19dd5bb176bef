"""Priors on lengths with adjustable width; that of a Poisson distribution, the root of its mean, is often too small."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mucon.arrays import Floats, Ints
from mucon.decoding.length_priors import LengthTerms, checked_means, log_factorials, means_of_segments
from mucon.errors import InputError, Problem, check_ranges

LEAST_DEVIATION = 1.0
"""Frames; smaller deviations are raised to it. A narrower density, read at whole lengths, does not sum to 1."""
LEAST_SPREAD = 1e-3
"""Smaller spreads of `NegativeBinomial` are raised to it; the distribution is then a Poisson distribution."""


@dataclass(frozen=True, slots=True, eq=False)
class _Spread:
    """A mean and a relative deviation per segment.

    Attributes:
        means: `[M]` frames, finite and not negative.
        spread: standard deviation / mean, above 0 and finite; a number or `[M]`.
    """

    means: ArrayLike
    spread: ArrayLike

    def __post_init__(self) -> None:
        M = len(checked_means(self.means, "segment"))
        spreads = np.asarray(self.spread, dtype=np.float64)
        if spreads.ndim and spreads.shape != (M,):
            expected = f"1 or {M} (one per segment)"
            raise InputError(Problem(rule="shape", place="number of spreads", value=spreads.size, expected=expected))
        values = spreads.reshape(-1).tolist()
        check_ranges("", [("spread", value, "above 0 and finite", 0 < value < np.inf) for value in values])

    @property
    def longest(self) -> int | None:
        """None."""
        return None

    def _parameters(self, transcript: Ints) -> tuple[Floats, Floats]:
        """Means `[M]` and spreads `[M]`."""
        means = means_of_segments(self.means, len(transcript))
        return means, np.broadcast_to(np.asarray(self.spread, dtype=np.float64), means.shape)


class Gaussian(_Spread):
    """A normal distribution per segment: its density at whole lengths, with standard deviation `spread · mean`.

    Deviations are raised to `LEAST_DEVIATION`, so that the values at all whole numbers sum to 1. The distribution is
    not truncated at 0; the probability below 0 is a constant factor for all lengths.
    """

    __slots__ = ()

    @property
    def is_log_concave(self) -> bool:
        """True; the log density is a parabola."""
        return True

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: different numbers of means and segments.
        """
        means, spreads = self._parameters(transcript)
        deviations = np.maximum(means * spreads, LEAST_DEVIATION)[:, None]
        shapes = -0.5 * ((np.arange(max_length + 1) - means[:, None]) / deviations) ** 2
        return _terms(-np.log(deviations[:, 0] * np.sqrt(2 * np.pi)), np.zeros(len(means)), shapes)


class LogNormal(_Spread):
    """A log-normal distribution per segment: its density at whole lengths, with this mean and relative deviation.

    The log length is normal with variance `log(1 + spread²)` and mean `log(mean) - variance / 2`. Long segments are
    more likely than under the other priors. Deviations are raised to `LEAST_DEVIATION` frames.
    """

    __slots__ = ()

    @property
    def is_log_concave(self) -> bool:
        """False; the log density is convex beyond some length. Decoding is O(M T²)."""
        return False

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: different numbers of means and segments.
        """
        means, spreads = self._parameters(transcript)
        spreads = np.maximum(spreads, LEAST_DEVIATION / means)
        variances = np.log1p(spreads**2)
        log_lengths = np.log(np.maximum(np.arange(max_length + 1), 1.0))
        centres = np.log(means) - variances / 2
        shapes = -log_lengths - (log_lengths - centres[:, None]) ** 2 / (2 * variances[:, None])
        return _terms(-0.5 * np.log(2 * np.pi * variances), np.zeros(len(means)), shapes)


class NegativeBinomial(_Spread):
    """A Poisson distribution per segment whose mean follows a Gamma distribution with relative deviation `spread`.

    The variance is `mean + (spread · mean)²`; normalised over 0, 1, 2, .... It approaches the Poisson prior for small
    spreads and is the geometric distribution for spread 1.
    """

    __slots__ = ()

    @property
    def is_log_concave(self) -> bool:
        """Whether every spread is at most 1; the log probability is convex for larger ones."""
        return bool((np.asarray(self.spread, dtype=np.float64) <= 1.0).all())

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: different numbers of means and segments.
        """
        from scipy.special import gammaln

        means, spreads = self._parameters(transcript)
        sizes = np.maximum(spreads, LEAST_SPREAD) ** -2
        distinct, of_segment = np.unique(sizes, return_inverse=True)
        shapes = gammaln(np.arange(max_length + 1) + distinct[:, None]) - gammaln(distinct)[:, None]
        shapes -= log_factorials(max_length)
        constants = -sizes * np.log1p(means / sizes)
        return LengthTerms(constants, np.log(means / (means + sizes)), shapes, of_segment.astype(np.int64))


def _terms(constants: Floats, slopes: Floats, shapes: Floats) -> LengthTerms:
    """Terms with one shape per segment."""
    return LengthTerms(constants, slopes, shapes, np.arange(len(constants)))
