"""Atomically created folders: written beside their target, flushed to disk, then renamed.

Imports neither numpy nor pyarrow.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storage.errors import Problem, StoreError, nearest
from storage.failpoints import reach

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_FICLONE = 0x40049409
_TWO_STEPS_SECONDS = 0.4


class StagedFolder:
    """A folder under construction, `.NAME.writing-XXXX` beside its target.

    It is locked while it is written, so that a later writer can distinguish a folder in use from what a killed writer
    left behind, and removes the latter.

    Args:
        target: final path of the folder.
        marker: file that identifies folders of this kind, such as `manifest.json`; only these are ever replaced.
        replace: whether to replace an existing folder of this kind.
        held: result of `locked` for the target, if the caller holds it: the folder replaces that one and no other.

    Raises:
        StoreError: the target exists and may not be replaced.
    """

    def __init__(self, target: Path, *, marker: str, replace: bool, held: int | None = None) -> None:
        self.target = Path(os.path.realpath(target))
        self.marker = marker
        self.replace = replace
        self.held = held
        check_target(self.target, marker=marker, replace=replace)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._remove_leftovers()
        self.path, self._lock = locked_folder(self.target.parent, f".{self.target.name}.writing-")

    def _remove_leftovers(self) -> None:
        """Removes the folders that killed writers left behind for this target."""
        for folder in self.target.parent.glob(f".{self.target.name}.writing-*"):
            lock = try_lock(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)

    def publish(self) -> None:
        """Moves the folder to its target, which holds the complete old or the complete new folder at any time.

        Waits until an editor of the folder at the target has finished.

        Raises:
            StoreError: another writer created the target first, or replaced the folder that the caller holds.
        """
        os.fsync(self._lock)
        reach("storage.writer.publish")
        if self.held is None:
            with locked(self.target, wait=True):
                self._move()
        else:
            if not is_at(self.held, self.target):
                message = "another process replaced the folder meanwhile; it is unchanged"
                raise StoreError(
                    Problem(rule="state", place=str(self.target), message=message, hint="run the command again")
                )
            self._move()
        sync_folder(self.target.parent)
        os.close(self._lock)
        for old in put_aside(self.target):
            shutil.rmtree(old, ignore_errors=True)

    def _move(self) -> None:
        check_target(self.target, marker=self.marker, replace=self.replace)
        if self.target.exists() and any(self.target.iterdir()):
            if not exchange(self.path, self.target):
                swap_in_two_steps(self.path, self.target)
            reach("storage.writer.exchanged")
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            try:
                self.path.rename(self.target)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    check_target(self.target, marker=self.marker, replace=self.replace)
                raise

    def discard(self) -> None:
        """Removes the folder and leaves the target unchanged."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def check_target(target: Path, *, marker: str, replace: bool) -> None:
    """Checks that a folder may be written at `target`, see `StagedFolder`.

    Raises:
        StoreError: the target is a file, a mount point, a folder with other content, or a folder that may not be
            replaced.
    """
    if not target.exists():
        return
    place = str(target)
    if not target.is_dir():
        raise StoreError(
            Problem(rule="exists", place=place, value="file", message="file exists, expected a folder or a new path")
        )
    if os.path.ismount(target):
        message, hint = "is a mount point, which no folder can replace", f"choose a folder in it, such as {target}/new"
        raise StoreError(Problem(rule="unsupported", place=place, value=place, message=message, hint=hint))
    files = sorted(path.name for path in target.iterdir())
    if not files:
        return
    if marker not in files:
        raise StoreError(
            Problem(
                rule="exists",
                place=place,
                value=files,
                message=f"folder contains other files and no {marker}",
                hint="choose another path or empty the folder",
            )
        )
    if not replace:
        raise StoreError(
            Problem(
                rule="exists",
                place=place,
                value=marker,
                message="already exists",
                hint="choose another path or replace it (--replace)",
            )
        )


def locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """Makes a folder with a random name and locks it as long as the returned file descriptor is open."""
    while True:
        path = parent / f"{prefix}{secrets.token_hex(4)}"
        path.mkdir()
        lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another writer considers it a leftover and is removing it
            os.close(lock)
            continue
        except OSError:  # a file system without locks: nobody removes what cannot be locked
            return path, lock
        if path.exists():
            return path, lock
        os.close(lock)


def try_lock(path: Path) -> int | None:
    """Locks a folder without waiting; returns a file descriptor, or None if another process has locked it."""
    try:
        lock = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


@contextmanager
def locked(target: Path, *, wait: bool = False, shared: bool = False) -> Iterator[int | None]:
    """Locks the folder at a path, so that no other process replaces or edits it; readers need no lock.

    The folder itself is locked, so that nothing is left behind and a killed process holds nothing.

    Args:
        target: path of the folder; without a folder there is nothing to lock.
        wait: wait for another holder, and say so on standard error.
        shared: allow other holders of shared locks.

    Yields:
        A descriptor of the folder; None without a folder.

    Raises:
        StoreError: another process holds the folder.
    """
    folder = None
    while folder is None:
        try:
            folder = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            break
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(folder, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            other = f"another process{_holder(folder)}"
            if wait:
                print(f"waiting for {other}, which edits, replaces or merges {target}", file=sys.stderr, flush=True)
                fcntl.flock(folder, kind)
            else:
                os.close(folder)
                message, hint = f"{other} edits, replaces or merges it", "wait until that process has finished"
                raise StoreError(Problem(rule="busy", place=str(target), message=message, hint=hint)) from error
        except OSError:  # a file system without locks: `publish` still compares the folders
            pass
        if not is_at(folder, target):  # replaced while this process waited
            os.close(folder)
            folder = None
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


def _holder(folder: int) -> str:
    """The number of a process that has locked an open folder, as ` (PID)`; empty where the system does not say."""
    status = os.fstat(folder)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()  # such as 1: FLOCK ADVISORY WRITE 4711 fd:01:131 0 EOF; -> before FLOCK: it waits
            if words[1] == "FLOCK" and words[5] == place and int(words[4]) > 0:
                return f" ({words[4]})"
    return ""


def is_at(folder: int, target: Path) -> bool:
    """Returns whether an open folder is the one at a path."""
    try:
        return os.path.samestat(os.fstat(folder), target.stat())
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ESTALE):
            raise
        return False


def check_space(target: Path, n_bytes: int) -> None:
    """Checks that the file system of a new file or folder has room for it.

    Raises:
        StoreError: too little free space.
    """
    parent = next(folder for folder in Path(os.path.realpath(target)).parents if folder.exists())
    free = shutil.disk_usage(parent).free
    if n_bytes > free:
        message = f"needs {n_bytes / 1e6:,.1f} MB, {free / 1e6:,.1f} MB are free"
        hint = "free some space or choose another path"
        raise StoreError(Problem(rule="unwritable", place=str(target), value=free, message=message, hint=hint))


def link_file(source: Path, target: Path) -> None:
    """Gives a file that is never changed in place a second name; copies it where that is impossible.

    The copy shares the blocks of the original where the file system allows, and is flushed to disk.
    """
    try:
        os.link(source, target)
        return
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise
    with source.open("rb") as old, target.open("xb") as new:
        try:
            fcntl.ioctl(new, _FICLONE, old.fileno())
        except OSError:
            shutil.copyfileobj(old, new, 2**20)
        new.flush()
        os.fsync(new.fileno())


def exchange(first: Path, second: Path) -> bool:
    """Swaps two folders in one step; returns False where the system cannot (Linux 3.15 and later can)."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    status = rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    if status == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def swap_in_two_steps(new: Path, target: Path) -> None:
    """Swaps two folders with a moment in between in which neither is at `target`.

    A process killed in that moment leaves the old folder as `.NAME.replaced-XXXX` beside the target.
    """
    aside = target.parent / f".{target.name}.replaced-{secrets.token_hex(4)}"
    target.rename(aside)
    reach("storage.writer.aside")
    try:
        new.rename(target)
    except OSError:
        aside.rename(target)
        raise
    aside.rename(new)


def put_aside(target: Path) -> list[Path]:
    """Returns the old folders that an interrupted replacement left beside `target`."""
    return sorted(target.parent.glob(f".{target.name}.replaced-*"))


def open_folder(path: Path) -> int:
    """Opens a folder; waits for a moment if another process replaces it in two steps.

    Returns:
        A descriptor of the folder.

    Raises:
        OSError: no such folder, or no access.
    """
    end = time.monotonic() + _TWO_STEPS_SECONDS
    while True:
        try:
            return os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if not put_aside(path) or time.monotonic() > end:
                raise
        time.sleep(0.02)


def missing_store(folder: Path) -> Problem:
    """The problem that no store is at a path, and what is there instead."""
    message, hint = "no such store", "create one with `mucon store import`"
    if aside := put_aside(folder):
        hint = f"a replacement was interrupted, rename {aside[-1]} to {folder}"
    elif folder.exists():
        message = "not a folder, expected the folder of a store"
    elif folder.parent.is_dir():
        with suppress(PermissionError):
            message += nearest(folder.name, [entry.name for entry in os.scandir(folder.parent) if entry.is_dir()])
    else:
        message += f", {folder.parent} does not exist either"
    return Problem(rule="missing", place=str(folder), message=message, hint=hint)


def sync_folder(path: Path) -> None:
    """Flushes the directory entries of a folder to disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_file(path: Path, content: bytes) -> None:
    """Writes a new file and flushes it to disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
