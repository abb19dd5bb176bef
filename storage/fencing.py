"""Writing into a folder that another process may take over, also while this process is frozen.

The process that may write keeps its unfinished files in a staging folder of its own and moves each into place by one
rename. A successor removes that folder before it reads anything: from then on every rename of the earlier process
fails, whatever it has checked before.
"""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from storage.failpoints import reach


class SupersededError(Exception):
    """Another process has taken over the folder: this one must not write one byte more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The right of a process to write into a folder; without arguments, of the only process that ever does.

    Attributes:
        number: larger for each later writer of the folder; 0 without any.
        staging: folder of the unfinished files, on the same file system; None: beside the finished ones.
        confirm: raises `SupersededError` if another process has taken over.
        settle: flushes to disk what must not be older than a checkpoint; called before the checkpoint gets its place.
    """

    number: int = 0
    staging: Path | None = None
    confirm: Callable[[], None] = lambda: None
    settle: Callable[[], None] = lambda: None

    def unfinished(self, path: Path) -> Path:
        """The place of a file or folder until it is complete."""
        return path.with_name(f".{path.name}.{os.getpid()}") if self.staging is None else self.staging / path.name

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turns an error of the disk into `SupersededError` if a successor has removed the staging folder."""
        try:
            yield
        except OSError:
            self.confirm()
            raise

    def confirm_for(self, path: Path) -> None:
        """Confirms the right to write, immediately before a file or folder is moved or changed."""
        self.confirm()
        reach(f"fence.{path.name}")

    def write(self, path: Path, content: bytes) -> None:
        """Writes a file atomically; it is durable when the call returns.

        Raises:
            SupersededError: another process has taken over.
        """
        temporary = self.unfinished(path)
        with self.writing():
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            self.confirm_for(path)
            temporary.replace(path)


@functools.cache
def machine() -> str:
    """The running kernel and the namespace in which it numbers this process; the host name on systems without /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()


ALONE = Writer()
