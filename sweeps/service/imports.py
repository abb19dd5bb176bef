"""Imports of large packages."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def quick_imports() -> Iterator[None]:
    """Searches for no garbage during imports, which make many objects that stay.

    With such a search, imports of torch take half as long again, and those of MLflow a quarter.

    Later searches leave out what exists after new imports.
    """
    enabled, known = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > known:
            gc.freeze()
        if enabled:
            gc.enable()
