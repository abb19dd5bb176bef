"""Who may write into a folder: a lease that is created exclusively, renewed, and lost when it is not.

A lease is a numbered file, `lease-00000001.json`; the highest number counts. A lease that expired or was released is
never changed or removed by another: its successor is the exclusive creation of the next number, so of many that try
exactly one succeeds, with nothing more than exclusive creation (on a bucket: a conditional put).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

DURATION = 45.0
"""Seconds after its last renewal at which a lease expires."""
RENEWALS = 4.5
"""Renewals in that time: one every 10 seconds."""


class LeaseLostError(Exception):
    """This process has not renewed its lease in time, or another holds the next one: it must not write any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a lease.

    Attributes:
        token: drawn at random for each acquisition.
        host: name of the machine.
        pid: process.
        process_start: when that process was started, in the kernel's ticks since boot, or -1 where it is not known;
            it tells the process from a later one with its number.
        expires: seconds since 1970; 0 when the lease was released.
    """

    token: str
    host: str
    pid: int
    process_start: int
    expires: float

    @property
    def alive(self) -> bool:
        """Whether the lease counts: it has not expired and its process, where it can be looked at, still runs.

        >>> Holder(token="a", host="elsewhere", pid=1, process_start=-1, expires=0.0).alive
        False
        """
        if self.expires <= time.time():
            return False
        return self.host != socket.gethostname() or _process_start(self.pid) == self.process_start

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def holder(folder: Path) -> Holder | None:
    """Who holds the folder's lease now, or None when nobody does."""
    newest = _newest(folder)
    found = _read(folder, newest) if newest else None
    return found if found is not None and found.alive else None


class Lease:
    """The right to write into a folder, renewed by a thread until it is released.

    Use `acquire`; as a context manager it is released at the end.
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
        """Passes while this process holds the lease; cheap enough for every training step.

        Raises:
            LeaseLostError: it was not renewed in time (the machine slept, the disk hung) or has a successor.
        """
        if self._lost or time.monotonic() > self._valid_until:
            self._lost = True
            raise LeaseLostError(
                f"the lease of {self._folder} is lost: another process may be writing there, so this one stops"
            )

    def release(self) -> None:
        """Gives the lease back, unless it is lost; the thread ends."""
        self._released.set()
        self._thread.join()
        if not self._lost and _newest(self._folder) == self._number:
            self._write(expires=0.0)

    def _keep(self) -> None:
        while not self._released.wait(self._duration / RENEWALS):
            started = time.monotonic()
            if self._lost or started > self._valid_until or _newest(self._folder) != self._number:
                self._lost = True
                return
            # A disk that does not answer is what expiry is for: the next round tries again.
            with contextlib.suppress(OSError):
                self._write(expires=time.time() + self._duration)
                self._valid_until = started + self._duration

    def _write(self, *, expires: float) -> None:
        path = _path(self._folder, self._number)
        value = asdict(self._holder) | {"expires": expires}
        temporary = path.with_suffix(f".{self._holder.token}")
        temporary.write_text(json.dumps(value))
        temporary.replace(path)


def acquire(folder: Path, *, duration: float = DURATION) -> Lease | None:
    """The folder's lease, or None when another process holds it.

    Args:
        folder: what is written into; it is created.
        duration: seconds after a renewal at which the lease expires; the clocks of machines that share the folder
            differ by much less.

    Returns:
        A lease that renews itself, or None.
    """
    folder.mkdir(parents=True, exist_ok=True)
    newest = _newest(folder)
    if newest:
        found = _read(folder, newest)
        if found is not None and found.alive:
            return None
    pid = os.getpid()
    mine = Holder(
        token=uuid.uuid4().hex,
        host=socket.gethostname(),
        pid=pid,
        process_start=_process_start(pid),
        expires=time.time() + duration,
    )
    try:
        with _path(folder, newest + 1).open("x") as file:
            file.write(json.dumps(asdict(mine)))
    except FileExistsError:
        return None
    if _newest(folder) != newest + 1:  # so old a look at the folder that others have come and gone since
        _path(folder, newest + 1).unlink()
        return None
    for number in _numbers(folder):
        if number < newest:
            _path(folder, number).unlink(missing_ok=True)
    return Lease(folder, newest + 1, mine, duration)


def _path(folder: Path, number: int) -> Path:
    return folder / f"lease-{number:08d}.json"


def _numbers(folder: Path) -> list[int]:
    return [int(path.stem.removeprefix("lease-")) for path in folder.glob("lease-*.json")]


def _newest(folder: Path) -> int:
    return max(_numbers(folder), default=0)


def _read(folder: Path, number: int) -> Holder | None:
    """The holder that a lease file names; a file whose writer has not got that far names an unknown, living one."""
    path = _path(folder, number)
    try:
        text = path.read_text()
        written = path.stat().st_mtime
    except FileNotFoundError:
        return None
    try:
        return Holder(**json.loads(text))
    except json.JSONDecodeError:
        return Holder(token="", host="unknown", pid=0, process_start=-1, expires=written + DURATION)


def _process_start(pid: int) -> int:
    """Field 22 of the kernel's line about a process; -2 for a process that is gone, -1 where there is no such line."""
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
