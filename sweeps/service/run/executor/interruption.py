"""The first interruption asks running trials to stop, the second ends the sweep."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

BURST_SECONDS = 0.5
"""Signals that arrive within this time are one interruption: `timeout` sends each twice."""


@contextmanager
def interruptions(stop: Path) -> Iterator[Callable[[], bool]]:
    """The first SIGINT, SIGTERM or SIGHUP creates the file `stop`; the next SIGINT or SIGTERM raises KeyboardInterrupt.

    Yields a function that returns whether a stop was requested, by a signal or by another process that created the
    file. A closed terminal sends several SIGHUPs, which are one interruption: those that arrive after the block, while
    the report is written, are ignored. A SIGHUP that is ignored, as under nohup, stays ignored. Does nothing to signals
    outside the main thread, which alone can have handlers.
    """
    asked: list[float] = []

    def handle(number: int, _: object) -> None:
        now = time.monotonic()
        if asked:
            if number == signal.SIGHUP or now - asked[0] < BURST_SECONDS:
                return
            raise KeyboardInterrupt
        asked.append(now)
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
        yield lambda: bool(asked) or stop.exists()
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if asked and number == signal.SIGHUP else handler)
