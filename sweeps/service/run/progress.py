"""Progress of a running sweep: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sweeps.service.plan.cells import Cell
from sweeps.service.plan.durations import Passed, seconds_left
from sweeps.service.run.worker import Outcome
from sweeps.service.text import clock, plain, say
from sweeps.service.trials.folder import State
from sweeps.service.trials.reading import LOSS, accuracy_of

LINE_SECONDS = 15.0
"""Interval between progress lines, in seconds."""


@dataclass(slots=True)
class Running:
    """A running trial that has finished an epoch.

    Attributes:
        epoch: the last finished epoch, from 1.
        epochs: number of epochs of the training.
        loss: loss of the last epoch.
        mof: newest MoF on training videos, a fraction; None if not scored yet.
        seconds: seconds of training so far; None if unknown.
    """

    epoch: int
    epochs: int
    loss: float
    mof: float | None = None
    seconds: float | None = None

    @property
    def whole(self) -> Passed | None:
        """The whole training, its seconds extrapolated from the finished epochs; None if they are unknown."""
        return None if self.seconds is None else Passed(self.epochs, self.seconds / self.epoch * self.epochs)

    @property
    def left(self) -> float | None:
        """Expected seconds until the end of the training."""
        return None if self.seconds is None or self.whole is None else self.whole.seconds - self.seconds


class Progress:
    """Shows the progress of trials; a `Listener` of the engine.

    Args:
        console: a terminal, or a file for plain lines.
        cells: key -> cell of each trial; it may grow while the trials run.
        epochs: returns identity -> number of epochs that a training needs, as far as they are known.
        every: seconds between two plain lines about running trials.
    """

    def __init__(
        self,
        console: Console,
        cells: Mapping[str, Cell],
        epochs: Callable[[], Mapping[str, int]] = dict,
        every: float = LINE_SECONDS,
    ) -> None:
        self._console = console
        self._every = every
        self._cells = cells
        self._epochs = epochs
        self._running: dict[str, Running] = {}
        self._ended: set[str] = set()
        self._trained: list[Passed] = []
        self._slots = 1
        self._started = self._printed = time.monotonic()
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def epoch(self, key: str, values: Mapping[str, Any]) -> None:
        """A trial has finished an epoch."""
        earlier = self._running.get(key)
        scored = accuracy_of(values)
        mof = earlier.mof if scored is None and earlier else scored
        self._running[key] = Running(values["epoch"], values["epochs"], values[LOSS], mof, values.get("seconds"))
        self._slots = max(self._slots, len(self._running))
        now = time.monotonic()
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif now - self._printed >= self._every:
            self._printed = now
            running = "; ".join(f"{self._cells[key]}: {_epoch(trial)}" for key, trial in self._running.items())
            say(self._console, f"{self._count()}{self._left()} {running}")

    def ended(self, key: str, outcome: Outcome) -> None:
        """A trial has ended."""
        last = self._running.pop(key, None)
        if last is not None and last.seconds is not None and last.epoch == last.epochs:
            self._trained.append(Passed(last.epochs, last.seconds))
        if outcome.state is State.MISSING:  # stopped before it began
            return
        self._ended.add(key)
        reason = f": {outcome.reason}" if outcome.reason else ""
        say(self._console, f"{self._count()} {self._cells[key]} {outcome.state}{reason}")
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def note(self, text: str, key: str | None = None) -> None:
        """Prints a line about the sweep, or about a trial."""
        say(self._console, f"{self._count()} {text if key is None else f'{self._cells[key]} {text}'}")

    @property
    def running(self) -> dict[str, Running]:
        """Key -> how far a trial is, for each running trial that has finished an epoch; can be read by any thread."""
        return dict(self._running)

    @property
    def seconds_left(self) -> float | None:
        """Expected seconds until the end of the sweep; None if unknown."""
        running = self.running
        waiting = self._trainings(tuple(self._cells)) - self._trainings({*self._ended, *running})
        lefts = [trial.left for trial in running.values() if trial.left is not None]
        trained = [*self._trained, *(trial.whole for trial in running.values() if trial.whole is not None)]
        epochs = self._epochs()
        return seconds_left(lefts, trained, [epochs.get(identity) for identity in waiting], self._slots)

    def _count(self) -> str:
        return f"{clock(time.monotonic() - self._started)} [{len(self._ended)}/{len(self._cells)}]"

    def _left(self) -> str:
        """Expected time until the end of the sweep, as text."""
        left = self.seconds_left
        return "" if left is None else f" about {clock(left)} left;"

    def _trainings(self, keys: Iterable[str]) -> set[str]:
        """Identities of the trainings; several evaluations of a training count once."""
        return {self._cells[key].identity for key in keys}

    def _table(self) -> Table:
        table = Table(
            title=plain(f"{self._count()} trials{self._left().rstrip(';')}", "table.title"), title_justify="left"
        )
        table.add_column("trial")
        for head in ("epoch", "loss", "training MoF", "left"):
            table.add_column(head, justify="right")
        for key, trial in self._running.items():
            table.add_row(plain(self._cells[key]), *_facts(trial))
        return table


def _facts(trial: Running) -> tuple[str, str, str, str]:
    """Epoch, loss, MoF on training videos and time left, as text."""
    mof = "–" if trial.mof is None else f"{100 * trial.mof:.1f} %"
    left = "–" if trial.left is None else clock(trial.left)
    return f"{trial.epoch}/{trial.epochs}", f"{trial.loss:.4f}", mof, left


def _epoch(trial: Running) -> str:
    epoch, loss, mof, left = _facts(trial)
    return f"epoch {epoch} loss {loss} training MoF {mof} left {left}"
