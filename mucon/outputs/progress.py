"""The progress of many recordings on a terminal."""

from __future__ import annotations

import sys
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class TerminalBar:
    """Context manager that shows `progress` and counts its `task`; does nothing if `progress` is None."""

    progress: Progress | None
    task: TaskID

    def __enter__(self) -> Self:
        if self.progress is not None:
            self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.stop()

    def advance(self) -> None:
        """Counts another recording."""
        if self.progress is not None:
            self.progress.advance(self.task)


class Bar(TerminalBar):
    """A progress bar on standard error; nothing if that is no terminal.

    Args:
        total: number of recordings.
        done: how many of them are already predicted.
        shown: whether a bar is wanted.
    """

    def __init__(self, total: int, done: int, *, shown: bool) -> None:
        console = Console(stderr=True)
        self.progress = None
        if shown and console.is_terminal:
            columns = (TextColumn("recording"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn())
            self.progress = Progress(*columns, console=console, redirect_stdout=sys.stdout.isatty())
            self.task = self.progress.add_task("predicting", total=total, completed=done)
