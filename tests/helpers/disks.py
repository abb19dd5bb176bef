"""File systems in a file, on which the kernel causes the faults of a disk."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SHUT_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN of linux/ext4.h."""
WITHOUT_FLUSH = 2


class Disk:
    """An ext4 file system of 120 MB; what is not flushed is lost when it fails.

    Attributes:
        path: where it is mounted.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._image = path, path.with_suffix(".ext4")
        path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(120 * 2**20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self._image], check=True)
        self.mount()

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop,errors=remount-ro", self._image, self.path], check=True)

    def fail(self) -> None:
        """From now on every access is an input/output error, as when the device is gone."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, SHUT_DOWN, struct.pack("I", WITHOUT_FLUSH))
        finally:
            os.close(handle)

    def make_read_only(self) -> None:
        """From now on it is read-only, as after an error that the kernel has found in it."""
        words = ["findmnt", "--noheadings", "--output", "SOURCE", self.path]
        device = Path(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())
        Path(f"/sys/fs/ext4/{device.name}/trigger_fs_error").write_text("1")

    def mend(self) -> None:
        """Mounts it again, as after a restart; no process may use it.

        Mounts a copy, because a mount namespace that another process has made meanwhile keeps the failed one mounted.
        """
        subprocess.run(["umount", self.path], check=True)
        self._image = Path(shutil.copyfile(self._image, self._image.with_suffix(".mended.ext4")))
        subprocess.run(["e2fsck", "-f", "-y", self._image], check=False, capture_output=True)
        self.mount()


@contextmanager
def disk(path: Path) -> Iterator[Disk]:
    """A disk at a new folder; skips the test where file systems in files cannot be mounted."""
    try:
        made = Disk(path)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(path, ignore_errors=True)
        pytest.skip(f"an ext4 file system in a file cannot be mounted ({error})")
    try:
        yield made
    finally:
        subprocess.run(["umount", "-l", path], check=True)
