"""`.npz` files of NumPy: zip archives of `.npy` files."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import StoreError
from storage.feature_files.content import ZIP, Header, check_begin, checked, chosen, other_kind, parsing


def header(path: Path, key: str | None) -> Header:
    """Returns shape and dtype without unpacking the array; see `array`."""
    check_begin(path, ZIP)
    with parsing(path), zipfile.ZipFile(path) as archive:
        entry = _entry(archive, path, key)
        with archive.open(entry) as file:
            return _header(file, entry, path)


def array(path: Path, key: str | None) -> NDArray[Any]:
    """Reads an array.

    Args:
        path: the file.
        key: name of the array; None if the file contains one.

    Raises:
        StoreError: the file cannot be read or is damaged, the array is not found, does not contain numbers or is too
            large.
    """
    check_begin(path, ZIP)
    with parsing(path), zipfile.ZipFile(path) as archive:
        entry = _entry(archive, path, key)
        with archive.open(entry) as file:
            _header(file, entry, path)
        with archive.open(entry) as file:
            read: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
            file.read(1)  # compares the checksum of the entry
            return read


def _entry(archive: zipfile.ZipFile, path: Path, key: str | None) -> zipfile.ZipInfo:
    found = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
    if not found and archive.namelist():
        raise StoreError(other_kind(path, ZIP))
    entries = {entry.filename.removesuffix(".npy"): entry for entry in found}
    return entries[chosen(path, list(entries), key)]


def _header(file: IO[bytes], entry: zipfile.ZipInfo, path: Path) -> Header:
    """Reads the header of an entry, which must agree with the size of the entry."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"version {version} of the .npy format")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    found = checked(path, Header(shape, dtype.newbyteorder("=")))
    if file.tell() + math.prod(shape) * dtype.itemsize != entry.file_size:
        raise ValueError(f"{entry.filename} has {entry.file_size} bytes, which do not contain {list(shape)} values")
    return found
