"""The tracking of one run of a sweep, from the check before it to the record of what was shipped after it."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from mucon.errors import InputError
from sweeps.service.plan.sweep_folder import (
    Outcome,
    Shipped,
    SweepCells,
    SweepInfo,
    SweepRecord,
    mark_shipped,
    read_sweep,
    write_links,
    write_sweep,
)
from sweeps.service.text import redacted
from sweeps.service.track.server import checked_uri, exists
from sweeps.service.track.shipping import Shipping
from sweeps.service.track.tracker import TRACKING_EXPERIMENT, Tracker
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.seen import journal_bytes


def is_tracked(cells: SweepCells, uri: str | None) -> bool:
    """Whether a tracking server shows the whole sweep, by the record of what was shipped; does not ask the server.

    Args:
        cells: cells of the sweep.
        uri: address of the server; None: nothing is tracked, and the sweep only has to be recorded for `sync`.
    """
    record = _record(cells)
    if uri is None:
        return record is not None and cells.rows.items() <= record.rows.items()
    uri = checked_uri(uri)
    shipped = _shipped(record, uri)
    return (
        exists(uri)
        and shipped.sweep == cells.digest
        and all(shipped.trials.get(folder.identity, 0) == journal_bytes(folder) for folder in cells.folders)
    )


class Tracked:
    """Tracks a run of a sweep; a context manager that ships while the trials run.

    Args:
        cells: cells of the sweep.
        info: facts for the tracking server.
        uri: address of the server; None: nothing is tracked.
        tell: receives the lines for the terminal.

    Raises:
        InputError: an unsupported address, or a sweep's name that is not a valid tag.
    """

    def __init__(self, cells: SweepCells, info: SweepInfo, uri: str | None, tell: Callable[[str], None]) -> None:
        self._labels = {row: dict(labels) for row, labels in cells.labels.items()}
        info = replace(info, labels=self._labels)
        self._cells, self._info, self._tell = cells, info, tell
        self._tracker: Tracker | None = None
        self._shipping: Shipping | None = None
        if uri is not None:
            shipped = _shipped(_record(cells), checked_uri(uri)).trials
            self._tracker = Tracker(uri, TRACKING_EXPERIMENT, info, cells.rows, cells.results, shipped)

    @property
    def address(self) -> str:
        """The server without its password, or `off`."""
        return "off" if self._tracker is None else redacted(self._tracker.uri)

    def check(self) -> None:
        """Sends one request to the server.

        Raises:
            InputError: the server does not answer, is no MLflow server or rejects the request.
        """
        if self._tracker is not None:
            self._tracker.check()

    def record(self) -> None:
        """Records the sweep in the results folder, from which `sync` can ship it."""
        write_sweep(self._cells.results, self._info, TRACKING_EXPERIMENT, self._cells.rows)

    def extend(self, cells: SweepCells) -> None:
        """Tracks further cells, and records them.

        Args:
            cells: all cells of the sweep.
        """
        further = [folder for folder in cells.folders if folder.identity not in self._cells.rows]
        self._cells = cells
        self._labels.update({row: dict(labels) for row, labels in cells.labels.items() if row not in self._labels})
        self.record()
        if self._tracker is not None:
            self._tracker.rows.update(cells.rows)
        if self._shipping is not None:
            self._shipping.add(further)

    def forget(self) -> None:
        """Records that the server lacks the report, so that the next command ships it if a kill prevents this one."""
        if self._tracker is not None:
            with contextlib.suppress(InputError, OSError):  # without the record the next command compares anyway
                shipped = _shipped(_record(self._cells), self._tracker.uri)
                mark_shipped(self._cells.folder, self._tracker.uri, replace(shipped, sweep=""))

    def __enter__(self) -> Tracked:
        if self._tracker is not None:
            self._shipping = Shipping(self._tracker, self._cells.folders, self._tell, self._waits_for)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._shipping is not None:
            self._shipping.abandon()

    def write_links(self, until: float = math.inf) -> None:
        """Writes the addresses of the runs, for the page; earlier ones stay if the server does not answer.

        Args:
            until: see `Shipping`.
        """
        links = None if self._shipping is None else self._shipping.links(until)
        if links is not None:
            write_links(self._cells.folder, links)

    def finish(self, tables: Mapping[str, Path], outcome: Outcome, until: float = math.inf) -> bool:
        """Ships the rest and says what could not be shipped, or how to ship what was not tracked.

        Args:
            tables: name -> file.
            outcome: what the sweep has found.
            until: see `Shipping`.

        Returns:
            Whether the server has everything; true if nothing is tracked.
        """
        results = self._cells.results.path
        if self._tracker is None or self._shipping is None:
            self._tell(f"not tracked; to send it to MLflow later: mucon-sweeps sync {shlex.quote(str(results))}")
            return True
        shipment = self._shipping.finish(tables, outcome, until)
        for line in shipment.lines(results, self._tracker.uri):
            self._tell(line)
        if shipment.complete and self._shipping.known_links is not None:  # `links` may have been too early
            write_links(self._cells.folder, self._shipping.known_links)
        shown = self._cells.digest if shipment.complete else ""
        with contextlib.suppress(InputError, OSError):  # without the record the next command compares again
            mark_shipped(self._cells.folder, self._tracker.uri, Shipped(sweep=shown, trials=self._tracker.settled))
        return shipment.complete

    def _waits_for(self, folder: TrialFolder) -> bool:
        """Whether an evaluation of this sweep is missing in a trial's directory."""
        return not all(folder.result_path(name).exists() for name in self._cells.evaluations.get(folder.identity, ()))


def _record(cells: SweepCells) -> SweepRecord | None:
    """The record of a sweep; None without one, or if it is damaged."""
    try:
        return read_sweep(cells.folder)
    except InputError:
        return None


def _shipped(record: SweepRecord | None, uri: str) -> Shipped:
    """What the server at an address shows of a sweep."""
    return Shipped() if record is None else record.shipped.get(redacted(uri), Shipped())
