"""The exclusive right to write into a folder: a lease that is renewed by its holder and expires otherwise.

A lease is a numbered file, `lease-00000001.json`; the highest number counts. Nobody changes or removes the expired or
released lease of another process: its successor is created exclusively under the next number, so that exactly one of
several processes succeeds. Exclusive creation (on a bucket: a conditional put) is all that this needs.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from sweeps.service.trials.json_files import NUMBER, misfit, set_aside

_LEASE_FILE = re.compile(r"lease-(\d+)\.json")
LEASE_SECONDS = 45.0
"""Seconds after its last renewal at which a lease expires."""
RENEWALS_PER_LEASE = 4.5
"""Number of renewals in that time: one every 10 seconds."""


class LeaseLostError(Exception):
    """This process did not renew its lease in time, or another process holds the next one: it must stop writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that holds a lease.

    Attributes:
        token: random, new for each acquisition.
        host: name of the machine.
        pid: process number.
        process_start: start of the process in kernel ticks since boot, -1 if unknown; distinguishes it from a later
            process with the same number.
        expires: seconds since 1970; 0 once the lease is released.
        machine: running kernel and namespace of its process numbers, see `_machine`; empty in leases of earlier
            versions.
    """

    token: str
    host: str
    pid: int
    process_start: int
    expires: float
    machine: str = ""

    @property
    def alive(self) -> bool:
        """Whether the lease has not expired and its process, if its number is one of this machine's, still runs.

        Two containers may have one host name and different processes of one number; only the same kernel and the same
        namespace tell whose number it is.

        >>> Holder(token="a", host="elsewhere", pid=1, process_start=-1, expires=0.0).alive
        False
        """
        if self.expires <= time.time():
            return False
        is_here = self.machine == _machine() if self.machine else self.host == socket.gethostname()
        return not is_here or _process_start(self.pid) == self.process_start

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def holder(folder: Path) -> Holder | None:
    """The current holder of the folder's lease; None if there is none."""
    newest = _newest(folder)
    owner = _read(folder, newest) if newest else None
    return owner if owner is not None and owner.alive else None


class Lease:
    """The right to write into a folder, renewed by a thread until it is released.

    Created by `acquire`; a context manager that releases the lease at its end.
    """

    def __init__(self, folder: Path, number: int, holder: Holder, duration: float) -> None:
        self._folder, self._number, self._holder = folder, number, holder
        self._duration = duration
        self._valid_until = time.monotonic() + duration
        self._lost = False
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease of {folder.name}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def check(self) -> None:
        """Checks that this process still holds the lease; cheap enough for every training step.

        Raises:
            LeaseLostError: the lease was not renewed in time (the machine slept, the disk hung) or has a successor.
        """
        if self._lost or time.monotonic() > self._valid_until:
            self._lost = True
            raise LeaseLostError(f"lost the lease of {self._folder}; another process may be writing there")

    def release(self) -> None:
        """Releases the lease, unless it is lost, and ends the thread."""
        self._released.set()
        self._thread.join()
        with contextlib.suppress(OSError):  # a lease that cannot be released expires
            if not self._lost and _newest(self._folder) == self._number:
                self._write(expires=0.0)

    def _keep(self) -> None:
        while not self._released.wait(self._duration / RENEWALS_PER_LEASE):
            started = time.monotonic()
            # a disk that does not respond: the next round tries again, or the lease expires
            with contextlib.suppress(OSError):
                if self._lost or started > self._valid_until or _newest(self._folder) != self._number:
                    self._lost = True
                    return
                self._write(expires=time.time() + self._duration)
                self._valid_until = started + self._duration

    def _write(self, *, expires: float) -> None:
        path = _path(self._folder, self._number)
        value = asdict(self._holder) | {"expires": expires}
        temporary = path.with_suffix(f".{self._holder.token}")
        temporary.write_text(json.dumps(value))
        temporary.replace(path)


def acquire(folder: Path, *, duration: float = LEASE_SECONDS) -> Lease | None:
    """Acquires the folder's lease.

    Args:
        folder: the folder; it is created if it does not exist.
        duration: seconds after a renewal at which the lease expires; must be much longer than the clocks of the
            machines that share the folder differ.

    Returns:
        A lease that renews itself; None if another process holds it.
    """
    if folder.exists() and not folder.is_dir():
        set_aside(folder)
    folder.mkdir(parents=True, exist_ok=True)
    newest = _newest(folder)
    if newest:
        owner = _read(folder, newest)
        if owner is not None and owner.alive:
            return None
    pid = os.getpid()
    mine = Holder(
        token=uuid.uuid4().hex,
        host=socket.gethostname(),
        pid=pid,
        process_start=_process_start(pid),
        expires=time.time() + duration,
        machine=_machine(),
    )
    path = _path(folder, newest + 1)
    try:
        with path.open("x") as file:
            file.write(json.dumps(asdict(mine)))
    except FileExistsError:
        return None
    except OSError:  # a full disk: an empty lease would belong to an unknown process
        path.unlink(missing_ok=True)
        raise
    if _newest(folder) != newest + 1:  # `newest` was outdated: others acquired and released since
        path.unlink()
        return None
    for number in _numbers(folder):
        if number < newest:
            with contextlib.suppress(OSError):
                _path(folder, number).unlink(missing_ok=True)
    return Lease(folder, newest + 1, mine, duration)


def _path(folder: Path, number: int) -> Path:
    return folder / f"lease-{number:08d}.json"


def _numbers(folder: Path) -> list[int]:
    return [int(match[1]) for path in folder.glob("lease-*.json") if (match := _LEASE_FILE.fullmatch(path.name))]


def _newest(folder: Path) -> int:
    return max(_numbers(folder), default=0)


def _read(folder: Path, number: int) -> Holder | None:
    """The holder in a lease file; an unknown, living one for a while if the file has no content yet or is damaged."""
    path = _path(folder, number)
    try:
        content = b"" if path.is_dir() else path.read_bytes()
        written = path.stat().st_mtime
    except FileNotFoundError:
        return None
    try:
        value = json.loads(content)
        if misfit(value, {"token": str, "host": str, "pid": int, "process_start": int, "expires": NUMBER}):
            raise ValueError
        return Holder(**value)
    except (TypeError, ValueError, RecursionError):
        return Holder(token="", host="unknown", pid=0, process_start=-1, expires=written + LEASE_SECONDS)


@functools.cache
def _machine() -> str:
    """The running kernel and the namespace in which it numbers this process; the host name on systems without /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()


def _process_start(pid: int) -> int:
    """Field 22 of /proc/PID/stat; -2 if the process is gone, -1 on systems without /proc."""
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return -2
        except PermissionError:
            return -1
        return -1
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return -2
    return -2 if fields[0] in "ZX" else int(fields[19])
