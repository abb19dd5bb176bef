"""Ships results to MLflow from a background thread, so that neither training nor the tables wait for the server."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from mucon.errors import InputError
from sweeps.service.plan.sweep_folder import Links, Outcome
from sweeps.service.text import redacted
from sweeps.service.track.content.changes import Shipment
from sweeps.service.track.server import one_line
from sweeps.service.track.tracker import Tracker
from sweeps.service.trials.folder import TrialFolder

SHIP_SECONDS = 2.0
"""Seconds between two shipments."""
MAX_SHIP_SECONDS = 20.0
"""The same, if looking at the directories takes long, as on a network file system."""
NOTICE_SECONDS = 10.0
"""Seconds without an answer after which the server counts as silent."""
LINKS_SECONDS = 10.0
"""Seconds that the page waits for the addresses of the last runs; twice as long for the first connection."""
END_SECONDS = 15.0
"""Seconds without an answer after which the end of a sweep leaves the rest to the next command."""


class Shipping:
    """Ships trial directories until `finish` or `abandon` is called.

    One thread makes all calls of the tracker. If the server does not respond at the start, each shipment tries again.
    A call that never returns does not hold up the sweep: the thread is left behind. So it is after the time `until` of
    `links` and `finish`, on the monotonic clock.

    Args:
        tracker: the tracker; the thread opens it.
        folders: directories of the sweep's trials, which need not exist yet.
        tell: receives one line when the server stops answering, and one when it answers again.
        waits_for: whether a finished trial can still get results in this sweep; others are not looked at again until
            the end.
    """

    def __init__(
        self,
        tracker: Tracker,
        folders: Sequence[TrialFolder],
        tell: Callable[[str], None] = lambda _: None,
        waits_for: Callable[[TrialFolder], bool] = lambda _: True,
    ) -> None:
        self._tracker = tracker
        self._folders = list(folders)
        self._live: list[TrialFolder] = []
        self._further = deque(folders)
        self._tell, self._waits_for = tell, waits_for
        self._silence: str | None = None
        self._tables: Mapping[str, Path] = {}
        self._outcome: Outcome | None = None
        self._links: Links | None = None
        self._opened = False
        self._drain = threading.Event()
        self._drained = threading.Event()
        self._finish = threading.Event()
        self._abandoned = threading.Event()
        self._done = threading.Event()
        self._shipment = self._lost("the thread that ships has ended")
        self._thread = threading.Thread(target=self._run, name="shipping", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="tracking server", daemon=True).start()

    def add(self, folders: Iterable[TrialFolder]) -> None:
        """Ships further trial directories from now on."""
        further = list(folders)
        self._folders += further
        self._further += further

    def links(self, until: float = math.inf) -> Links | None:
        """Ships the current state and returns the pages of the runs; nothing is shipped afterwards until `finish`.

        None if the server has not answered for a while, or not yet.
        """
        self._drain.set()
        deadline = min(until, time.monotonic() + (LINKS_SECONDS if self._opened else 2 * LINKS_SECONDS))
        while not self._drained.wait(0.05) and time.monotonic() < deadline and self._silence is None:
            pass
        return self._links

    @property
    def known_links(self) -> Links | None:
        """The pages of the runs after `finish`; None if the server has never answered."""
        return self._links

    def finish(self, tables: Mapping[str, Path], outcome: Outcome | None = None, until: float = math.inf) -> Shipment:
        """Ships the rest, the sweep's tables and its outcome; returns what could not be shipped.

        Takes as long as the server answers, and ends `END_SECONDS` after its last answer, or at the time `until`.
        """
        self._tables, self._outcome = tables, outcome
        begun = time.monotonic()
        self._finish.set()
        self._drain.set()
        while not self._done.wait(0.05):
            silent, stopped = time.monotonic() - max(begun, self._tracker.answered), time.monotonic() > until
            if silent > END_SECONDS or stopped:
                reason = self._silence or (None if stopped else f"no answer for {silent:.0f} s")
                rest = [folder for folder in self._folders if not self._opened or not self._tracker.is_current(folder)]
                pending = {folder.identity: reason or "not sent" for folder in rest if folder.path.exists()}
                return Shipment(pending=pending, unreachable=reason, stopped=stopped)
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
            self._heard(f"shipping failed: {type(error).__name__}: {error}")
        finally:
            self._drained.set()
            self._done.set()

    def _lost(self, reason: str) -> Shipment:
        line = " ".join(redacted(f"shipping failed: {reason}").split())
        return Shipment(pending={folder.identity: line for folder in self._folders})

    def _ship(self) -> None:
        pause = 0.0
        while not self._drain.wait(pause):
            begun, was_open = time.monotonic(), self._opened
            self._ship_live()
            took = time.monotonic() - begun if was_open else 0.0
            pause = max(SHIP_SECONDS, min(4 * took, MAX_SHIP_SECONDS))  # at most a fifth of the time
        if not self._finish.is_set() and self._ship_live():
            self._links = self._tracker.links
        self._drained.set()
        self._finish.wait()
        if self._abandoned.is_set():
            return
        if self._open():
            self._shipment = self._tracker.finish(self._folders, self._tables, outcome=self._outcome)
            self._links = self._tracker.links
        self._tracker.close()

    def _ship_live(self) -> bool:
        """Ships the trials that can change; returns whether the server has answered."""
        while self._further:
            self._live.append(self._further.popleft())
        if not self._open():
            return False
        shipment = self._tracker.ship(self._live)
        self._heard(shipment.unreachable)
        self._live = [one for one in self._live if not self._tracker.has_all(one) or self._waits_for(one)]
        return shipment.unreachable is None

    def _open(self) -> bool:
        if not self._opened:
            try:
                self._tracker.open()
                self._opened = True
            except InputError as error:
                reason = error.line if error.__cause__ is None else one_line(error.__cause__)
                self._heard(reason)
                unsent = {folder.identity: reason for folder in self._folders if folder.path.exists()}
                self._shipment = Shipment(pending=unsent, unreachable=reason)
        return self._opened

    def _watch(self) -> None:
        """Notices a request that the server does not answer while it has not failed yet."""
        while not self._done.wait(1.0):
            if self._tracker.waiting > NOTICE_SECONDS and not self._drain.is_set():
                self._heard(f"no answer for {NOTICE_SECONDS:.0f} s")

    def _heard(self, silence: str | None) -> None:
        """Prints one line when the server becomes silent and one when it answers again, until the sweep ends."""
        was, self._silence = self._silence, silence
        if self._drain.is_set() or (was is None) == (silence is None):
            return
        if silence is None:
            self._tell("tracking: the server answers again; what it lacks is sent now")
        else:
            self._tell(
                f"tracking: the server does not answer ({redacted(silence)}); the sweep goes on and sends it later"
            )
