"""The feature contract of a model, `contract.json` in a checkpoint: what the features of a recording must be.

The contract contains the number and type of the features, the times of their frames, the actions, and statistics of the
features of training. `Contract.check` compares the features of a new recording with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.errors import InputError, Problem, counted
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary

FORMAT_VERSION = 1
FRAMES_OF_A_BLOCK = 2048
"""Frames that are converted to float64 at a time, so that long recordings need little memory."""
COMPARED_FRAMES = 256
"""About so many frames of a recording, evenly spread over it, are compared with the statistics of training."""
FARTHEST = 5.0
"""Largest typical distance of a recording from the training mean, in standard deviations of training."""
NEAREST = 0.1
"""Smallest typical distance: features that vary less have another scale."""
BEYOND = 10.0
"""A dimension is far off if it leaves the range of training by this many times the width of that range."""
SMOOTHER = 0.7
"""A square array is read along the wrong axis if its values change less than this share as much along the other one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Statistics of features, per dimension.

    Attributes:
        frames: number of frames.
        mean: `[D]`.
        std: `[D]`, of the population.
        min: `[D]`.
        max: `[D]`.
    """

    frames: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    min: tuple[float, ...]
    max: tuple[float, ...]

    @classmethod
    def of(cls, recordings: Iterable[NDArray[Any]]) -> Self:
        """The statistics of all frames of at least one recording `[T, D]`; one pass in float64."""
        n, mean, squares, low, high = 0, np.zeros(1), np.zeros(1), np.full(1, np.inf), np.full(1, -np.inf)
        for features in recordings:
            for start in range(0, len(features), FRAMES_OF_A_BLOCK):
                block = features[start : start + FRAMES_OF_A_BLOCK].astype(np.float64)
                low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
                own = block.mean(axis=0)
                block -= own
                total, difference = n + len(block), own - mean
                squares = squares + (block**2).sum(axis=0) + difference**2 * (n * len(block) / total)
                mean = mean + difference * (len(block) / total)
                n = total
        found = {"mean": mean, "std": np.sqrt(squares / n), "min": low, "max": high}
        return cls(frames=n, **{name: tuple(column.tolist()) for name, column in found.items()})

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`.

        Raises:
            KeyError, TypeError: missing entries, or entries of other types.
        """
        columns = {name: tuple(value[name]) for name in ("mean", "std", "min", "max")}
        if not all(
            isinstance(one, float | int) and math.isfinite(one) for column in columns.values() for one in column
        ):
            raise TypeError("statistics that are not finite numbers")
        return cls(**{**value, **columns})


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a model expects of the features of a recording.

    Attributes:
        dim: D, number of features per frame.
        dtype: type of the training features; other numbers are converted to float32, too.
        normalisation: what the model does with features before its first layer; `none` is the only one.
        fps: frames per second; None if unknown, as `window`, `stride` and `offset`, see `mucon.videos.Source`.
        vocabulary: the actions.
        statistics: of the training features; None for models of earlier versions and imported ones.
    """

    dim: int
    dtype: str = "float32"
    normalisation: str = "none"
    fps: float | None = None
    window: float | None = None
    stride: float | None = None
    offset: float | None = None
    vocabulary: Vocabulary
    statistics: Statistics | None = None

    @classmethod
    def of(cls, videos: Sequence[Video], vocabulary: Vocabulary, source: Source) -> Self:
        """The contract of a model that is trained on these videos; reads their features once."""
        return cls(
            dim=videos[0].dim,
            dtype=str(videos[0].read().dtype.newbyteorder("=")),
            vocabulary=vocabulary,
            statistics=Statistics.of(video.read() for video in videos),
            fps=source.fps, window=source.window, stride=source.stride, offset=source.offset,
        )  # fmt: skip

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            InputError: another format version, an unknown normalisation, or a frame rate out of range.
            KeyError, TypeError: missing entries, or entries of other types.
        """
        entries = {**value}
        version = entries.pop("format_version")
        if version != FORMAT_VERSION:
            raise InputError(
                Problem(rule="version", place="format_version", value=version, expected=str(FORMAT_VERSION))
            )
        vocabulary = Vocabulary.from_dict({name: entries.pop(name) for name in ("actions", "background")})
        found = entries.pop("statistics")
        statistics = None if found is None else Statistics.from_dict(found)
        contract = cls(vocabulary=vocabulary, statistics=statistics, **entries)
        if not isinstance(contract.dim, int) or not isinstance(contract.fps, float | int | None):
            raise TypeError("dim or fps")
        if contract.fps is not None and not 0 < contract.fps < math.inf:
            raise InputError(
                Problem(rule="range", place="fps", value=contract.fps, expected="a number above 0, or null")
            )
        if contract.normalisation != "none":
            raise InputError(
                Problem(rule="version", place="normalisation", value=contract.normalisation, expected="none")
            )
        if statistics is not None:
            columns = (statistics.mean, statistics.std, statistics.min, statistics.max)
            if any(len(column) != contract.dim for column in columns):
                raise TypeError(f"statistics of other than {contract.dim} dimensions")
        return contract

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        value = asdict(self)
        del value["vocabulary"], value["statistics"]
        statistics = None if self.statistics is None else asdict(self.statistics)
        return {"format_version": FORMAT_VERSION, **value, **self.vocabulary.to_dict(), "statistics": statistics}

    def check(self, features: ArrayLike, place: str = "recording") -> list[Problem]:
        """Compares the features of a recording with the contract.

        Args:
            features: `[T, D]`, T >= 1.
            place: names the recording in problems.

        Returns:
            Doubts about features that can be used: they are far from those of training. None if the statistics of
            training are unknown.

        Raises:
            InputError: features that cannot be used: no numbers, another shape, or values that are not finite.
        """
        return self.check_video(Video.from_arrays(place, features))

    def check_video(self, video: Video) -> list[Problem]:
        """Like `check`, for a recording whose values are known to be finite."""
        place = f"{video.id}: features"
        if video.dim != self.dim:
            hint = "the array looks transposed" if video.n_frames == self.dim else ""
            shape, expected = [video.n_frames, video.dim], f"[T, {self.dim}] with T >= 1"
            raise InputError(Problem(rule="shape", place=place, value=shape, expected=expected, hint=hint))
        if self.statistics is None:
            return []
        array = video.read()
        every = max(video.n_frames // COMPARED_FRAMES, 1)
        doubts = _doubts(Statistics.of([array[::every]]), self.statistics, place)
        if video.n_frames == self.dim and not _doubts(Statistics.of([array.T]), self.statistics, place):
            here, across = (_change(one, self.statistics) for one in (array, array.T))
            if doubts or across < SMOOTHER * here:
                message = "the array looks transposed: its columns are like the frames of training, its rows are not"
                return [Problem(rule="shape", place=place, value=list(array.shape), message=message)]
        return doubts


def _change(array: NDArray[Any], training: Statistics) -> float:
    """Root mean square difference of neighbouring rows, in standard deviations of training; 0 for a single row."""
    std = np.asarray(training.std)
    steps = np.diff(array[:, std > 0].astype(float), axis=0) / std[std > 0]
    return float(np.sqrt(np.square(steps).mean())) if steps.size else 0.0


def _doubts(own: Statistics, training: Statistics, place: str) -> list[Problem]:
    """What is far off in the features of a recording.

    The distance of a dimension is the root mean square of its values' distances from the training mean, in standard
    deviations of training: 1 for the training features themselves. Dimensions without variation in training have none.
    """
    mean, std, low, high = (np.asarray(one) for one in (training.mean, training.std, training.min, training.max))
    varying = std > 0
    problems = []
    if varying.any():
        spread = np.asarray(own.std)[varying] ** 2 + (np.asarray(own.mean) - mean)[varying] ** 2
        distance = float(np.median(np.sqrt(spread) / std[varying]))
        if not NEAREST <= distance <= FARTHEST:
            message = (
                f"the values are typically {distance:.4g} standard deviations from the mean of the training features, "
                f"expected about 1"
            )
            hint = "check that they were computed and scaled like the training features"
            return [Problem(rule="range", place=place, value=round(distance, 3), message=message, hint=hint)]
    width = np.maximum(high - low, 1e-3 * np.maximum(np.abs(low), np.abs(high)))
    beyond = (np.asarray(own.max) > high + BEYOND * width) | (np.asarray(own.min) < low - BEYOND * width)
    if beyond.any():
        first = int(np.flatnonzero(beyond)[0])
        message = (
            f"{counted(int(beyond.sum()), 'dimension')} far outside the range of training, first dimension {first}"
        )
        hint = "check the units and the order of the features"
        problems.append(Problem(rule="range", place=place, value=int(beyond.sum()), message=message, hint=hint))
    return problems
