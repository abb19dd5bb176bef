"""`.h5` files: one data set per recording, read by h5py (the optional extra `hdf5`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import Problem, StoreError
from storage.feature_files.content import HDF5, Header, check_begin, checked, chosen, parsing


def header(path: Path, key: str | None) -> Header:
    """Returns shape and dtype without reading the data set; see `array`."""
    check_begin(path, HDF5)
    with parsing(path), open_file(path) as file:
        return header_of(path, file[chosen(path, data_sets(file), key)])


def array(path: Path, key: str | None) -> NDArray[Any]:
    """Reads a data set.

    Args:
        path: the file.
        key: path of the data set; None if the file contains one.

    Raises:
        StoreError: h5py is missing, the file cannot be read or is damaged, or the data set is not found, does not
            contain numbers, is too large, or lies in another file.
    """
    check_begin(path, HDF5)
    with parsing(path), open_file(path) as file:
        return values_of(path, file[chosen(path, data_sets(file), key)])


def open_file(path: Path) -> Any:
    """Opens a file for reading.

    Raises:
        StoreError: h5py is not installed.
    """
    try:
        import h5py
    except ModuleNotFoundError as error:
        message, hint = "h5py, which reads this file, is not installed", "pip install 'mucon[hdf5]'"
        problem = Problem(rule="unsupported", place=str(path), value="h5py", message=message, hint=hint)
        raise StoreError(problem) from error
    return h5py.File(path, "r")


def data_sets(file: Any) -> list[str]:
    """Returns the paths of the data sets in a file; links, which may lead to other files, are not followed."""
    import h5py

    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return found


def header_of(path: Path, data: Any) -> Header:
    """Returns shape and dtype of a data set.

    Raises:
        StoreError: see `array`.
    """
    if data.external or data.is_virtual:
        message, hint = f"the values of {data.name} are in other files, which are not read", "copy them into one file"
        raise StoreError(Problem(rule="unsupported", place=str(path), value=data.name, message=message, hint=hint))
    return checked(path, Header(data.shape or (), np.dtype(data.dtype).newbyteorder("=")))


def values_of(path: Path, data: Any) -> NDArray[Any]:
    """Reads a data set.

    Raises:
        StoreError: see `array`.
    """
    header_of(path, data)
    return np.asarray(data[()])
