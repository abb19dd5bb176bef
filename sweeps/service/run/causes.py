"""Failures that are not a trial's own: memory that ran out, and a results folder that cannot be written."""

from __future__ import annotations

import errno
import os
import re
import shutil
from enum import StrEnum
from pathlib import Path

from mucon.errors import InputError

_OF_STORAGE = {
    errno.ENOSPC: "is full",
    errno.EDQUOT: "has reached its quota",
    errno.EROFS: "has become read-only",
    errno.EIO: "cannot be read or written (input/output error)",
}
_NUMBER = re.compile(r"\(os error (\d+)\)")
"""How libraries in Rust, such as safetensors, report an error of the system."""
_NO_MEMORY = re.compile(r"torch\.OutOfMemoryError|can't allocate memory|CUDA error: out of memory|ALLOC_FAILED")
"""How PyTorch reports it, in the type or in the message of an error."""


class UnwritableError(OSError):
    """No trial can write its results; the message is `storage_reason`."""


class Cause(StrEnum):
    """What ended a trial that may succeed elsewhere."""

    MEMORY = "memory"
    """The process or its GPU ran out of memory."""
    STORAGE = "storage"
    """The results folder cannot be written; no other trial can run either."""


def cause_of(error: BaseException, results: Path) -> Cause | None:
    """What an error of a trial has to do with memory or the results folder; None if it is the trial's own.

    An input/output error of a file elsewhere, such as the store, is the trial's own.

    >>> cause_of(OSError(errno.ENOSPC, "No space left on device"), Path("results"))
    <Cause.STORAGE: 'storage'>
    >>> cause_of(MemoryError(), Path("results"))
    <Cause.MEMORY: 'memory'>
    """
    number, place = _system_error(error)
    if isinstance(error, UnwritableError):
        return Cause.STORAGE
    if isinstance(error, MemoryError) or number == errno.ENOMEM or _NO_MEMORY.search(f"{type(error)} {error}"):
        return Cause.MEMORY
    if number not in _OF_STORAGE or (number == errno.EIO and place and not place.is_relative_to(results)):
        return None
    return Cause.STORAGE


def storage_reason(error: BaseException, results: Path) -> str:
    """Which folder cannot be written and why, with the free space, as one line."""
    if isinstance(error, UnwritableError):
        return str(error)
    number, place = _system_error(error)
    folder = place.parent if place and not place.is_relative_to(results) else results
    subject = "the results folder" if folder == results else "a folder"
    reason = f"{subject} {_OF_STORAGE.get(number, f'cannot be written ({error})')}: {folder}"
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return reason
    return f"{reason}, {free // 10**6} MB free"


def _system_error(error: BaseException) -> tuple[int, Path | None]:
    """The number of an error of the system, 0 if it is none, and the file where it occurred, if that is known."""
    if isinstance(error, OSError):
        name = error.filename
        return error.errno or 0, Path(os.fsdecode(name)) if isinstance(name, str | bytes) else None
    if isinstance(error, InputError):
        problem = error.problems[0]
        of_system = problem.rule == "unreadable" and isinstance(problem.value, int)
        return (problem.value, Path(problem.place)) if of_system else (0, None)  # type: ignore[return-value]
    found = _NUMBER.search(str(error))
    return int(found[1]) if found else 0, None
