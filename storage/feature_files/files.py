"""Opens feature files of all kinds by their suffix."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from storage.errors import Problem, StoreError
from storage.feature_files import PICKLES, SUFFIXES, csv, hdf5, mat, npy, npz, pt
from storage.feature_files.content import Header


class Kind(Protocol):
    """Module of a kind of files."""

    def header(self, path: Path, key: str | None) -> Header:
        """Returns shape and dtype of the array in a file."""
        ...

    def array(self, path: Path, key: str | None) -> NDArray[Any]:
        """Returns the array in a file."""
        ...


_KINDS: dict[str, Kind] = dict(zip(SUFFIXES, (npy, npz, pt, pt, csv, hdf5, hdf5, mat), strict=True))


def read_header(path: Path, key: str | None = None) -> Header:
    """Reads shape and dtype of a feature file; of most kinds without the values.

    Raises:
        StoreError: see `open_features`.
    """
    return _kind(path).header(path, key)


def open_features(path: Path, key: str | None = None) -> NDArray[Any]:
    """Opens the array in a feature file, mapped if the kind of file allows it.

    Args:
        path: the file; its suffix is one of `SUFFIXES`.
        key: name of the array in files with named arrays; None if each contains one array. Files without names ignore
            it.

    Returns:
        The array in the shape and byte order of the file. It may be read-only.

    Raises:
        StoreError: the file cannot be read, is damaged, or does not contain an array of numbers.
    """
    return _kind(path).array(path, key)


def _kind(path: Path) -> Kind:
    suffix = path.suffix.lower()
    if suffix in PICKLES:
        message, hint = "a pickle, which can run any program and is never read", "save the array with numpy.save"
        raise StoreError(Problem(rule="type", place=str(path), value=suffix, message=message, hint=hint))
    if suffix not in _KINDS:
        raise StoreError(
            Problem(rule="type", place=str(path), value=suffix, expected=f"a file with one of {', '.join(SUFFIXES)}")
        )
    return _KINDS[suffix]
