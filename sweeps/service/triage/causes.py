"""Failures that are not a trial's own: memory that ran out, a full disk, a faulty device."""

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
    errno.ESTALE: "is no longer on its server (stale file handle)",
    errno.ENOTCONN: "is not connected any more",
}
_OF_READING = (errno.EIO, errno.ESTALE, errno.ENOTCONN)
"""Those that also occur where a file is read."""
_OF_FOLDER = {
    errno.ENOENT: "does not exist any more",
    errno.EACCES: "may not be written any more (permission denied)",
    errno.EPERM: "may not be written any more (operation not permitted)",
}
"""Those that concern one file unless the whole folder cannot be written."""
_NUMBER = re.compile(r"\(os error (\d+)\)")
"""How libraries in Rust, such as safetensors, report an error of the system."""
OF_GPU_MEMORY = re.compile(r"cuda.{0,20}out of memory|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE)
OF_MEMORY = re.compile(r"MemoryError|out of memory|\bOOM\b|can(no|')t allocate memory|ALLOC_FAILED", re.IGNORECASE)
OF_STORAGE = re.compile(r"No space left on device|ENOSPC|Disk quota exceeded", re.IGNORECASE)
_OF_DEVICE = re.compile(r"AcceleratorError|CUDA|CUDNN|CUBLAS|NCCL", re.IGNORECASE)
"""What type or message of an error contain; those of PyTorch are RuntimeErrors."""


class UnwritableError(OSError):
    """No trial can write its results; the message is `storage_reason`."""


class Cause(StrEnum):
    """What ended a trial that may succeed elsewhere."""

    MEMORY = "memory"
    """The process or its GPU ran out of memory."""
    STORAGE = "storage"
    """The results folder cannot be written; no other trial can run either."""
    MACHINE = "machine"
    """A device, or a file that cannot be read or written."""


def cause_of(error: BaseException, results: Path) -> Cause | None:
    """What an error of a trial has to do with its machine; None if it is the trial's own: the same code fails again.

    >>> cause_of(OSError(errno.ENOSPC, "No space left on device"), Path("results"))
    <Cause.STORAGE: 'storage'>
    >>> cause_of(MemoryError(), Path("results"))
    <Cause.MEMORY: 'memory'>
    >>> cause_of(RuntimeError("CUDA error: ECC"), Path("results")), cause_of(ZeroDivisionError(), Path("results"))
    (<Cause.MACHINE: 'machine'>, None)
    """
    number, place = _system_error(error)
    if isinstance(error, UnwritableError):
        return Cause.STORAGE
    text = f"{type(error).__name__}: {error}" if isinstance(error, MemoryError | RuntimeError) else ""
    if number == errno.ENOMEM or OF_MEMORY.search(text):
        return Cause.MEMORY
    is_elsewhere = place is not None and not place.is_relative_to(results)
    if number in _OF_STORAGE and not (number in _OF_READING and is_elsewhere):
        return Cause.STORAGE
    if number in _OF_FOLDER and not is_elsewhere and not os.access(results, os.W_OK):
        return Cause.STORAGE
    return Cause.MACHINE if number or isinstance(error, OSError) or _OF_DEVICE.search(text) else None


def storage_reason(error: BaseException, results: Path) -> str:
    """Which folder cannot be written and why, with the free space if it may be full, as one line."""
    if isinstance(error, UnwritableError):
        return str(error)
    number, place = _system_error(error)
    folder = place.parent if place and not place.is_relative_to(results) else results
    subject = "the results folder" if folder == results else "a folder"
    known = {**_OF_STORAGE, **_OF_FOLDER}
    reason = f"{subject} {known.get(number, f'cannot be written ({error})')}: {folder}"
    if number in known and number != errno.ENOSPC:
        return reason
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
