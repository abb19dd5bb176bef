"""Feature arrays: conversion to the dtype of a store, checks and statistics."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import Problem, StoreError, some
from storage.format.schema import little_endian

Array = NDArray[Any]
_BLOCK_VALUES = 2**18


@dataclass(frozen=True, slots=True)
class Conversion:
    """Rounding errors of a conversion to a narrower dtype.

    Attributes:
        relative: largest |converted - value| / |value| over the values whose magnitude is at least the smallest normal
            number of the dtype (6.1e-5 for float16).
        absolute_below: largest |converted - value| over the smaller values.
    """

    relative: float = 0.0
    absolute_below: float = 0.0

    def merged(self, other: Conversion) -> Conversion:
        """Returns the larger of both errors."""
        return Conversion(max(self.relative, other.relative), max(self.absolute_below, other.absolute_below))

    def line(self, dtype: str) -> str:
        """Returns a sentence about the errors.

        Args:
            dtype: dtype of the store.
        """
        return (
            f"converted to {dtype}: largest relative error {self.relative:.3g}; largest absolute error of values below "
            f"the normal range {self.absolute_below:.3g}"
        )


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a clip over all its values, in float64.

    Attributes:
        first_active: first frame with a nonzero value, None if all values are zero.
        last_active: last such frame.
        minimum: smallest value.
        maximum: largest value.
        mean: arithmetic mean.
        std: population standard deviation (divisor: number of values).
    """

    first_active: int | None
    last_active: int | None
    minimum: float
    maximum: float
    mean: float
    std: float


def blocks(features: Array) -> Iterator[tuple[int, Array]]:
    """Yields `(first_row, rows)` of `[T D]` in blocks of about 260,000 values, to limit the memory for large clips."""
    step = max(1, _BLOCK_VALUES // max(1, features.shape[1]))
    for first in range(0, len(features), step):
        yield first, features[first : first + step]


def value_problems(features: Array, dtype: str, video: str) -> list[Problem]:
    """Reports rows with NaN or infinite values, and rows with values that `dtype` or float32 cannot represent.

    Models compute in float32, so larger values of a float64 store would be infinite there.

    Args:
        features: `[T D]`, any real dtype.
        dtype: target dtype.
        video: name of the clip in the problems.
    """
    not_finite: list[int] = []
    too_large: list[int] = []
    largest = 0.0
    used, limit = _used(dtype), _limit(dtype)
    narrower = features.dtype.kind == "f" and features.dtype.itemsize > used.itemsize
    check_range = narrower or (features.dtype.kind in "iu" and float(np.iinfo(features.dtype).max) > limit)
    for first, rows in blocks(features):
        finite = np.isfinite(rows).all(axis=1)
        not_finite.extend((first + np.flatnonzero(~finite)).tolist())
        if check_range:
            magnitude = np.abs(rows[finite].astype(np.float64)).max(axis=1, initial=0.0)
            over = magnitude > limit
            if over.any():
                too_large.extend((first + np.flatnonzero(finite)[over]).tolist())
                largest = max(largest, float(magnitude.max()))
    problems = []
    if not_finite:
        problems.append(
            Problem(
                rule="range",
                place=f"{video}, {rows_text(not_finite)}",
                value=len(not_finite),
                message=f"NaN or infinite values in {len(not_finite)} of {len(features)} rows",
                hint="repair or remove the video",
            )
        )
    if too_large:
        problems.append(
            Problem(
                rule="range",
                place=f"{video}, {rows_text(too_large)}",
                value=largest,
                message=f"magnitudes up to {largest:g} in {len(too_large)} of {len(features)} rows, "
                f"{used} can represent at most {limit:g}",
                hint=f"scale the features{' or choose a wider dtype' if dtype == 'float16' else ''}",
            )
        )
    return problems


def _used(dtype: str) -> np.dtype[Any]:
    return np.dtype("float16" if dtype == "float16" else "float32")


def _limit(dtype: str) -> float:
    """Returns the largest value that a store of a dtype may contain."""
    return float(np.finfo(_used(dtype)).max)


def rows_text(rows: list[int]) -> str:
    """Formats sorted row numbers as ranges.

    >>> rows_text([3, 4, 5, 9])
    'rows 3-5, 9'
    """
    numbers = np.asarray(rows)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(numbers) != 1) + 1))
    stops = np.append(starts[1:], len(numbers)) - 1
    spans = [f"{numbers[a]}" if a == b else f"{numbers[a]}-{numbers[b]}" for a, b in zip(starts, stops, strict=True)]
    return ("rows " if len(rows) > 1 else "row ") + some(spans)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Features of a clip as a store contains them.

    Attributes:
        data: `[T D]`, C-ordered and little-endian.
        conversion: rounding errors.
        sha256: hexadecimal checksum of the bytes of `data`.
        statistics: statistics of `data`.
    """

    data: Array
    conversion: Conversion
    sha256: str
    statistics: Statistics


def prepared(features: Array, dtype: str, video: str) -> Prepared:
    """Checks and converts the features of a clip, in one pass over blocks that stay in the processor's caches.

    Args:
        features: `[T D]`, T and D at least 1, any real dtype, byte order and memory order.
        dtype: target dtype.
        video: name of the clip in the problems.

    Returns:
        The clip; its data are `features` themselves if these need no conversion.

    Raises:
        StoreError: values that are not finite or that `dtype` or float32 cannot represent, see `value_problems`.
    """
    limit = _limit(dtype)
    kept = features.dtype == little_endian(dtype) and features.flags.c_contiguous
    data = features if kept else np.empty(features.shape, little_endian(dtype))
    safe = np.can_cast(features.dtype, data.dtype, casting="safe")
    rounding = None if safe else _Rounding(features.dtype, data.dtype)
    digest, sums = hashlib.sha256(), _Sums()
    for first, rows in blocks(features):
        if not (-limit <= float(rows.min()) and float(rows.max()) <= limit):  # also if one is NaN
            raise StoreError(value_problems(features, dtype, video))
        stored = data[first : first + len(rows)]
        if rounding is not None:
            sums.add(first, rounding.convert(rows, stored))
        else:
            if not kept:
                stored[...] = rows
            sums.add(first, stored)
        digest.update(stored.data)
    change = Conversion() if rounding is None else rounding.conversion
    return Prepared(data, change, digest.hexdigest(), sums.statistics())


class _Rounding:
    """Converts the blocks of a clip to a narrower dtype, and collects the rounding errors.

    Differences of float16 and float32 are exact in float32, and relative errors have its precision.

    Args:
        dtype: dtype of the values.
        stored: target dtype.
    """

    def __init__(self, dtype: np.dtype[Any], stored: np.dtype[Any]) -> None:
        self._wide = np.result_type(dtype, np.float32)
        self._smallest = np.finfo(stored).smallest_normal
        self._scratch = _Scratch(self._wide, 3)
        self.conversion = Conversion()

    def convert(self, rows: Array, stored: Array) -> Array:
        """Writes rows into an array of the target dtype; returns the rounded values in the wider dtype."""
        values = rows.astype(self._wide, copy=False)
        stored[...] = values
        rounded, error, magnitude = self._scratch.like(rows)
        rounded[...] = stored
        np.abs(np.subtract(rounded, values, out=error), out=error)
        np.abs(values, out=magnitude)
        below = magnitude < self._smallest
        absolute = float(error.max(where=below, initial=0.0))
        error[below] = 0.0
        relative = np.divide(error, magnitude, out=error, where=~below).max(initial=0.0)
        self.conversion = self.conversion.merged(Conversion(float(relative), absolute))
        return rounded


class _Scratch:
    """Arrays for the results of one block after the other: large arrays are slow to allocate."""

    def __init__(self, dtype: np.dtype[Any], number: int) -> None:
        self._dtype = dtype
        self._arrays: list[Array] = []
        self._number = number

    def like(self, rows: Array) -> list[Array]:
        """Returns arrays of the shape of a block; the first block of a clip is the largest."""
        if not self._arrays:
            self._arrays = [np.empty(rows.shape, self._dtype) for _ in range(self._number)]
        return [array[: len(rows)] for array in self._arrays]


def statistics(features: Array) -> Statistics:
    """Computes the statistics of a clip `[T D]` with at least one frame.

    >>> statistics(np.array([[0.0, 0.0], [1.0, 3.0], [0.0, -4.0], [0.0, 0.0]]))
    Statistics(first_active=1, last_active=2, minimum=-4.0, maximum=3.0, mean=0.0, std=1.8027756377319946)
    """
    sums = _Sums()
    for first, rows in blocks(features):
        sums.add(first, rows)
    return sums.statistics()


class _Sums:
    """Combines the blocks of a clip to its statistics.

    Source: Chan, Golub and LeVeque (1983) for combining mean and squares of blocks.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._last: int | None = None
        self._low, self._high = np.inf, -np.inf
        self._n, self._mean, self._squares = 0, 0.0, 0.0
        self._scratch = _Scratch(np.dtype(np.float64), 1)

    def add(self, first: int, rows: Array) -> None:
        """Adds the rows from `first`."""
        [wide] = self._scratch.like(rows)
        wide[...] = rows
        self._note_active(first, rows)
        self._low, self._high = min(self._low, float(wide.min())), max(self._high, float(wide.max()))
        block_mean = float(wide.mean())
        shift = block_mean - self._mean
        wide -= block_mean
        self._n += wide.size
        self._mean += shift * wide.size / self._n
        squares = float(np.square(wide, out=wide).sum())
        self._squares += squares + shift**2 * wide.size * (self._n - wide.size) / self._n

    def _note_active(self, first: int, rows: Array) -> None:
        if self._first is not None and rows[-1].any():
            self._last = first + len(rows) - 1
            return
        nonzero = np.flatnonzero(rows.any(axis=1))
        if len(nonzero):
            self._first = first + int(nonzero[0]) if self._first is None else self._first
            self._last = first + int(nonzero[-1])

    def statistics(self) -> Statistics:
        """Returns the statistics of all rows added."""
        return Statistics(
            first_active=self._first,
            last_active=self._last,
            minimum=self._low,
            maximum=self._high,
            mean=self._mean,
            std=float(np.sqrt(self._squares / self._n)),
        )
