"""Output for people: a progress bar or lines during training, and tables of scores."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from mucon.evaluation import NOTHING, Evaluation
from mucon.metrics.catalogue import Task, printed_metrics
from mucon.metrics.confusion import cells_of
from mucon.outputs.progress import TerminalBar
from mucon.training import EpochReport
from mucon.training.label_free import PREFIX

MATRIX_UP_TO = 8
"""Largest number of actions for which the whole confusion matrix is printed."""


class EpochPrinter(TerminalBar):
    """Context manager that reports epochs: a progress bar on a terminal, lines on standard error elsewhere.

    Args:
        epochs: epochs of the run.
        n_steps: videos of an epoch; the bar counts them.
    """

    def __init__(self, epochs: int, n_steps: int) -> None:
        self.n_steps = n_steps
        self.rate: float | None = None
        self.scores: dict[str, float] = {}
        console = Console(stderr=True)
        self.progress = None
        if console.is_terminal:
            self.progress = Progress(
                TextColumn("video"),
                MofNCompleteColumn(),
                BarColumn(),
                TextColumn("{task.description}"),
                TimeRemainingColumn(),
                console=console,
            )
            self.task = self.progress.add_task("training", total=epochs * n_steps)

    def epoch(self, report: EpochReport) -> None:
        """Reports a finished epoch: losses, learning rate and the last scores on training videos.

        Accuracies are in percent; scores without labels, of which some are log probabilities, are not.
        """
        self.scores |= report.progress
        rate = f"rate {report.learning_rate:g}"
        if self.progress is not None:
            if self.rate not in (None, report.learning_rate):
                self.progress.console.print(f"epoch {report.epoch}: learning rate {report.learning_rate:g}")
            mof = [f"MoF {100 * value:.1f}" for name, value in self.scores.items() if name.endswith(".mof")][-1:]
            parts = [f"epoch {report.epoch}/{report.epochs}", f"loss {report.losses['total']:.3f}", *mof, rate]
            self.progress.update(self.task, completed=report.epoch * self.n_steps, description="  ".join(parts))
        else:
            losses = [f"{name} {value:.3f}" for name, value in report.losses.items()]
            scores = [
                f"training {name} {f'{value:.3f}' if name.startswith(PREFIX) else f'{100 * value:.1f}'}"
                for name, value in report.progress.items()
            ]
            parts = [f"epoch {report.epoch}/{report.epochs}", *losses, rate, *scores]
            print("  ".join([*parts, f"{report.steps_per_second:.1f} steps/s"]), file=sys.stderr, flush=True)
        self.rate = report.learning_rate


def print_table_of_scores(
    n_recordings: int, scores: Mapping[str, Mapping[str, float]], task: Task = "segmentation"
) -> None:
    """Prints a table with one row per prediction, metrics in percent.

    Args:
        n_recordings: number of scored recordings.
        scores: prediction -> metric -> value.
        task: selects the metrics.
    """
    metrics = printed_metrics(task)
    table = _table(f"{n_recordings} recordings, {'alignment, ' if task == 'alignment' else ''}percent")
    table.add_column("", no_wrap=True)
    for metric in metrics:
        table.add_column(metric.narrow_title, justify="right")
    for prediction, values in scores.items():
        table.add_row(prediction, *(_percent(values.get(metric.name)) for metric in metrics))
    Console().print(table)


def print_scores(evaluation: Evaluation) -> None:
    """Prints a table with one row per prediction, metrics in percent, and what its means exclude."""
    task: Task = "alignment" if evaluation.task == "alignment" else "segmentation"
    print_table_of_scores(len(evaluation.per_video), evaluation.scores, task)
    for prediction, counts in evaluation.undefined.items():
        undefined: dict[int, list[str]] = {}
        for metric in printed_metrics(task):
            if counts.get(metric.name):
                undefined.setdefault(counts[metric.name], []).append(metric.narrow_title)
        if undefined:
            counted = "; ".join(f"{count} for {', '.join(titles)}" for count, titles in undefined.items())
            print(f"{prediction}: recordings that are undefined and excluded from the mean: {counted}")
    for prediction, values in evaluation.scores.items():
        if "log_length_error" in values:
            correlation = values.get("length_correlation")
            text = "no correlation" if correlation is None else f"correlation {correlation:+.2f}"
            print(f"{prediction}: log lengths: {text}, mean error {values['log_length_error']:.2f}")
    for prediction, reasons in evaluation.not_predicted.items():
        if reasons:
            first, reason = next(iter(reasons.items()))
            print(f"{prediction}: recordings without this prediction: {len(reasons)}, first {first!r}: {reason}")
    if evaluation.n_without_lengths:
        nothing = sum(row["annotation"] == NOTHING for row in evaluation.per_video)
        print(
            f"recordings without true lengths: {evaluation.n_without_lengths}, of which without transcript: {nothing}"
        )
    if evaluation.n_cut:
        print(f"transcripts truncated at the maximum length: {evaluation.n_cut}")
    if evaluation.n_empty:
        print(f"recordings with an empty transcript, whose frames count as wrong: {evaluation.n_empty}")


def print_details(evaluation: Evaluation) -> None:
    """Prints boundary errors, and a table of the actions per prediction."""
    console = Console()
    console.print(boundary_table(evaluation))
    for prediction in evaluation.confusion:
        console.print(action_table(evaluation, prediction))


def boundary_table(evaluation: Evaluation) -> Table:
    """Mean and median boundary errors per prediction, in frames and, if the frame rate is known, in seconds."""
    names = list(next(iter(evaluation.undefined.values()), {}))
    units = [unit for unit in ("frames", "seconds") if f"boundary_error_{unit}" in names]
    kinds = [kind for kind in ("boundary_error", "boundary_error_by_index") if f"{kind}_frames" in names]
    table = _table(f"boundary errors, {' and '.join(units)}")
    table.add_column("", no_wrap=True)
    table.add_column("boundary", no_wrap=True)
    for unit in units:
        for statistic in ("mean", "median"):
            table.add_column(f"{statistic} {'s' if unit == 'seconds' else unit}", justify="right", no_wrap=True)
    table.add_column("undefined in", justify="right")
    for prediction, values in evaluation.scores.items():
        for kind in kinds:
            cells = [values.get(f"{kind}{statistic}_{unit}") for unit in units for statistic in ("", "_median")]
            table.add_row(
                prediction,
                "nearest" if kind == "boundary_error" else "by index",
                *("-" if cell is None else f"{cell:.2f}" for cell in cells),
                str(evaluation.undefined[prediction][f"{kind}_frames"]),
            )
    return table


def action_table(evaluation: Evaluation, prediction: str) -> Table:
    """Recall, precision and confusion of each true or predicted action, in percent of its true frames.

    Recordings that do not have the prediction are left out.

    Up to `MATRIX_UP_TO` actions, the confusion matrix has a column per predicted action, headed by its number; beyond,
    only the three most frequent confusions are listed. The table fits into 80 columns.
    """
    rows: dict[int, dict[int, int]] = {}
    for (true, predicted), count in cells_of(evaluation.confusion[prediction], len(evaluation.true_frames)).items():
        rows.setdefault(true, {})[predicted] = count
    recall, precision = (list(values[prediction].values()) for values in (evaluation.recall, evaluation.precision))
    frames = list(evaluation.true_frames.values())
    ever_predicted = {j for row in rows.values() for j in row}
    occurring = [i for i in range(len(frames)) if frames[i] or i in ever_predicted]
    names = [escape(name) for name in evaluation.true_frames]
    as_matrix = len(occurring) <= MATRIX_UP_TO
    table = _table(
        f"{prediction}: actions, percent{'; columns: predicted as' * as_matrix}", padding=0 if as_matrix else 1
    )
    table.add_column("action", no_wrap=True, overflow="ellipsis", max_width=20)
    for heading in ("frames", "recall", "precision"):
        table.add_column(heading, justify="right", no_wrap=True)
    if as_matrix:
        for column in occurring:
            table.add_column(f"{column}", justify="right", no_wrap=True, min_width=3)
    else:
        table.add_column("confused with")
    for i in occurring:
        row = rows.get(i, {})
        whole = sum(row.values()) if evaluation.not_predicted.get(prediction) else frames[i]
        shares = {j: 100 * row.get(j, 0) / max(whole, 1) for j in occurring}
        others = sorted((j for j in row if j != i), key=lambda j: (-row[j], j))[:3]
        table.add_row(
            f"{i} {names[i]}" if as_matrix else names[i],
            str(frames[i]),
            _percent(recall[i]),
            _percent(precision[i]),
            *(
                [f"{shares[j]:.0f}" for j in occurring]
                if as_matrix
                else [", ".join(f"{names[j]} {shares[j]:.0f}" for j in others)]
            ),
        )
    return table


def _table(title: str, padding: int = 1) -> Table:
    """A table with a line below its headings; `padding` is the space to the right of a column, besides one."""
    return Table(title=title, box=box.SIMPLE_HEAD, padding=(0, padding, 0, 0))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
