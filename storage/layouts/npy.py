"""Feature files of datasets: reading without pickle, and inference of the time axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.constants import DTYPES
from storage.errors import Problem, StoreError, some
from storage.layouts import ORIENTATIONS, Orientation
from storage.layouts.rates import common_rates

_MAGIC = b"\x93NUMPY"
_SMALL_FILE = 4096
_OTHER_FILES = (
    (b"PK\x03\x04", "a zip archive, such as .npz or .pt", "save each array in it with numpy.save"),
    (b"version https://git-lfs", "a pointer of Git LFS", "fetch the file itself with `git lfs pull`"),
    (b"/annex/", "a pointer of git-annex", "fetch the file itself with `git annex get`"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "save each array in it with numpy.save, h5py reads it"),
    (b"MATLAB", "a MATLAB file", "save each array in it with numpy.save, scipy.io.loadmat or h5py reads it"),
    (b"PAR1", "a Parquet file", "save each recording in it with numpy.save"),
    (b"\x1f\x8b", "a gzip file", "unpack it"),
    (b"\x80", "a pickle", "save the array with numpy.save; pickles are not read"),
    (b"<", "a web page", "download the file itself"),
    (bytes(8), "zero bytes", "copy it again"),
)
"""First bytes of files that are saved or downloaded under the name of a `.npy` file: what they are, what to do."""


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

    Dtypes that are not real numbers of at most 64 bits are left to `shape_problems`.

    Raises:
        StoreError: integers or booleans; the user must choose a dtype.
    """
    kinds: dict[str, str] = {}
    for video, header in headers.items():
        if header.dtype.kind in "fiub" and header.dtype.itemsize <= 8:
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
            begin = file.read(64)
        array = _loaded(path) if begin.startswith(_MAGIC) else None
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
        raise StoreError(_other_file(begin, place))
    return array


def _other_file(begin: bytes, place: str) -> Problem:
    """Names the kind of a file that is not a `.npy` file by its first bytes."""
    value = begin[: len(_MAGIC)]
    for first, kind, hint in _OTHER_FILES:
        if begin.startswith(first):
            return Problem(rule="type", place=place, value=value, message=f"{kind}, not a .npy file", hint=hint)
    is_text = begin and all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in begin)
    kind, hint = f"not a .npy file, begins with {value!r}", "save the array with numpy.save"
    if is_text:
        kind, hint = "a text file, not a .npy file", "read it with numpy.loadtxt and save it with numpy.save"
    elif not begin:
        kind, hint = "empty file", "copy it again"
    return Problem(rule="type", place=place, value=value, message=kind, hint=hint)


def _loaded(path: Path) -> NDArray[Any]:
    if path.stat().st_size < _SMALL_FILE:  # an empty array cannot be mapped
        return np.asarray(np.load(path, allow_pickle=False))
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def orientation_of(shapes: Mapping[str, tuple[int, ...]], n_labels: Mapping[str, int]) -> Orientation:
    """Infers the time axis of the files of a dataset, which is the same in all files.

    D is the same in all files and T is not, so the axis on which most files agree is D. If many files agree on both
    axes, such as clips of one length or a single file, the axis with as many frames as labels in every file is T,
    unless the other axis could be frames at another rate than the labels.

    Args:
        shapes: shapes of the two-dimensional arrays by clip.
        n_labels: number of labels of the clips with frame labels.

    Raises:
        StoreError: ambiguous shapes.
    """
    labelled = [(shape, n_labels[video]) for video, shape in shapes.items() if video in n_labels]
    rates = [common_rates([(shape[axis], n) for shape, n in labelled]) for axis in (0, 1)]
    agreeing = [Counter(shape[axis] for shape in shapes.values()).most_common(1)[0][1] for axis in (0, 1)]
    for time, orientation in enumerate(ORIENTATIONS):
        if Fraction(1) in rates[time] and not rates[1 - time]:
            return orientation
    for time, orientation in enumerate(ORIENTATIONS):
        contradicted = len(labelled) > 1 and rates[1 - time] and not rates[time]
        constant = agreeing[1 - time] == len(shapes) and len({shape[time] for shape in shapes.values()}) > 2
        most = 2 * agreeing[1 - time] >= len(shapes) and 2 * agreeing[time] <= agreeing[1 - time]
        if (constant or most) and not contradicted:
            return orientation
    examples = some((f"{video} {list(shape)}" for video, shape in shapes.items()), 3)
    raise StoreError(
        Problem(
            rule="missing",
            place="--orientation",
            message=f"cannot infer whether features are [T, D] or [D, T] ({examples})",
            hint="choose --orientation TxD or DxT",
        )
    )


def dim_problems(
    shapes: Mapping[str, tuple[int, ...]], paths: Mapping[str, Path], orientation: Orientation
) -> dict[str, Problem]:
    """Reports each file whose D differs from that of most files, by clip.

    Args:
        shapes: shapes of the two-dimensional arrays by clip.
        paths: their files.
        orientation: orientation of the files.
    """
    axis = 1 if orientation == "TxD" else 0
    counts = Counter(shape[axis] for shape in shapes.values())
    if len(counts) < 2:
        return {}
    dim, n_files = counts.most_common(1)[0]
    which = "most" if 2 * n_files > len(shapes) else "other"
    form = f"[T, {dim}]" if orientation == "TxD" else f"[{dim}, T]"
    return {
        video: Problem(
            rule="shape",
            place=str(paths[video]),
            value=list(shape),
            message=f"{video} has shape {list(shape)} where {which} files have {form}",
            hint="it looks transposed" if shape[1 - axis] == dim else "",
        )
        for video, shape in shapes.items()
        if shape[axis] != dim
    }
