"""`.npy` files of NumPy, mapped into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import Problem, StoreError
from storage.feature_files.content import NPY, Header, check_begin, parsing

_SMALL_FILE = 4096


def header(path: Path, key: str | None) -> Header:
    """Returns shape and dtype, and checks the size of the file; see `array`."""
    opened = array(path, key)
    return Header(opened.shape, opened.dtype.newbyteorder("="))


def array(path: Path, key: str | None) -> NDArray[Any]:
    """Opens the array, mapped and read-only.

    Args:
        path: the file.
        key: not used; the file contains one array without a name.

    Raises:
        StoreError: the file cannot be read, is not a `.npy` file, contains Python objects, or is truncated.
    """
    check_begin(path, NPY)
    with parsing(path):
        try:
            small = path.stat().st_size < _SMALL_FILE  # an empty array cannot be mapped
            return np.asarray(np.load(path, mmap_mode=None if small else "r", allow_pickle=False))
        except ValueError as error:
            if "object" not in str(error).lower():
                raise
            message, hint = "contains Python objects, which are never unpickled", "save it as an array of numbers"
            problem = Problem(rule="type", place=str(path), value="object", message=message, hint=hint)
            raise StoreError(problem) from error
