"""Priors on lengths with a width of their own: a Poisson's is the square root of its mean, actions vary far more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.decoding.length_priors import LengthTerms, checked_means, log_factorials
from mucon.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_DEVIATION = 1.0
"""Frames. A density narrower than that, read at whole lengths, is no distribution; narrower ones get this width."""
LEAST_SPREAD = 1e-3
"""Spreads of `NegativeBinomial` below it count as this much; it is a Poisson distribution then."""


@dataclass(frozen=True, slots=True, eq=False)
class _Spread:
    """A mean and a relative deviation per segment.

    Attributes:
        means: `[M]` frames, finite and not negative.
        spread: standard deviation / mean, above 0 and finite; one number, or `[M]`.
    """

    means: ArrayLike
    spread: ArrayLike

    def __post_init__(self) -> None:
        M = len(checked_means(self.means, "segment"))
        spreads = np.asarray(self.spread, dtype=np.float64)
        if spreads.ndim and spreads.shape != (M,):
            raise InputError(
                f"a spread is one number or one per segment, {spreads.size} spreads for {M} segments: give M spreads"
            )
        wrong = [spread for spread in spreads.reshape(-1).tolist() if not 0 < spread < np.inf]
        if wrong:
            raise InputError(f"a spread is finite and above 0, it is {wrong[0]}: correct the spread")

    @property
    def longest(self) -> int | None:
        """None: every length has a probability."""
        return None

    def _parameters(self, transcript: Ints) -> tuple[Floats, Floats]:
        """`[M]` means and `[M]` spreads."""
        means = checked_means(self.means, "segment")
        if len(means) != len(transcript):
            raise InputError(
                f"a prior per segment has a mean for each, {len(means)} means for {len(transcript)} segments: "
                "give M means"
            )
        return means, np.broadcast_to(np.asarray(self.spread, dtype=np.float64), means.shape)


class Gaussian(_Spread):
    """A normal distribution per segment: its density at whole lengths, standard deviation `spread · mean`.

    Deviations under `LEAST_DEVIATION` count as that, so that the values at all whole numbers sum to 1. It is not cut
    at 0: what lies below is lost alike for every length.
    """

    __slots__ = ()

    @property
    def is_log_concave(self) -> bool:
        """True: a parabola."""
        return True

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: the transcript has not one segment for each mean.
        """
        means, spreads = self._parameters(transcript)
        deviations = np.maximum(means * spreads, LEAST_DEVIATION)[:, None]
        shapes = -0.5 * ((np.arange(max_length + 1) - means[:, None]) / deviations) ** 2
        return _terms(-np.log(deviations[:, 0] * np.sqrt(2 * np.pi)), np.zeros(len(means)), shapes)


class LogNormal(_Spread):
    """A log-normal distribution per segment: its density at whole lengths, with this mean and relative deviation.

    The log length is normal with variance `log(1 + spread²)` and mean `log(mean) - variance / 2`. Long segments are
    likelier than under the others. Deviations under `LEAST_DEVIATION` frames count as that.
    """

    __slots__ = ()

    @property
    def is_log_concave(self) -> bool:
        """False: beyond some length it falls ever more slowly. Decoding is O(M T²)."""
        return False

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: the transcript has not one segment for each mean.
        """
        means, spreads = self._parameters(transcript)
        spreads = np.maximum(spreads, LEAST_DEVIATION / means)
        variances = np.log1p(spreads**2)
        log_lengths = np.log(np.maximum(np.arange(max_length + 1), 1.0))
        centres = np.log(means) - variances / 2
        shapes = -log_lengths - (log_lengths - centres[:, None]) ** 2 / (2 * variances[:, None])
        return _terms(-0.5 * np.log(2 * np.pi * variances), np.zeros(len(means)), shapes)


class NegativeBinomial(_Spread):
    """A Poisson distribution per segment whose own mean varies by `spread`, relatively (a Gamma distribution).

    The variance is `mean + (spread · mean)²`; normalised over 0, 1, 2, .... Small spreads are the Poisson prior, 1 is
    the geometric distribution.
    """

    __slots__ = ()

    @property
    def is_log_concave(self) -> bool:
        """Whether every spread is at most 1; beyond, the log probability falls ever more slowly."""
        return bool((np.asarray(self.spread, dtype=np.float64) <= 1.0).all())

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: the transcript has not one segment for each mean.
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
    """A shape for each segment."""
    return LengthTerms(constants, slopes, shapes, np.arange(len(constants)))
