"""The exclusive right to write into a folder: a lease that is renewed by its holder and expires otherwise.

A lease is a numbered file, `lease-00000001.json`; the highest number counts. Nobody changes or removes the expired or
released lease of another process: its successor is created exclusively under the next number, so that exactly one of
several processes succeeds. Exclusive creation (on a bucket: a conditional put) is all that this needs.

A holder renews its lease by touching the file. No two machines' clocks are compared: the age of a lease is the time
that the file's own server has counted since, or the time for which a waiting process has seen it unchanged.

The holder's unfinished files are in `lease-00000001-TOKEN/`. Its successor removes that folder before it reads anything
else, so that a holder that thaws after its lease has expired cannot move a file into place, see `storage.fencing`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Self

from storage.fencing import SupersededError, Writer, machine
from sweeps.service.trials.json_files import NUMBER, misfit, set_aside

_LEASE_FILE = re.compile(r"lease-(\d+)\.json")
_STAGING_FOLDER = re.compile(r"lease-(\d+)-[0-9a-f]+")
LEASE_SECONDS = 45.0
"""Seconds after its last renewal at which a lease expires."""
RENEWALS_PER_LEASE = 4.5
"""Number of renewals in that time: one every 10 seconds."""
POLL_SECONDS = 0.5
"""Seconds between two attempts to acquire a lease that another process holds."""
FRESH_SECONDS = 1.0
"""Age at which a reading of a file server's clock no longer suffices to call a lease expired."""


class LeaseLostError(SupersededError):
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
        expires: 0 once the lease is released; before, the end of the first period in seconds since 1970, which only
            earlier versions compare with a clock.
        machine: running kernel and namespace of its process numbers, see `machine`; empty in leases of earlier
            versions.
        duration: seconds after its last renewal at which the lease expires.
    """

    token: str
    host: str
    pid: int
    process_start: int
    expires: float
    machine: str = ""
    duration: float = LEASE_SECONDS

    @property
    def has_ended(self) -> bool:
        """Whether the lease is released, or its process, if its number is one of this machine's, has ended.

        >>> Holder(token="a", host="elsewhere", pid=1, process_start=-1, expires=0.0).has_ended
        True
        """
        return self.expires == 0 or (self.is_here and _process_start(self.pid) != self.process_start)

    @property
    def is_here(self) -> bool:
        """Whether its process number is one of this machine's: of the same kernel and namespace, see `machine`."""
        return self.machine == machine() if self.machine else self.host == socket.gethostname()

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class _Sight:
    """The newest lease of a folder as it is read once.

    Attributes:
        number: its number.
        holder: the process that holds it, or held it.
        status: that of its file.
    """

    number: int
    holder: Holder
    status: os.stat_result

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """The newest lease; None if there is none."""
        while newest := _newest(folder):
            with contextlib.suppress(FileNotFoundError):  # removed since: there is a newer one
                return cls(newest, *_read(_path(folder, newest)))
        return None

    @property
    def stamp(self) -> tuple[int, int, int]:
        """Differs after each renewal."""
        return self.number, self.status.st_ino, self.status.st_mtime_ns

    def is_held(self, folder: Path) -> bool:
        """Whether its process may still write, as far as one look can tell."""
        return not self.holder.has_ended and _age(folder, self.status, self.holder.duration) <= self.holder.duration


def holder(folder: Path) -> Holder | None:
    """The current holder of the folder's lease; None if there is none."""
    sight = _Sight.of(folder)
    return sight.holder if sight is not None and sight.is_held(folder) else None


def frozen(folder: Path) -> int | None:
    """Number of a living process of this machine that has not renewed its lease of the folder in time; None: no such.

    Such a process is frozen, or has noticed that it lost the lease and does something else by now.
    """
    sight = _Sight.of(folder)
    if sight is None or sight.is_held(folder) or sight.holder.has_ended or sight.holder.machine != machine():
        return None
    return sight.holder.pid


class Lease:
    """The right to write into a folder, renewed by a thread until it is released.

    Created by `acquire`; a context manager that releases the lease at its end.
    """

    def __init__(self, folder: Path, number: int, holder: Holder, began: float) -> None:
        self._folder, self._number, self._holder = folder, number, holder
        self._staging = _staging(folder, number, holder)
        self._valid_until = began + holder.duration
        self._lost = False
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease of {folder.name}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def check(self) -> None:
        """Checks that this process has renewed its lease in time; cheap enough for every training step.

        Raises:
            LeaseLostError: the lease was not renewed in time (the machine slept, the disk hung) or has a successor.
        """
        if self._lost or time.monotonic() > self._valid_until:
            self._lost = True
            raise LeaseLostError(f"lost the lease of {self._folder}; another process may be writing there")

    def confirm(self) -> None:
        """Checks with a look at the folder that this process still holds the lease; for every write.

        Raises:
            LeaseLostError: as `check`, or a successor has taken over since the last renewal.
        """
        if _newest(self._folder) != self._number or not self._staging.is_dir():
            self._lost = True
        self.check()

    def writer(self, *, after: int = 0) -> Writer:
        """The right to write under this lease.

        Args:
            after: number of an earlier writer, for example of a folder that was copied without its leases.
        """
        return Writer(number=max(self._number, after + 1), staging=self._staging, confirm=self.confirm)

    def release(self) -> None:
        """Releases the lease, unless it is lost or its folder was removed or replaced, and ends the thread."""
        self._released.set()
        self._thread.join()
        path = _path(self._folder, self._number)
        if not self._lost and self._staging.is_dir() and _newest(self._folder) == self._number:
            unfinished = self._staging / path.name
            try:
                unfinished.write_text(json.dumps(asdict(replace(self._holder, expires=0.0))))
                unfinished.replace(path)
            except OSError:  # a full disk: without its file, the lease is free as well
                with contextlib.suppress(OSError):
                    path.unlink()
        shutil.rmtree(self._staging, ignore_errors=True)

    def _keep(self) -> None:
        while not self._released.wait(self._holder.duration / RENEWALS_PER_LEASE):
            started = time.monotonic()
            # a disk that does not respond: the next round tries again, or the lease expires
            with contextlib.suppress(OSError):
                if self._lost or started > self._valid_until or _newest(self._folder) != self._number:
                    self._lost = True
                    return
                os.utime(_path(self._folder, self._number))
                self._valid_until = started + self._holder.duration


def acquire(folder: Path, *, duration: float = LEASE_SECONDS) -> Lease | None:
    """Acquires the folder's lease.

    Args:
        folder: the folder; it is created if it does not exist.
        duration: seconds after a renewal at which the lease expires.

    Returns:
        A lease that renews itself; None if another process holds it.
    """
    if folder.exists() and not folder.is_dir():
        set_aside(folder)
    folder.mkdir(parents=True, exist_ok=True)
    sight = _Sight.of(folder)
    if sight is not None and sight.is_held(folder):
        return None
    return _take(folder, sight.number if sight else 0, duration)


def acquire_when_free(
    folder: Path,
    *,
    duration: float = LEASE_SECONDS,
    give_up: Callable[[], bool] = lambda: False,
    renewed: Callable[[Holder], bool] = lambda _: False,
) -> Lease | None:
    """Acquires the folder's lease; waits while another process holds it.

    A lease that is not renewed while this process waits for its duration has expired, whatever the clocks say.

    Args:
        folder: as for `acquire`.
        duration: as for `acquire`.
        give_up: called while another process holds the lease; if it returns true, the wait ends.
        renewed: as `give_up`, called with the holder when the wait begins and whenever the lease has been renewed.

    Returns:
        A lease that renews itself; None after `give_up` or `renewed` has returned true.
    """
    seen, since = None, 0.0
    while (held := acquire(folder, duration=duration)) is None:
        before, sight = time.monotonic(), _Sight.of(folder)
        if sight is None or sight.stamp != seen:
            seen, since = sight and sight.stamp, time.monotonic()
            if sight is not None and renewed(sight.holder):
                break
        elif before - since > sight.holder.duration:
            held = _take(folder, sight.number, duration)
        if held is not None or give_up():
            break
        time.sleep(POLL_SECONDS)
    return held


def _take(folder: Path, newest: int, duration: float) -> Lease | None:
    """Creates the lease after the newest one, and removes the unfinished files of all earlier holders."""
    pid, number, began = os.getpid(), newest + 1, time.monotonic()
    mine = Holder(
        token=uuid.uuid4().hex,
        host=socket.gethostname(),
        pid=pid,
        process_start=_process_start(pid),
        expires=time.time() + duration,
        machine=machine(),
        duration=duration,
    )
    path, staging = _path(folder, number), _staging(folder, number, mine)
    try:
        with path.open("x") as file:
            file.write(json.dumps(asdict(mine)))
        if _newest(folder) != number:  # `newest` was outdated: others acquired and released since
            path.unlink(missing_ok=True)
            return None
        staging.mkdir()
        for earlier in folder.iterdir():
            match = _STAGING_FOLDER.fullmatch(earlier.name)
            if match and int(match[1]) <= number and earlier != staging:
                with contextlib.suppress(FileNotFoundError):  # its holder has ended meanwhile
                    earlier.rename(staging / earlier.name)  # in one step: its holder cannot move a file any more
                shutil.rmtree(staging / earlier.name, ignore_errors=True)
    except FileExistsError:
        return None
    except OSError:  # a full disk: an empty lease would belong to an unknown process
        path.unlink(missing_ok=True)
        shutil.rmtree(staging, ignore_errors=True)
        raise
    for old in _numbers(folder):
        if old < newest:
            with contextlib.suppress(OSError):
                _path(folder, old).unlink(missing_ok=True)
    return Lease(folder, number, mine, began)


def _path(folder: Path, number: int) -> Path:
    return folder / f"lease-{number:08d}.json"


def _staging(folder: Path, number: int, holder: Holder) -> Path:
    return folder / f"lease-{number:08d}-{holder.token}"


def _numbers(folder: Path) -> list[int]:
    return [int(match[1]) for path in folder.glob("lease-*.json") if (match := _LEASE_FILE.fullmatch(path.name))]


def _newest(folder: Path) -> int:
    return max(_numbers(folder), default=0)


def _read(path: Path) -> tuple[Holder, os.stat_result]:
    """The holder in a lease file, an unknown one if the file has no content yet or is damaged; and the file's status.

    Raises:
        FileNotFoundError: there is no such file.
    """
    unknown = Holder(token="", host="unknown", pid=0, process_start=-1, expires=-1.0, machine="unknown")
    if path.is_dir():
        return unknown, path.stat()
    with path.open("rb") as file:  # opening makes a client of a file server ask it for the current state
        content, status = file.read(), os.fstat(file.fileno())
    try:
        value = json.loads(content)
        shape = {"token": str, "host": str, "pid": int, "process_start": int, "expires": NUMBER}
        if misfit({"duration": LEASE_SECONDS, **value}, {**shape, "duration": NUMBER}):
            raise ValueError
        known = {field.name for field in fields(Holder)}
        return Holder(**{name: part for name, part in value.items() if name in known}), status
    except (TypeError, ValueError, RecursionError):
        return unknown, status


_clocks: dict[int, tuple[float, float]] = {}
"""Device -> this process's monotonic clock and the clock of the device's server at one moment."""


def _age(folder: Path, status: os.stat_result, enough: float) -> float:
    """Seconds since a file of a folder was changed, by the clock that stamps the folder's files.

    That clock is read by creating a file without a name, once for a device, and again before a file is called older
    than `enough` or newer than now.
    """
    now = time.monotonic()
    at, clock = _clocks.get(status.st_dev, (float("-inf"), 0.0))
    age = clock + (now - at) - status.st_mtime
    if now - at > FRESH_SECONDS and not 0 <= age <= enough:
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                clock = os.fstat(file.fileno()).st_mtime
        except OSError:  # a folder that cannot be written
            clock = time.time()
        _clocks[status.st_dev] = now, clock
        age = clock - status.st_mtime
    return age


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
