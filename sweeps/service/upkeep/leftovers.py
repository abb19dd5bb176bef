"""Temporary folders of Ray sessions: each contains a locked file, by which those of dead sessions are recognised."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

OWNER = "mucon-owner"
"""The locked file. The kernel releases the lock when all processes that have inherited the descriptor have died."""


def claim(folder: Path) -> int:
    """Locks a new folder; returns the descriptor, which a child process may inherit.

    Raises:
        OSError: the file system has no locks.
    """
    hidden = folder / f".{OWNER}"
    descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        hidden.rename(folder / OWNER)  # visible once it is locked
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def remove_leftovers(folders: Iterable[Path]) -> None:
    """Removes those folders of this user whose owners are dead; others, and those without an owner, are left alone."""
    for folder in folders:
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.getuid() and not folder.is_symlink():
                with (folder / OWNER).open() as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
