"""Compiles the kernels with numba and keeps the result on disk, wherever the package can be written or not."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def compiled(function: F) -> F:
    """`function` compiled on its first call, without the interpreter's lock, and cached on disk.

    The cache lies where numba puts it: in the folder of `NUMBA_CACHE_DIR`, else beside the source, else in the user's
    cache folder. Where none of these can be written (a read-only installation without a home) it lies in a
    `fallback_cache` under the system's temporary folder; where that is not ours alone, each process compiles anew.
    """
    import numba

    try:
        return cast(F, numba.njit(cache=True, **_OPTIONS)(function))
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
    folder = fallback_cache(Path(tempfile.gettempdir()))
    if folder is None:
        return cast(F, numba.njit(**_OPTIONS)(function))
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        return cast(F, numba.njit(cache=True, **_OPTIONS)(function))
    finally:
        numba.config.CACHE_DIR = before


def fallback_cache(parent: Path) -> Path | None:
    """A folder for compiled code under `parent` that only this user can enter, made if need be, or None.

    Compiled code is read back as it lies there, so a folder that someone else made or may write is not used.
    """
    user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    folder = parent / f"mucon-compiled-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077):
        return None
    return folder
