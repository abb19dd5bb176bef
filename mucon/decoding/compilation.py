"""Compiles the kernels with numba and caches the result on disk, even if the installation is read-only."""

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
    """Compiles `function` on its first call, without the global interpreter lock, and caches it on disk.

    The cache is where numba puts it: in the folder of `NUMBA_CACHE_DIR`, else beside the source, else in the user's
    cache folder. If none of these is writable (a read-only installation without a home), it is in a `fallback_cache`
    under the system's temporary folder. If other users could write there too, each process compiles again.
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
    """A folder for compiled code under `parent` that only this user can enter, created if necessary, or None.

    Compiled code is loaded without a check, so a folder that another user created or may write to is not used.
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
