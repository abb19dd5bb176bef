"""Cores of a machine that the sweeps of one user share, each with a local Ray that counts all cores as its own.

Each trial that trains or waits has a locked file in a folder of its user; the file's name says when it came and how
many cores it takes. The kernel releases the lock when the process dies. A trial starts when the cores that those before
it leave are enough.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from mucon.device import usable_cpus
from mucon.errors import Interrupted

VARIABLE = "MUCON_CORES"
"""Environment variable: the folder of the locked files; default: one in the folder for temporary files."""
POLL_SECONDS = 0.5
"""Seconds between two looks for free cores."""


@contextlib.contextmanager
def shared_cores(
    amount: float, total: int, should_stop: Callable[[], bool], waits: Callable[[], None]
) -> Iterator[None]:
    """Holds some cores of this machine, after the sweeps of this user that asked for them earlier.

    Without a writable folder for temporary files nothing is held.

    Args:
        amount: number of cores; fractions add up.
        total: number of cores that this process may use.
        should_stop: called while waiting.
        waits: called once if not enough cores are free.

    Raises:
        Interrupted: `should_stop` returned true before the cores were free.
    """
    with contextlib.ExitStack() as held:
        try:
            mine = held.enter_context(_locked_file(_folder(), amount))
        except OSError:
            yield
            return
        noted = False
        while _taken_before(mine) + min(amount, total) > total + 1e-9:
            if not noted:
                waits()
                noted = True
            if should_stop():
                raise Interrupted
            time.sleep(POLL_SECONDS)
        yield


def _folder() -> Path:
    """The folder of the processes of this user that may use the same cores as this one."""
    default = Path(tempfile.gettempdir()) / f"mucon-cores-{os.getuid()}"
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return Path(os.environ.get(VARIABLE, default)) / "-".join(map(str, (usable_cpus(), *usable[:1], *usable[-1:])))


@contextlib.contextmanager
def _locked_file(folder: Path, amount: float) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    unique = uuid.uuid4().hex
    hidden = folder / f".{unique}"
    with hidden.open("w") as file:  # visible once it is locked
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            path = hidden.rename(folder / f"{time.monotonic_ns():020d}_{amount:g}_{unique}")
        except OSError:
            hidden.unlink(missing_ok=True)
            raise
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def _taken_before(mine: Path) -> float:
    """Number of cores of the living processes that came before one; removes files of dead ones."""
    taken = 0.0
    for path in mine.parent.glob("[0-9]*_*_*"):
        if path.name < mine.name:
            with contextlib.suppress(FileNotFoundError), path.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    path.unlink()
                except BlockingIOError:
                    taken += float(path.name.split("_")[1])
    return taken
