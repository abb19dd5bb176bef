"""The first interruption asks running trials to stop, the second ends the sweep."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def interruptions(stop: Path) -> Iterator[Callable[[], None]]:
    """The first SIGINT or SIGTERM creates the file `stop`, the second raises KeyboardInterrupt.

    Yields a function that installs the handlers again. Does nothing outside the main thread, which alone can have
    handlers.
    """

    def handle(*_: object) -> None:
        if stop.exists():
            raise KeyboardInterrupt
        stop.touch()
        os.write(2, b"stopping: running trials write a checkpoint; press Ctrl-C again to stop at once\n")

    def install() -> None:
        for number in before:
            signal.signal(number, handle)

    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if is_main else {}
    install()
    try:
        yield install
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
