"""`.mat` files of MATLAB: up to version 7 read by scipy, version 7.3 (HDF5) by h5py (the optional extra `hdf5`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.feature_files import hdf5
from storage.feature_files.content import MATLAB, MATLAB_73, Header, check_begin, checked, chosen, parsing

_DTYPES = {
    "double": "float64",
    "single": "float32",
    "logical": "bool",
    **{name: name for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
}
"""NumPy's names of MATLAB's numeric classes."""
_VERSION_4 = tuple((10 * kind).to_bytes(4, "little") for kind in range(6))
"""First bytes of files of version 4 on today's machines, by the type of the first variable."""


def header(path: Path, key: str | None) -> Header:
    """Returns shape and dtype without reading the values; see `array`."""
    if check_begin(path, MATLAB, *_VERSION_4).startswith(MATLAB_73):
        with parsing(path), hdf5.open_file(path) as file:
            found = hdf5.header_of(path, file[chosen(path, _numeric(file), key)])
            return Header(found.shape[::-1], found.dtype)
    import scipy.io

    with parsing(path):
        found_of = {
            name: Header(shape, np.dtype(_DTYPES[kind]))
            for name, shape, kind in scipy.io.whosmat(path)
            if kind in _DTYPES
        }
        return checked(path, found_of[chosen(path, list(found_of), key)])


def array(path: Path, key: str | None) -> NDArray[Any]:
    """Reads a numeric array.

    Args:
        path: the file.
        key: name of the variable; None if the file contains one numeric array.

    Raises:
        StoreError: the file cannot be read or is damaged, the array is not found or too large, or the file has version
            7.3 and h5py is missing.
    """
    if check_begin(path, MATLAB, *_VERSION_4).startswith(MATLAB_73):
        with parsing(path), hdf5.open_file(path) as file:
            return hdf5.values_of(path, file[chosen(path, _numeric(file), key)]).T
    import scipy.io

    header(path, key)
    with parsing(path):
        names = [name for name, _, kind in scipy.io.whosmat(path) if kind in _DTYPES]
        name = chosen(path, names, key)
        return np.asarray(scipy.io.loadmat(path, variable_names=[name], mat_dtype=True)[name])


def _numeric(file: Any) -> list[str]:
    """Returns the numeric variables of a file of version 7.3."""
    names = [name for name in hdf5.data_sets(file) if "/" not in name]
    return [name for name in names if file[name].attrs.get("MATLAB_class", b"") in map(str.encode, _DTYPES)]
