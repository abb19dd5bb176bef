"""The page of a running sweep: progress, states and tables so far, without figures; the browser loads it again."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from sweeps.service.plan.cells import Cell
from sweeps.service.plan.sweep_folder import LIVE_PAGE
from sweeps.service.report.page_tables import Head, Item, score_table, sortable
from sweeps.service.run.progress import Running
from sweeps.service.run.worker import Outcome
from sweeps.service.tables.table import Table
from sweeps.service.text import clock
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State

RELOAD_SECONDS = 15
"""Seconds after which a browser loads the page again."""
EVERY_SECONDS = 30.0
"""Seconds between two versions while no trial ends."""
SOONEST_SECONDS = 2.0
"""Seconds between two versions while trials end."""
COST = 0.05
"""Largest share of the time that making the page may take."""
ENDED_BADLY = (State.FAILED, State.DIVERGED, State.DAMAGED, State.LOST)


class LivePage:
    """Writes the page of a running sweep when a trial has ended, and now and then; a listener of its trials.

    A page of thousands of cells takes a while to make, so that it is made the more seldom the longer it takes.

    Args:
        folder: the sweep's directory.
        make: returns the page for the keys of the trials that have ended since its last call, and the time in seconds
            after which the browser loads it again, or None.
        now: seconds on a clock.
    """

    def __init__(
        self, folder: Path, make: Callable[[Sequence[str], int | None], str], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._make = make
        self._now = now
        self._ended: deque[str] = deque()
        self._written = self._soonest = float("-inf")

    def epoch(self, key: str, values: Mapping[str, object]) -> None:
        """A trial has finished an epoch, which the next version shows."""

    def note(self, text: str, key: str | None = None) -> None:
        """Does nothing."""

    def ended(self, key: str, outcome: Outcome) -> None:
        """A trial has ended."""
        self._ended.append(key)

    def check(self) -> None:
        """Writes a new version if it is time; called again and again beside the sweep."""
        begun = self._now()
        if begun < self._soonest or not (self._ended or begun - self._written >= EVERY_SECONDS):
            return
        self._write(RELOAD_SECONDS)
        self._written = self._now()
        self._soonest = self._written + max(SOONEST_SECONDS, (self._written - begun) / COST)

    def close(self) -> None:
        """Writes a last version, which stays as it is."""
        self._write(None)

    def _write(self, reload_seconds: int | None) -> None:
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        write_live(self._folder, self._make(ended, reload_seconds))


def write_live(folder: Path, page: str) -> None:
    """Writes the page into a sweep's directory, atomically."""
    temporary = folder / f".{LIVE_PAGE}.{os.getpid()}"
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(folder / LIVE_PAGE)


def live_about(
    name: str, states: Counter[State], *, started: float, left: float | None, budget: Sequence[str], is_over: bool
) -> Iterator[str]:
    """The paragraphs below the heading.

    Args:
        name: name of the sweep.
        states: state -> number of cells.
        started: when the command began, seconds since 1970.
        left: expected seconds until the end; None if unknown.
        budget: lines about the budget.
        is_over: whether the sweep has ended.
    """
    total, finished = states.total(), states[State.FINISHED]
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()) if count)
    moment = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    now = "ended" if is_over else "running"
    yield f"<p>Sweep <strong>{escape(name)}</strong>: {now}, {counts}</p>"
    bar = f"<progress max='{total}' value='{finished}' aria-label='finished trials'></progress>"
    rest = "" if left is None else f", about {clock(left)} left"
    yield f"<p>{bar} {finished} of {total} finished after {clock(time.time() - started)}{rest}</p>"
    yield from (f"<p>{escape(line)}</p>" for line in budget)
    yield f"<p>Written {moment}; a page that is much older belongs to a sweep that was killed.</p>"


def live_sections(
    cells: Mapping[str, Cell],
    results: Mapping[str, CellResult],
    running: Mapping[str, Running],
    tables: Sequence[Table],
) -> Iterator[tuple[str, str, str]]:
    """Anchor, title and markup of each section: running trials, tables so far, and trials that ended badly.

    Args:
        cells: key -> cell.
        results: states and scores by key.
        running: key -> how far a trial is.
        tables: the tables so far.
    """
    if running:
        heads = [Head("trial"), Head("split"), Head("seed", number=True), Head("epoch", number=True)]
        heads += [Head(title, number=True) for title in ("training loss", "training MoF", "left")]
        rows = [[*_name(cells[key]), *_facts(trial)] for key, trial in running.items()]
        yield "running", f"Running ({len(running)})", sortable("Running trials", heads, rows)
    for index, table in enumerate(tables):
        yield f"table-{index}", f"{table.title} (so far)", score_table(table)
    bad = [(key, result) for key, result in results.items() if result.state in ENDED_BADLY]
    if bad:
        heads = [Head("trial"), Head("split"), Head("seed", number=True), Head("state"), Head("reason"), Head("folder")]
        rows = [
            [
                *_name(cells[key]),
                Item(str(result.state), kind="bad"),
                Item(result.reason or ""),
                Item(f"trials/{cells[key].identity}", kind="code"),
            ]
            for key, result in bad
        ]
        yield "failed", f"Failed trials ({len(bad)})", sortable("Failed trials", heads, rows)


def _name(cell: Cell) -> list[Item]:
    return [Item(cell.variant.name), Item(cell.split), Item(str(cell.seed), number=cell.seed)]


def _facts(trial: Running) -> list[Item]:
    mof, left = trial.mof, trial.left
    return [
        Item(f"{trial.epoch}/{trial.epochs}", number=trial.epoch),
        Item(f"{trial.loss:.4f}", number=trial.loss),
        Item("–", sorts=False) if mof is None else Item(f"{100 * mof:.1f} %", number=mof),
        Item("–", sorts=False) if left is None else Item(clock(left), number=left),
    ]
