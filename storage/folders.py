"""A folder that appears whole or not at all: written beside its target, flushed to the disk, then renamed."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from pathlib import Path

from storage.constants import MANIFEST
from storage.errors import StoreError
from storage.failpoints import reach

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class StagedFolder:
    """A folder in the making, `.NAME.writing-XXXX` beside its target.

    While it is written a lock is held on it, so that a later writer can tell what a killed one has left (and removes
    that) from what is being written.

    Args:
        target: where the folder shall stand.
        replace: whether a store that stands there gives way.

    Raises:
        StoreError: something stands at the target that may not be replaced.
    """

    def __init__(self, target: Path, *, replace: bool) -> None:
        self.target = Path(os.path.realpath(target))
        self.replace = replace
        check_target(self.target, replace=self.replace)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._remove_leftovers()
        self.path, self._lock = self._create()

    def _remove_leftovers(self) -> None:
        """What killed writers have left for this target."""
        for left in self.target.parent.glob(f".{self.target.name}.writing-*"):
            lock = _try_lock(left)
            if lock is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)

    def _create(self) -> tuple[Path, int]:
        while True:
            path = self.target.parent / f".{self.target.name}.writing-{secrets.token_hex(4)}"
            path.mkdir()
            lock = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another writer takes it for a leftover and is removing it
                os.close(lock)
                continue
            except OSError:  # a file system without locks: nobody removes what they cannot lock
                return path, lock
            if path.exists():
                return path, lock
            os.close(lock)

    def publish(self) -> None:
        """Makes the folder stand at its target; afterwards the old or the new one is there, never a part of either.

        Raises:
            StoreError: another writer was faster.
        """
        os.fsync(self._lock)
        reach("storage.writer.publish")
        check_target(self.target, replace=self.replace)
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
                    check_target(self.target, replace=self.replace)
                raise
        sync_folder(self.target.parent)
        os.close(self._lock)
        for old in put_aside(self.target):
            shutil.rmtree(old, ignore_errors=True)

    def discard(self) -> None:
        """Removes the folder; the target is as it was."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def check_target(target: Path, *, replace: bool) -> None:
    """Refuses what a store may not take the place of.

    Raises:
        StoreError: a file stands there, a folder with other files, or a store that shall not be replaced.
    """
    if not target.exists():
        return
    if not target.is_dir():
        raise StoreError(f"a store is a folder, {target} is a file: choose another path or remove it")
    if not any(target.iterdir()):
        return
    if not (target / MANIFEST).exists():
        raise StoreError(f"only a store is replaced, {target} holds other files: choose another path or empty it")
    if not replace:
        raise StoreError(
            f"a store is not overwritten, one stands at {target}: choose another path or ask to replace it (--replace)"
        )


def _try_lock(path: Path) -> int | None:
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


def exchange(first: Path, second: Path) -> bool:
    """Lets two folders change places in one step; False where the system cannot (Linux from 3.15 can)."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    done = rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    if done == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def swap_in_two_steps(new: Path, target: Path) -> None:
    """Puts `new` at `target` and the old folder at the path of `new`, with a moment in which neither is at `target`.

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
    """Old stores that a writer killed in the middle of a replacement has left beside `target`."""
    return sorted(target.parent.glob(f".{target.name}.replaced-*"))


def sync_folder(path: Path) -> None:
    """Flushes the folder's list of names to the disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_file(path: Path, content: bytes) -> None:
    """Writes a new file and flushes it to the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
