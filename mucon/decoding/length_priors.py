"""Priors on the lengths of segments: how likely is it that segment m of a transcript lasts l frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_MEAN = 1e-30
"""Means below it (a softmax that underflowed to 0) count as this much."""


@dataclass(frozen=True, slots=True, eq=False)
class LengthTerms:
    """Log priors of M segments in the form that the compiled code reads, without a table of M rows.

    The log prior of length l of segment m is
    `constants[m] + slopes[m] * l + shapes[shape_of_segment[m], l]`, for l = 0..L.

    Attributes:
        constants: `[M]`.
        slopes: `[M]`, per frame.
        shapes: `[K L+1]`, column 0 is never used.
        shape_of_segment: `[M]` int64.
    """

    constants: Floats
    slopes: Floats
    shapes: Floats
    shape_of_segment: Ints

    def log_probs(self, lengths: ArrayLike) -> Floats:
        """`[M]`, the log prior of each segment at its length `[M]`."""
        frames = np.asarray(lengths, dtype=np.int64)
        return self.constants + self.slopes * frames + self.shapes[self.shape_of_segment, frames]

    def table(self) -> Floats:
        """`[M L+1]`, the log prior of every segment at every length."""
        frames = np.arange(self.shapes.shape[1])
        return self.constants[:, None] + self.slopes[:, None] * frames + self.shapes[self.shape_of_segment]


class LengthPrior(Protocol):
    """What decoding asks of a prior. The priors of one transcript's segments are independent."""

    @property
    def is_log_concave(self) -> bool:
        """Every segment's log prior is finite and concave in the length 1..L: decoding is then O(M T log T)."""

    @property
    def longest(self) -> int | None:
        """The longest length that has a probability, None without end."""

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors of the segments of `transcript` for the lengths up to `max_length` at least.

        Raises:
            InputError: the prior is not made for this transcript.
        """


class _Endless:
    """What is true of a prior under which every length is possible, whose log is concave."""

    __slots__ = ()

    @property
    def is_log_concave(self) -> bool:
        """True."""
        return True

    @property
    def longest(self) -> int | None:
        """None: every length is possible."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Poisson(_Endless):
    """A Poisson distribution per segment: segment m of the transcript lasts `means[m]` frames on average.

    Log probabilities are those of the normalised distribution over 0, 1, 2, ...: `l log(mean) - mean - log(l!)`.
    Means are real; those under `LEAST_MEAN` count as that.
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
            InputError: the transcript has not one segment for each mean.
        """
        means = checked_means(self.means, "segment")
        if len(means) != len(transcript):
            raise InputError(
                f"a prior per segment has a mean for each, {len(means)} means for {len(transcript)} segments: "
                "give M means, or take a prior per class"
            )
        return _poisson_terms(means, max_length)


@dataclass(frozen=True, slots=True, eq=False)
class PoissonPerClass(_Endless):
    """A Poisson distribution per action: every segment of action n lasts `means[n]` frames on average.

    Normalised as `Poisson`.

    Attributes:
        means: `[N]` frames, finite and not negative.
    """

    means: ArrayLike

    def __post_init__(self) -> None:
        checked_means(self.means, "action")

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: the transcript has an action without a mean.
        """
        means = checked_means(self.means, "action")
        if len(transcript) and transcript.max() >= len(means):
            raise InputError(
                f"a prior per class has a mean for each action, action {transcript.max()} is not among "
                f"{len(means)} means: give N means"
            )
        return _poisson_terms(means[transcript], max_length)


@dataclass(frozen=True, slots=True)
class Flat(_Endless):
    """Every length is as likely as any other: log prior 0, which is no distribution. Only the evidence decides."""

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`."""
        M = len(transcript)
        return LengthTerms(np.zeros(M), np.zeros(M), np.zeros((1, max_length + 1)), np.zeros(M, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Tabled:
    """Any log prior, written out per segment: histograms, mixtures, what has no formula.

    Whether it is concave is read from the table; lengths after its last column are impossible.

    Attributes:
        table: `[M L+1]`, log prior of lengths 0..L (column 0 is not used), -inf where impossible; no NaN, no +inf.
    """

    table: ArrayLike

    def __post_init__(self) -> None:
        table = np.asarray(self.table, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] < 2:
            raise InputError(f"a table of priors is [M L+1] with L at least 1, this is {list(table.shape)}: reshape it")
        wrong = np.argwhere(~(table[:, 1:] < np.inf))
        if len(wrong):
            m, length = wrong[0].tolist()
            raise InputError(
                f"log priors are numbers or -inf, segment {m} has {table[m, length + 1]} at length {length + 1}: "
                "correct the table"
            )

    @property
    def is_log_concave(self) -> bool:
        """Whether every row is finite and its slope never grows."""
        table = np.asarray(self.table, dtype=np.float64)[:, 1:]
        return bool(np.isfinite(table).all() and (np.diff(table, n=2, axis=1) <= 0).all())

    @property
    def longest(self) -> int | None:
        """L."""
        return int(np.asarray(self.table).shape[1]) - 1

    def terms(self, transcript: Ints, max_length: int) -> LengthTerms:
        """Log priors, see `LengthPrior.terms`.

        Raises:
            InputError: the transcript has not one segment for each row.
        """
        table = np.asarray(self.table, dtype=np.float64)
        M = len(transcript)
        if len(table) != M:
            raise InputError(
                f"a table of priors has a row for each segment, {len(table)} rows for {M} segments: give M rows"
            )
        table = table[:, : max_length + 1].copy()
        table[:, 0] = 0.0
        return LengthTerms(np.zeros(M), np.zeros(M), table, np.arange(M))


def checked_means(means: ArrayLike, of: str) -> Floats:
    """`[M]` or `[N]`, at least `LEAST_MEAN`.

    Raises:
        InputError: means that are no lengths, all of them told.
    """
    values = np.asarray(means, dtype=np.float64).reshape(-1)
    fine = np.isfinite(values) & (values >= 0)
    if not fine.all():
        raise InputError(
            f"a mean length is finite and at least 0, that of {of} {i} is {values[i]}: correct the mean"
            for i in np.flatnonzero(~fine).tolist()
        )
    return np.maximum(values, LEAST_MEAN)


def _poisson_terms(means: Floats, max_length: int) -> LengthTerms:
    shapes = -log_factorials(max_length)[None, :]
    return LengthTerms(-means, np.log(means), shapes, np.zeros(len(means), np.int64))


def log_factorials(n: int) -> Floats:
    """`[n+1]`, log(0!), log(1!), ..., log(n!).

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
