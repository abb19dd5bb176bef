"""Statistics of the features of each split part, and dimensions that say nothing or the same as others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import Problem, counted, some
from storage.inspection.shifts import Shift, shift_of
from storage.inspection.sums import BLOCKS, Sums

if TYPE_CHECKING:
    from storage.reader import Store

Floats = NDArray[np.float64]

CHUNK_VALUES = 2**19
"""Values that are converted to float64 together."""
MOST_BYTES = 2**28
"""Memory for the sums of all split parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Statistics of all values of a split part.

    Attributes:
        mean: over frames and dimensions.
        std: population standard deviation, likewise.
        zeros: share of the values that are zero.
        norm: mean Euclidean norm of a frame.
    """

    mean: float
    std: float
    zeros: float
    norm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureFacts:
    """What reading all features shows.

    Attributes:
        values: by split part, such as `1:train`; `all` without splits.
        constant: dimensions that have one value in all frames of the store.
        duplicated: dimensions that are equal in all frames of the store, at least two each; without the constant ones.
        shifts: comparison with the training part of the same split, by split part; parts that cannot be compared, see
            `shift_of`, are left out.
    """

    values: dict[str, Values]
    constant: tuple[int, ...]
    duplicated: tuple[tuple[int, ...], ...]
    shifts: dict[str, Shift]

    def warnings(self) -> list[Problem]:
        """Returns what is suspicious about the features."""
        found = []
        if self.constant:
            message = f"{counted(len(self.constant), 'dimension')} with one value in all frames: {some(self.constant)}"
            hint = "remove them from the files before the import; models learn nothing from them"
            found.append(Problem(rule="range", place="features", value=self.constant, message=message, hint=hint))
        if self.duplicated:
            pairs = some((" = ".join(map(str, same)) for same in self.duplicated), 3)
            message = f"equal dimensions: {pairs}"
            hint = "keep one of each; equal dimensions count several times"
            found.append(Problem(rule="duplicate", place="features", value=self.duplicated, message=message, hint=hint))
        for part, shift in self.shifts.items():
            split, _, name = part.partition(":")
            found += shift.warnings(f"split {split}, {name}")
        return found


def feature_facts(store: Store, progress: Callable[[str, int, int], None] | None = None) -> FeatureFacts:
    """Reads all features once, a few MiB at a time.

    Args:
        store: an open store.
        progress: receives what is done, the number of clips that are read, and the number of all clips.

    Raises:
        StoreError: a damaged file.
    """
    dim, records = store.manifest.dim, store.catalogue
    n_blocks = max(min(BLOCKS, MOST_BYTES // (max(len(store.parts), 1) * dim * 16)), 8)
    units = [id if group is None else group for id, group in zip(store.ids, records.column("group"), strict=True)]
    numbers = {unit: number for number, unit in enumerate(sorted(set(units)))}
    parts = {part: Sums(dim, n_blocks if part.endswith(":train") else 1) for part in store.parts} or {
        "all": Sums(dim, 1)
    }
    lowest, highest = np.full(dim, np.inf), np.full(dim, -np.inf)
    equal = [np.arange(dim)]
    splits = records.column("splits")
    for done, row in enumerate(np.lexsort((records.shard_row, records.shard)).tolist(), 1):
        of_clip = Sums(dim, 1)
        for stored in _chunks(store, store.ids[row], int(records.frames[row])):
            values = stored.astype(np.float64)
            of_clip.add_frames(values)
            np.minimum(lowest, values.min(axis=0), out=lowest)
            np.maximum(highest, values.max(axis=0), out=highest)
            equal = [same for group in equal for same in _equal_columns(values, group)]
        for part in splits[row] if store.parts else ("all",):
            parts[part].add_clip(of_clip, units[row], numbers[units[row]])
        if progress is not None:
            progress("reading the features of video", done, len(store))
    constant = np.flatnonzero(lowest == highest)
    return FeatureFacts(
        values={part: _values(sums, dim) for part, sums in parts.items()},
        constant=tuple(map(int, constant)),
        duplicated=tuple(tuple(map(int, group)) for group in equal if group[0] not in constant),
        shifts={
            part: shift
            for part, sums in parts.items()
            if (training := parts.get(f"{part.split(':')[0]}:train")) is not None and training is not sums
            if (shift := shift_of(training, sums)) is not None
        },
    )


def _chunks(store: Store, video: str, frames: int) -> Iterator[NDArray[Any]]:
    step = max(CHUNK_VALUES // store.manifest.dim, 1)
    for start in range(0, frames, step):
        yield store.features(video, start, min(start + step, frames))


def _equal_columns(values: Floats, group: NDArray[Any]) -> list[NDArray[Any]]:
    """Returns the subsets, of at least two, of a group of columns that are equal in these rows.

    >>> [same.tolist() for same in _equal_columns(np.array([[1.0, 2, 1, 3], [0, 5, -0.0, 3]]), np.arange(4))]
    [[0, 2]]
    """
    columns = values[:, group]
    if (columns == columns[:, :1]).all():
        return [group] if len(group) > 1 else []
    same: dict[bytes, list[int]] = {}
    for column, content in zip(group.tolist(), np.ascontiguousarray(columns.T) + 0.0, strict=True):
        same.setdefault(content.tobytes(), []).append(column)
    return [np.array(equal) for equal in same.values() if len(equal) > 1]


def _values(sums: Sums, dim: int) -> Values:
    frames, total, squares = sums.total()
    n = frames * dim
    mean = float(total.sum()) / n
    return Values(
        mean=mean,
        std=max(float(squares.sum()) / n - mean**2, 0.0) ** 0.5,
        zeros=sums.zeros / n,
        norm=sums.norms / frames,
    )


def feature_rows(facts: FeatureFacts) -> list[tuple[str, str]]:
    """Formats the statistics of the parts as rows of the overview."""
    return [
        (
            f"values {part}",
            f"mean {one.mean:.3g}, std {one.std:.3g}, {100 * one.zeros:.1f} % zeros, norm of a frame {one.norm:.3g}",
        )
        for part, one in facts.values.items()
    ]
