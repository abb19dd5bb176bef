"""Ships results to MLflow from a background thread, so that training never blocks on the server."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from mucon.errors import InputError
from sweeps.service.plan.sweep_folder import Links, Outcome
from sweeps.service.text import redacted
from sweeps.service.track.changes import Shipment
from sweeps.service.track.tracker import Tracker
from sweeps.service.trials.folder import TrialFolder

SHIP_SECONDS = 2.0
"""Seconds between two shipments."""


class Shipping:
    """Ships trial directories until `finish` or `abandon` is called.

    One thread makes all calls of the tracker. If the server does not respond at the start, each shipment tries again.

    Args:
        tracker: a tracker that is not open yet.
        folders: directories of the sweep's trials, which need not exist yet.
    """

    def __init__(self, tracker: Tracker, folders: Sequence[TrialFolder]) -> None:
        self._tracker = tracker
        self._folders = list(folders)
        self._tables: Mapping[str, Path] = {}
        self._outcome: Outcome | None = None
        self._links = Links()
        self._opened = False
        self._drain = threading.Event()
        self._drained = threading.Event()
        self._finish = threading.Event()
        self._abandoned = threading.Event()
        self._shipment = self._lost("the thread that ships has ended")
        self._thread = threading.Thread(target=self._run, name="shipping", daemon=True)
        self._thread.start()

    def links(self) -> Links:
        """Ships the current state and returns the pages of the runs; nothing is shipped afterwards until `finish`."""
        self._drain.set()
        self._drained.wait()
        return self._links

    def finish(self, tables: Mapping[str, Path], outcome: Outcome | None = None) -> Shipment:
        """Ships the rest, the sweep's tables and its outcome; returns what could not be shipped."""
        self._tables, self._outcome = tables, outcome
        self._finish.set()
        self._drain.set()
        self._thread.join()
        return self._shipment

    def abandon(self) -> None:
        """Stops without shipping the rest; the next run of the sweep ships it."""
        self._abandoned.set()
        self._finish.set()
        self._drain.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        try:
            self._ship()
        except BaseException as error:  # whatever ends this thread must not look like a complete shipment
            self._shipment = self._lost(f"{type(error).__name__}: {error}")
        finally:
            self._drained.set()

    def _lost(self, reason: str) -> Shipment:
        line = " ".join(redacted(f"shipping failed: {reason}").split())
        return Shipment(pending={folder.identity: line for folder in self._folders})

    def _ship(self) -> None:
        try:
            while not self._drain.wait(0.0 if not self._opened else SHIP_SECONDS):
                if self._open():
                    self._tracker.ship(self._folders)
                elif self._drain.wait(SHIP_SECONDS):
                    break
            if not self._finish.is_set() and self._open():
                self._tracker.ship(self._folders)
                self._links = self._tracker.links
        finally:
            self._drained.set()
        self._finish.wait()
        if self._abandoned.is_set():
            return
        if self._open():
            self._shipment = self._tracker.finish(self._folders, self._tables, outcome=self._outcome)
        self._tracker.close()

    def _open(self) -> bool:
        if not self._opened:
            try:
                self._tracker.open()
                self._opened = True
            except InputError as error:
                reason = error.line
                unsent = {folder.identity: reason for folder in self._folders if folder.path.exists()}
                self._shipment = Shipment(pending=unsent, unreachable=reason)
        return self._opened
