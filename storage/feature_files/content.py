"""What the kinds of feature files share: their headers, the choice of an array, and their problems."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from storage.constants import MAX_CLIP_BYTES
from storage.errors import Problem, StoreError, nearest, some
from storage.layouts import Orientation

NPY, ZIP, HDF5, MATLAB, MATLAB_73 = b"\x93NUMPY", b"PK\x03\x04", b"\x89HDF\r\n\x1a\n", b"MATLAB", b"MATLAB 7.3"
OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""First bytes of the kinds of feature files that have some."""
_KINDS = (
    (NPY, "a NumPy array", "give it the suffix .npy"),
    (HDF5, "an HDF5 file", "give it the suffix .h5"),
    (MATLAB, "a MATLAB file", "give it the suffix .mat"),
    (b"version https://git-lfs", "a pointer of Git LFS", "fetch the file itself with `git lfs pull`"),
    (b"/annex/", "a pointer of git-annex", "fetch the file itself with `git annex get`"),
    (b"PAR1", "a Parquet file", "save each recording in it with numpy.save"),
    (b"\x1f\x8b", "a gzip file", "unpack it"),
    (OLD_TORCH, "a PyTorch file in the format before 1.6", "save it again with torch.save of a newer PyTorch"),
    (b"\x80", "a pickle", "save the array with numpy.save; pickles are not read"),
    (b"<", "a web page", "download the file itself"),
    (bytes(8), "zero bytes", "copy it again"),
)
"""First bytes of files that are saved or downloaded under another suffix: what they are, what to do."""
_MOST_NAMES = 20


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


@contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Reports every error while a file is read as a problem of the file.

    Raises:
        StoreError: the file cannot be opened, or it is damaged.
    """
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        if error.errno is None:  # HDF5 has no number for a damaged file
            raise StoreError(_damaged(path, error)) from error
        reason = error.strerror or str(error)
        message = f"cannot read the file ({reason})"
        raise StoreError(Problem(rule="unreadable", place=str(path), value=reason, message=message)) from error
    except Exception as error:  # parsers raise errors of any class for damaged files
        raise StoreError(_damaged(path, error)) from error


def _damaged(path: Path, error: Exception) -> Problem:
    reason = str(error) or type(error).__name__
    message = f"damaged or truncated ({reason})"
    return Problem(rule="unreadable", place=str(path), message=message, hint="copy it again")


def check_begin(path: Path, *begins: bytes) -> bytes:
    """Returns the first 64 bytes of a file.

    Args:
        path: the file.
        begins: first bytes of its kind; none if it is text.

    Raises:
        StoreError: the file cannot be read, or its first bytes are those of another kind.
    """
    with parsing(path), path.open("rb") as file:
        begin = file.read(64)
    if (begins and not begin.startswith(begins)) or (not begins and _is_binary(begin)):
        raise StoreError(other_kind(path, begin))
    return begin


def _is_binary(begin: bytes) -> bool:
    return begin.startswith((ZIP, *(first for first, _, _ in _KINDS)))


def other_kind(path: Path, begin: bytes) -> Problem:
    """Returns the problem of a file of another kind than its suffix says.

    Args:
        path: the file.
        begin: its first bytes, which show the kind.
    """
    value, suffix = begin[: len(NPY)], path.suffix.lower()
    kind, hint = f"not a {suffix} file, begins with {value!r}", "save the array with numpy.save"
    if begin.startswith(ZIP):
        kind, hint = f"a zip archive, not a {suffix} file", _zip_hint(path)
    elif found := next((row for row in _KINDS if begin.startswith(row[0])), None):
        kind, hint = f"{found[1]}, not a {suffix} file", found[2]
    elif begin and all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in begin):
        kind = f"a text file, not a {suffix} file"
        hint = "give it the suffix .csv if each line has the numbers of one frame"
    elif not begin:
        kind, hint = "empty file", "copy it again"
    return Problem(rule="type", place=str(path), value=value, message=kind, hint=hint)


def _zip_hint(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        names = []
    if any(name.endswith("/data.pkl") for name in names):
        return "give it the suffix .pt"
    if any(name.endswith(".npy") for name in names):
        return "give it the suffix .npz"
    return "save each array in it with numpy.save"


def chosen(path: Path, names: Sequence[str], key: str | None) -> str:
    """Returns the name of the array to read in a file with named arrays.

    Args:
        path: the file.
        names: its arrays.
        key: name that the user chose; None if the file must contain one array.

    Raises:
        StoreError: no array, several without a choice, or no array with the chosen name.
    """
    if key is None and len(names) == 1:
        return names[0]
    if key in names and key is not None:
        return key
    listed = f"({some(sorted(names), _MOST_NAMES)})"
    if not names:
        message, hint = (
            "no array of numbers",
            "cells, structures, nested dicts and links are not read: save the array alone",
        )
        problem = Problem(rule="missing", place=str(path), message=message, hint=hint)
    elif key is None:
        message, hint = f"{len(names)} arrays {listed}", "choose one with --key NAME"
        problem = Problem(rule="missing", place=str(path), value=list(names), message=message, hint=hint)
    else:
        message = f"unknown array {key!r}{nearest(key, names)} {listed}"
        problem = Problem(rule="unknown", place=str(path), value=key, message=message, hint="correct --key")
    raise StoreError(problem)


def checked(path: Path, header: Header) -> Header:
    """Returns the header of an array that is to be unpacked into memory.

    Raises:
        StoreError: an array of something else than real numbers, or a larger one than a clip may be.
    """
    if header.dtype.kind not in "biuf":
        value, expected = str(header.dtype), "an array of real numbers"
        hint = "save it as an array of real numbers; Python objects are never unpickled"
        raise StoreError(Problem(rule="type", place=str(path), value=value, expected=expected, hint=hint))
    size = math.prod(header.shape) * header.dtype.itemsize
    if size > MAX_CLIP_BYTES:
        message = f"an array of {size} bytes, at most {MAX_CLIP_BYTES} are unpacked"
        hint = "split the recording or save it with numpy.save"
        raise StoreError(Problem(rule="range", place=str(path), value=size, message=message, hint=hint))
    return header
