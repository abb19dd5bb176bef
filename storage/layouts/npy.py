"""Feature files of data sets: opened without pickle, and which of their axes is time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.constants import DTYPES
from storage.errors import StoreError, some
from storage.layouts import Orientation

_MAGIC = b"\x93NUMPY"
_SMALL_FILE = 4096


@dataclass(frozen=True, slots=True)
class Header:
    """What a feature file says of its array.

    Attributes:
        shape: as it stands in the file.
        dtype: in this machine's byte order.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def oriented(self, orientation: Orientation) -> tuple[int, ...]:
        """The shape as `[T D]`."""
        return self.shape[::-1] if orientation == "DxT" and len(self.shape) == 2 else self.shape


def read_header(path: Path) -> Header:
    """Shape and dtype of a feature file, whose size is checked.

    Raises:
        StoreError: as `open_npy`.
    """
    array = open_npy(path)
    return Header(array.shape, array.dtype.newbyteorder("="))


def widest_dtype(headers: Mapping[str, Header]) -> str:
    """The dtype that keeps all values of a data set as they are.

    Raises:
        StoreError: no such dtype: integers, say, whose dtype in the store must be chosen.
    """
    kinds: dict[str, str] = {}
    for video, header in headers.items():
        kinds.setdefault(header.dtype.name, video)
    wrong = [f"{name} ({video})" for name, video in kinds.items() if name not in DTYPES]
    if wrong:
        raise StoreError(
            f"a store's dtype is one of {', '.join(DTYPES)}, the data set has {some(wrong)}: choose one (--dtype)"
        )
    return max(kinds, key=DTYPES.index) if kinds else DTYPES[0]


def open_npy(path: Path) -> NDArray[Any]:
    """The array in a `.npy` file, mapped and read-only.

    Raises:
        StoreError: no `.npy` file, one of Python objects, or one that is cut short.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(len(_MAGIC))
        if begin != _MAGIC:
            raise StoreError(
                f"features are .npy files, {path} begins with {begin!r}: save it with numpy.save (pickles are not read)"
            )
        array = _loaded(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror or error}): see to it") from error
    except (ValueError, EOFError) as error:
        if "object" in str(error).lower():
            raise StoreError(
                f"features are numbers, {path} holds Python objects, which are never unpickled: save it as an array of "
                "numbers"
            ) from error
        raise StoreError(
            f"features are whole .npy files, {path} is damaged or cut short ({error}): copy it again"
        ) from error
    return array


def _loaded(path: Path) -> NDArray[Any]:
    if path.stat().st_size < _SMALL_FILE:  # an array of no values cannot be mapped
        return np.asarray(np.load(path, allow_pickle=False))
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def orientation_of(shapes: Mapping[str, tuple[int, ...]], n_labels: Mapping[str, int]) -> Orientation:
    """Which axis is time in the files of a data set, all alike.

    D is the same in all files, so the axis on which most files agree is D; where that does not tell (one file, equal T
    everywhere), the axis nearest to the number of labels is T.

    Args:
        shapes: of the two-dimensional arrays, by clip.
        n_labels: frames with labels, by clip, where they are known.

    Raises:
        StoreError: it cannot be told: square arrays, or as many files of one kind as of the other.
    """
    commonest = [Counter(shape[axis] for shape in shapes.values()).most_common(1)[0][1] for axis in (0, 1)]
    if commonest[0] != commonest[1]:
        return "TxD" if commonest[1] > commonest[0] else "DxT"
    votes: Counter[Orientation] = Counter()
    for video, shape in shapes.items():
        if video in n_labels:
            away = [abs(size - n_labels[video]) for size in shape]
            if away[0] != away[1]:
                votes["TxD" if away[0] < away[1] else "DxT"] += 1
    if votes["TxD"] == votes["DxT"]:
        examples = some((f"{video} {list(shape)}" for video, shape in shapes.items()), 3)
        raise StoreError(
            f"features are [T D] or [D T], here either could be ({examples}): say which (--orientation TxD or DxT)"
        )
    return max(votes, key=lambda kind: votes[kind])


def dim_problems(shapes: Mapping[str, tuple[int, ...]], orientation: Orientation) -> dict[str, str]:
    """A line for each file whose D is not that of most files."""
    axis = 1 if orientation == "TxD" else 0
    counts = Counter(shape[axis] for shape in shapes.values())
    if len(counts) < 2:
        return {}
    dim = counts.most_common(1)[0][0]
    form = f"[T {dim}]" if orientation == "TxD" else f"[{dim} T]"
    return {
        video: f"the features of a data set are alike, {video} has shape {list(shape)} where most have {form}"
        + ("; it looks transposed" if shape[1 - axis] == dim else "")
        + ": make it like the others"
        for video, shape in shapes.items()
        if shape[axis] != dim
    }
