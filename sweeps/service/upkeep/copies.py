"""Copies of trials and sweeps from other results folders: durable, without leases and without unfinished files."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from mucon.errors import InputError, Problem
from storage.folders import exchange, swap_in_two_steps, sync_folder

_OF_WRITERS = re.compile(r"lease-.*|\..+\.(\d+|parquet)|checkpoint\.new.*")
"""Files and folders that belong to the process that writes into a directory."""


def copy(source: Path, target: Path, leave: Callable[[Path], bool] = lambda _: False) -> None:
    """Copies a directory; the copy is durable when the call returns. What a kill left at the target is removed first.

    Args:
        source: the directory.
        target: path of the copy.
        leave: whether a file is left out.

    Raises:
        InputError: the directory contains a link or a special file, which could lead elsewhere.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for entry in sorted(source.iterdir()):
        if _OF_WRITERS.fullmatch(entry.name) or leave(entry):
            continue
        kind = entry.lstat().st_mode
        if stat.S_ISDIR(kind):
            copy(entry, target / entry.name, leave)
        elif stat.S_ISREG(kind):
            _copy_file(entry, target / entry.name)
        else:
            message = "a link or a special file, which is not copied"
            raise InputError(Problem(rule="unsupported", place=str(entry), value=entry.name, message=message))
    sync_folder(target)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as read, target.open("wb") as written:
        shutil.copyfileobj(read, written, 2**20)
        written.flush()
        os.fsync(written.fileno())


def move_into_place(new: Path, target: Path) -> None:
    """Puts a directory at the place of another one in one step, and removes the old one."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        new.rename(target)
    else:
        if not exchange(new, target):
            swap_in_two_steps(new, target)
        shutil.rmtree(new, ignore_errors=True)
    sync_folder(target.parent)
