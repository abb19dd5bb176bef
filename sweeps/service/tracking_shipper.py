"""Shipping beside the driver: a thread that a slow or absent tracking server can hold up, but never the training."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from sweeps.service.tracking import Tracker

EVERY = 5.0
"""Seconds between two shipments."""


class Shipper:
    """Calls `Tracker.ship` again and again in a thread of its own until it is stopped.

    As a context manager it starts and stops itself; `Tracker.finish` belongs behind its end, since a tracker is used
    by one thread at a time.

    Args:
        tracker: open.
        folders: asked each time which trials' folders there are.
        every: seconds between the end of a shipment and the next.
    """

    def __init__(self, tracker: Tracker, folders: Callable[[], Iterable[Path]], every: float = EVERY) -> None:
        self._tracker, self._folders, self._every = tracker, folders, every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="shipper to the tracking server", daemon=True)

    def __enter__(self) -> Shipper:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for the shipment that is under way: at most for one call that the server does not answer."""
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stopped.is_set():
            self._tracker.ship(self._folders())
            self._stopped.wait(self._every)
