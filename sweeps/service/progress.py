"""What a sweep says while it runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sweeps.service.trial_folder import State
from sweeps.service.worker import Outcome

EVERY = 15.0
"""Seconds between two plain lines about running trials."""


@dataclass(slots=True)
class Running:
    """A trial that has reported: its last epoch and loss."""

    epoch: int
    epochs: int
    loss: float


class Progress:
    """Shows how trials are getting on; a `Listener` of the engine.

    Args:
        console: a terminal, or a file for plain lines.
        names: key -> what a trial is called.
    """

    def __init__(self, console: Console, names: Mapping[str, str]) -> None:
        self._console = console
        self._names = names
        self._running: dict[str, Running] = {}
        self._ended: set[str] = set()
        self._began = self._told = time.monotonic()
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def epoch(self, key: str, values: Mapping[str, Any]) -> None:
        """A trial has finished an epoch."""
        self._running[key] = Running(values["epoch"], values["epochs"], values["loss.total"])
        now = time.monotonic()
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif now - self._told >= EVERY:
            self._told = now
            running = "; ".join(f"{self._names[key]}: {_epoch(trial)}" for key, trial in self._running.items())
            self._print(f"{self._count()} {running}")

    def ended(self, key: str, outcome: Outcome) -> None:
        """A trial has ended."""
        self._running.pop(key, None)
        if outcome.state is State.MISSING:  # a stop came before it had begun
            return
        self._ended.add(key)
        reason = f": {outcome.reason}" if outcome.reason else ""
        self._print(f"{self._count()} {self._names[key]} {outcome.state}{reason}")
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def _count(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes}:{seconds:02} [{len(self._ended)}/{len(self._names)}]"

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table(title=f"{self._count()} trials", title_justify="left")
        table.add_column("trial")
        table.add_column("epoch", justify="right")
        table.add_column("loss", justify="right")
        for key, trial in self._running.items():
            table.add_row(self._names[key], f"{trial.epoch}/{trial.epochs}", f"{trial.loss:.4f}")
        return table


def _epoch(trial: Running) -> str:
    return f"epoch {trial.epoch}/{trial.epochs} loss {trial.loss:.4f}"
