"""The first interruption asks running trials to stop, the second ends the sweep."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def interruptions(stop: Path) -> Iterator[Callable[[], bool]]:
    """The first SIGINT, SIGTERM or SIGHUP creates the file `stop`, the second raises KeyboardInterrupt.

    Yields a function that returns whether a stop was requested, by a signal or by another process that created the
    file. A SIGHUP that is ignored, as under nohup, stays ignored. Does nothing to signals outside the main thread,
    which alone can have handlers.
    """
    asked = threading.Event()

    def handle(*_: object) -> None:
        if asked.is_set() or stop.exists():
            raise KeyboardInterrupt
        asked.set()
        with contextlib.suppress(OSError):  # a full disk
            stop.touch()
        with contextlib.suppress(OSError):  # a closed terminal
            os.write(2, b"stopping: running trials write a checkpoint; press Ctrl-C again to stop at once\n")

    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if is_main else ()
    before = {number: signal.getsignal(number) for number in numbers}
    if before.get(signal.SIGHUP) is signal.SIG_IGN:
        del before[signal.SIGHUP]
    try:
        for number in before:
            signal.signal(number, handle)
        yield lambda: asked.is_set() or stop.exists()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
