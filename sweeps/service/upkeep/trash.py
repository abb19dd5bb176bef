"""Removal and copies of directories of a results folder, each of which a kill leaves whole or out of sight."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mucon.errors import InputError, Problem
from storage import failpoints
from storage.folders import sync_folder
from sweeps.service.trials.results_folder import ResultsFolder


@contextlib.contextmanager
def disk_errors(results: ResultsFolder) -> Iterator[None]:
    """Turns an error of the disk in the block, such as a full one, into a problem; what is done so far stays.

    Raises:
        InputError: the block raises an `OSError`.
    """
    try:
        yield
    except OSError as error:
        message, hint = f"cannot be changed ({error.strerror or error})", "make room or make it writable, and try again"
        place = str(error.filename or results.path)
        raise InputError(
            Problem(rule="unwritable", place=place, value=error.errno, message=message, hint=hint)
        ) from error


def trash(results: ResultsFolder) -> Path:
    """Where directories are between their removal and their end; nobody reads it."""
    return results.path / "trash"


def incoming(results: ResultsFolder) -> Path:
    """Where copies from other results folders are until they are whole; its lease allows one merge at a time."""
    return results.path / "incoming"


def place(results: ResultsFolder, path: Path) -> Path:
    """Where a trial's or a sweep's directory is in the trash."""
    return trash(results) / f"{path.parent.name}-{path.name}"


def remove(results: ResultsFolder, path: Path) -> None:
    """Removes a directory: it disappears from its place in one step, so that nobody sees a part of it."""
    if not path.exists():
        return
    target = place(results, path)
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    sync_folder(path.parent)
    failpoints.reach("sweeps.upkeep.removing")
    shutil.rmtree(target, ignore_errors=True)  # what cannot be removed is left for `gc`


def empty(results: ResultsFolder) -> None:
    """Ends the removals that a kill interrupted."""
    shutil.rmtree(trash(results), ignore_errors=True)


def size(path: Path) -> int:
    """Bytes of the files in a directory, or of a file."""
    return sum(file.lstat().st_size for file in files(path)) if path.is_dir() else path.lstat().st_size


def files(path: Path) -> Iterator[Path]:
    """The files in a directory and below, sorted; links are not followed."""
    for folder, _, names in sorted(os.walk(path)):
        yield from (Path(folder) / name for name in sorted(names))
