"""What the command line shows: a progress bar on a terminal, plain lines elsewhere, and tables of scores."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from mucon.evaluation import Evaluation
from mucon.training import EpochReport

SHOWN = {
    "mof": "MoF",
    "mof_without_background": "MoF-BG",
    "matching_score": "matching",
    "edit": "Edit",
    "f1_at_10": "F1@10",
    "f1_at_25": "F1@25",
    "f1_at_50": "F1@50",
    "iod": "IoD",
    "iou": "IoU",
}
"""Metrics of the table and their headings."""


class EpochPrinter:
    """Shows each epoch as it ends; use as a context manager."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        console = Console(stderr=True)
        self.progress: Progress | None = None
        if console.is_terminal:
            self.progress = Progress(
                TextColumn("epoch"),
                MofNCompleteColumn(),
                BarColumn(),
                TextColumn("{task.description}"),
                TimeRemainingColumn(),
                console=console,
            )
            self.task = self.progress.add_task("", total=epochs)

    def __enter__(self) -> Self:
        if self.progress is not None:
            self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.progress is not None:
            self.progress.stop()

    def epoch(self, report: EpochReport) -> None:
        """Shows one epoch."""
        losses = "  ".join(f"{name} {value:.3f}" for name, value in report.losses.items())
        if self.progress is not None:
            self.progress.update(self.task, completed=report.epoch, description=f"loss {report.losses['total']:.3f}")
        else:
            print(
                f"epoch {report.epoch}/{report.epochs}  {losses}  {report.steps_per_second:.1f} steps/s",
                file=sys.stderr,
                flush=True,
            )


def print_scores(found: Evaluation) -> None:
    """Prints a table: one row per prediction, metrics in percent, and what was not counted."""
    table = Table(title=f"{len(found.per_video)} recordings, percent", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for heading in SHOWN.values():
        table.add_column(heading, justify="right")
    for prediction, values in found.scores.items():
        table.add_row(prediction, *(f"{100 * values[name]:.1f}" if name in values else "-" for name in SHOWN))
    Console().print(table)
    for prediction, counts in found.undefined.items():
        shown = ", ".join(f"{SHOWN.get(name, name)} {count}" for name, count in counts.items() if count)
        if shown:
            print(f"not defined, and not counted, for {prediction} (recordings): {shown}")
    if found.n_cut:
        print(f"{found.n_cut} transcripts were cut at the longest allowed length")
    if found.n_empty:
        print(f"{found.n_empty} recordings got an empty transcript: their frames count as wrong")
