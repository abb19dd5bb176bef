"""What the command line shows: a progress bar on a terminal, plain lines elsewhere, and tables of scores."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console
from rich.markup import escape
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
SHOWN_IN_ALIGNMENT = {
    **{name: heading for name, heading in SHOWN.items() if name not in ("matching_score", "edit", "iod", "iou")},
    "iod": "IoD",
    "iou": "IoU",
    "iod_by_index": "IoD idx",
    "iou_by_index": "IoU idx",
}
"""The same for alignment, where the transcripts are right anyway; `idx` pairs segment m with segment m."""
MATRIX_UP_TO = 8
"""Actions up to which the confusion matrix is shown whole."""


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
    shown = SHOWN_IN_ALIGNMENT if found.task == "alignment" else SHOWN
    title = f"{len(found.per_video)} recordings, {'alignment, ' * (found.task == 'alignment')}percent"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for heading in shown.values():
        table.add_column(heading, justify="right")
    for prediction, values in found.scores.items():
        table.add_row(prediction, *(f"{100 * values[name]:.1f}" if name in values else "-" for name in shown))
    Console().print(table)
    for prediction, counts in found.undefined.items():
        missing = ", ".join(
            f"{shown.get(name, name)} {count}"
            for name, count in counts.items()
            if count and not name.startswith("boundary_error")
        )
        if missing:
            print(f"not defined, and not counted, for {prediction} (recordings): {missing}")
    if found.n_cut:
        print(f"{found.n_cut} transcripts were cut at the longest allowed length")
    if found.n_empty:
        print(f"{found.n_empty} recordings got an empty transcript: their frames count as wrong")


def print_details(found: Evaluation) -> None:
    """Prints how far boundaries are off, and for each prediction a table of the actions."""
    console = Console()
    console.print(boundary_table(found))
    for prediction in found.confusion:
        console.print(action_table(found, prediction))


def boundary_table(found: Evaluation) -> Table:
    """Boundary errors: mean and median in frames and, where they are known, in seconds, per prediction."""
    names = list(next(iter(found.undefined.values()), {}))
    units = [unit for unit in ("frames", "seconds") if f"boundary_error_{unit}" in names]
    kinds = [kind for kind in ("boundary_error", "boundary_error_by_index") if f"{kind}_frames" in names]
    table = Table(title=f"boundary errors, {' and '.join(units)}", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("boundary", no_wrap=True)
    for unit in units:
        for kind_of_mean in ("mean", "median"):
            table.add_column(f"{kind_of_mean} {'s' if unit == 'seconds' else unit}", justify="right", no_wrap=True)
    table.add_column("not defined in", justify="right")
    for prediction, values in found.scores.items():
        for kind in kinds:
            cells = [values.get(f"{kind}{middle}_{unit}") for unit in units for middle in ("", "_median")]
            table.add_row(
                prediction,
                "nearest" if kind == "boundary_error" else "by index",
                *("-" if cell is None else f"{cell:.2f}" for cell in cells),
                str(found.undefined[prediction][f"{kind}_frames"]),
            )
    return table


def action_table(found: Evaluation, prediction: str) -> Table:
    """Recall, precision and confusion of each action that is true or predicted, in percent of its true frames.

    With few actions the whole row of the confusion matrix stands there (a column for each action in the order of the
    rows), otherwise the three actions that it is taken for most often.
    """
    confusion = found.confusion[prediction]
    recall, precision = (list(values[prediction].values()) for values in (found.recall, found.precision))
    frames = list(found.true_frames.values())
    kept = [i for i in range(len(frames)) if frames[i] or any(row[i] for row in confusion)]
    names = [escape(name) for name in found.true_frames]
    whole = len(kept) <= MATRIX_UP_TO
    table = Table(title=f"{prediction}: actions, percent", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("action", no_wrap=True, overflow="ellipsis", max_width=20)
    for heading in ("frames", "recall", "precision"):
        table.add_column(heading, justify="right", no_wrap=True)
    if whole:
        for column in kept:
            table.add_column(f"as {column}", justify="right", no_wrap=True)
    else:
        table.add_column("taken for")
    for i in kept:
        shares = [100 * count / max(frames[i], 1) for count in confusion[i]]
        others = sorted((j for j in kept if j != i and confusion[i][j]), key=lambda j: -confusion[i][j])[:3]
        table.add_row(
            f"{i} {names[i]}" if whole else names[i],
            str(frames[i]),
            _percent(recall[i]),
            _percent(precision[i]),
            *(
                [f"{shares[j]:.0f}" for j in kept]
                if whole
                else [", ".join(f"{names[j]} {shares[j]:.0f}" for j in others)]
            ),
        )
    return table


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
