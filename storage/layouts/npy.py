"""Feature files of datasets: reading without pickle, and inference of the time axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.constants import DTYPES
from storage.errors import Problem, StoreError, some
from storage.layouts import Orientation

_MAGIC = b"\x93NUMPY"
_SMALL_FILE = 4096


@dataclass(frozen=True, slots=True)
class Header:
    """Shape and dtype of the array in a feature file.

    Attributes:
        shape: shape in the file.
        dtype: dtype in native byte order.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def oriented(self, orientation: Orientation) -> tuple[int, ...]:
        """Returns the shape as `[T D]`."""
        return self.shape[::-1] if orientation == "DxT" and len(self.shape) == 2 else self.shape


def read_header(path: Path) -> Header:
    """Reads shape and dtype of a feature file and checks its size.

    Raises:
        StoreError: see `open_npy`.
    """
    array = open_npy(path)
    return Header(array.shape, array.dtype.newbyteorder("="))


def widest_dtype(headers: Mapping[str, Header]) -> str:
    """Returns the narrowest store dtype that represents all values of a dataset exactly.

    Raises:
        StoreError: other dtypes than those of stores, such as integers; the user must choose one.
    """
    kinds: dict[str, str] = {}
    for video, header in headers.items():
        kinds.setdefault(header.dtype.name, video)
    problems = [
        Problem(
            rule="unsupported",
            place=video,
            value=name,
            message=f"dtype {name} must be converted",
            hint=f"choose --dtype {', '.join(DTYPES[:-1])} or {DTYPES[-1]}",
        )
        for name, video in kinds.items()
        if name not in DTYPES
    ]
    if problems:
        raise StoreError(problems)
    return max(kinds, key=DTYPES.index) if kinds else DTYPES[0]


def open_npy(path: Path) -> NDArray[Any]:
    """Opens the array in a `.npy` file, mapped and read-only.

    Raises:
        StoreError: the file cannot be read, is not a `.npy` file, contains Python objects, or is truncated.
    """
    place = str(path)
    try:
        with path.open("rb") as file:
            begin = file.read(len(_MAGIC))
        array = _loaded(path) if begin == _MAGIC else None
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot read the file ({reason})"
        raise StoreError(Problem(rule="unreadable", place=place, value=reason, message=message)) from error
    except (ValueError, EOFError) as error:
        if "object" in str(error).lower():
            message = "contains Python objects, which are never unpickled"
            hint = "save it as an array of numbers"
            raise StoreError(Problem(rule="type", place=place, value="object", message=message, hint=hint)) from error
        message = f"damaged or truncated ({error})"
        raise StoreError(Problem(rule="unreadable", place=place, message=message, hint="copy it again")) from error
    if array is None:
        message = f"not a .npy file (begins with {begin!r})"
        hint = "save it with numpy.save; pickles are not read"
        raise StoreError(Problem(rule="type", place=place, value=begin, message=message, hint=hint))
    return array


def _loaded(path: Path) -> NDArray[Any]:
    if path.stat().st_size < _SMALL_FILE:  # an empty array cannot be mapped
        return np.asarray(np.load(path, allow_pickle=False))
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def orientation_of(shapes: Mapping[str, tuple[int, ...]], n_labels: Mapping[str, int]) -> Orientation:
    """Infers the time axis of the files of a dataset, which is the same in all files.

    D is the same in all files, so the axis on which most files agree is D. If that does not decide (a single file, or
    the same T in all files), the axis closest to the number of labels is T.

    Args:
        shapes: shapes of the two-dimensional arrays by clip.
        n_labels: number of labels by clip, if known.

    Raises:
        StoreError: ambiguous shapes: square arrays, or equally many files of both orientations.
    """
    agreeing = [Counter(shape[axis] for shape in shapes.values()).most_common(1)[0][1] for axis in (0, 1)]
    if agreeing[0] != agreeing[1]:
        return "TxD" if agreeing[1] > agreeing[0] else "DxT"
    votes: Counter[Orientation] = Counter()
    for video, shape in shapes.items():
        if video in n_labels:
            distance = [abs(size - n_labels[video]) for size in shape]
            if distance[0] != distance[1]:
                votes["TxD" if distance[0] < distance[1] else "DxT"] += 1
    if votes["TxD"] == votes["DxT"]:
        examples = some((f"{video} {list(shape)}" for video, shape in shapes.items()), 3)
        raise StoreError(
            Problem(
                rule="missing",
                place="--orientation",
                message=f"cannot infer whether features are [T, D] or [D, T] ({examples})",
                hint="choose --orientation TxD or DxT",
            )
        )
    return max(votes, key=lambda kind: votes[kind])


def dim_problems(shapes: Mapping[str, tuple[int, ...]], orientation: Orientation) -> dict[str, Problem]:
    """Reports each file whose D differs from that of most files, by clip."""
    axis = 1 if orientation == "TxD" else 0
    counts = Counter(shape[axis] for shape in shapes.values())
    if len(counts) < 2:
        return {}
    dim = counts.most_common(1)[0][0]
    form = f"[T, {dim}]" if orientation == "TxD" else f"[{dim}, T]"
    return {
        video: Problem(
            rule="shape",
            place=video,
            value=list(shape),
            expected=f"features of shape {form} as in most files",
            hint="it looks transposed" if shape[1 - axis] == dim else "",
        )
        for video, shape in shapes.items()
        if shape[axis] != dim
    }
