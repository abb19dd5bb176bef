"""A sweep's table: mean±std over seeds, what is missing and why, on a terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rich.table
from rich.console import Console
from rich.measure import Measurement

from sweeps.service.experiment import Cell, Column, Experiment, Variant
from sweeps.service.recordings import SplitData
from sweeps.service.trial_folder import State

BLIND = "transcript prior, equal lengths"
"""The row of the prediction that sees no feature; what is not above it has learnt nothing."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a cell: its state, the reason for it, and where it is finished its values.

    Those are by prediction and metric, see `shown_values`.
    """

    state: State
    reason: str | None = None
    scores: Mapping[str, Mapping[str, float]] | None = None


def shown_values(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """What a table can show of a trial's result, by prediction and metric.

    The scores, and beside them `training_seconds` and, where it was measured, `inference_seconds` for a video.
    """
    seconds = result.get("seconds", {})
    return {
        prediction: {
            **scores,
            "training_seconds": result["train_seconds"],
            **({"inference_seconds": seconds[prediction]} if prediction in seconds else {}),
        }
        for prediction, scores in result["scores"].items()
    }


@dataclass(frozen=True, slots=True)
class Summary:
    """A score over seeds.

    Attributes:
        mean: of the seeds' values, a fraction.
        std: sample standard deviation (n - 1), None with one seed.
        n: seeds.
    """

    mean: float
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary | None:
        """Mean and deviation of at least one value, or None.

        >>> Summary.of([0.25, 0.75, 0.5])
        Summary(mean=0.5, std=0.25, n=3)
        """
        if not values:
            return None
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def text(self, unit: str) -> str:
        """As the field prints it.

        >>> Summary(0.4901, 0.0203, 5).text("percent"), Summary(0.774, 0.006, 5).text("fraction")
        ('49.0±2.0', '0.774±0.006')
        """
        if unit == "seconds":
            mean = f"{self.mean:.3g}"
            return mean if self.std is None else f"{mean}±{self.std:.2g}"
        scale, digits = {"percent": (100, 1), "fraction": (1, 3), "frames": (1, 1)}[unit]
        mean = f"{scale * self.mean:.{digits}f}"
        return mean if self.std is None else f"{mean}±{scale * self.std:.{digits}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row: its labels, a summary for each column (None: no value), and how many seeds are whole."""

    labels: tuple[str, ...]
    summaries: tuple[Summary | None, ...]
    seeds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as values.

    Attributes:
        title: the caption.
        label_titles: heads of the label columns.
        columns: the scores.
        rows: the experiment's, then the blind baseline.
        notes: lines under it: what a score is measured on, and every cell that has no value, with its reason.
    """

    title: str
    label_titles: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def make_table(
    experiment: Experiment, cells: Sequence[Cell], known: Mapping[str, Known], splits: Mapping[str, SplitData]
) -> Table:
    """The table of what is known.

    A seed counts in a row when every split of it is finished (its value is the mean over the splits). One that is not
    is left out of the mean, and the row and a note say so.

    Args:
        experiment: the table's shape.
        cells: all that belong to it.
        known: of each cell, by the trial's key.
        splits: of the store, in the order of the cells.
    """
    rows = [
        _row(variant, experiment.columns, [cell for cell in cells if cell.variant is variant], known)
        for variant in experiment.variants
    ]
    return Table(
        title=experiment.title,
        label_titles=experiment.label_titles,
        columns=experiment.columns,
        rows=(*rows, _blind_row(experiment, list(splits.values()))),
        notes=(*_data_notes(splits), *_missing_notes(cells, known)),
    )


def for_terminal(table: Table, console: Console) -> rich.table.Table:
    """The table without its notes; where the terminal is narrow, deviations stand under their means."""
    wide = _drawn(table, "±", padding=1)
    width = Measurement.get(console, console.options.update(max_width=10**4), wide).maximum
    return wide if width <= console.width else _drawn(table, "\n±", padding=0)


def _drawn(table: Table, deviation: str, padding: int) -> rich.table.Table:
    shown = rich.table.Table(title=table.title, title_justify="left", header_style="bold", padding=(0, padding))
    for title in table.label_titles:
        shown.add_column(title)
    for title in (*(column.title for column in table.columns), "seeds"):
        shown.add_column(title, justify="right")
    for row in table.rows:
        if row is table.rows[-1]:
            shown.add_section()
        labels = len(row.labels)
        texts = _texts(table, row)
        shown.add_row(*texts[:labels], *(text.replace("±", deviation) for text in texts[labels:]))
    return shown


def markdown(table: Table) -> str:
    """The table with its notes, as Markdown."""
    heads = [*table.label_titles, *(column.title for column in table.columns), "seeds"]
    rules = ["---"] * len(table.label_titles) + ["---:"] * (len(table.columns) + 1)
    lines = [f"**{table.title}**", "", _line(heads), _line(rules)]
    lines += [_line(_texts(table, row)) for row in table.rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in table.notes), ""])


def comma_separated(table: Table) -> str:
    """The table as CSV: fractions with all their digits, mean, std and seeds of each score in columns of their own."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f"{column.prediction}.{column.metric}" for column in table.columns]
    writer.writerow([*table.label_titles, *(f"{name}.{part}" for name in names for part in ("mean", "std", "n"))])
    for row in table.rows:
        values = [
            value
            for summary in row.summaries
            for value in (("", "", 0) if summary is None else (summary.mean, summary.std, summary.n))
        ]
        writer.writerow([*row.labels, *values])
    return text.getvalue()


def _row(variant: Variant, columns: Sequence[Column], cells: Sequence[Cell], known: Mapping[str, Known]) -> Row:
    seeds = sorted({cell.seed for cell in cells})
    whole = [seed for seed in seeds if all(known[c.key].scores for c in cells if c.seed == seed)]
    summaries = []
    for column in columns:
        values = []
        for seed in whole:
            of_seed = [_value(known[cell.key], column, variant) for cell in cells if cell.seed == seed]
            defined = [value for value in of_seed if value is not None]
            if len(defined) == len(of_seed):
                values.append(statistics.fmean(defined))
        summaries.append(Summary.of(values))
    count = str(len(seeds)) if len(whole) == len(seeds) else f"{len(whole)} of {len(seeds)}"
    return Row(labels=variant.labels, summaries=tuple(summaries), seeds=count)


def _value(known: Known, column: Column, variant: Variant) -> float | None:
    if known.scores is None:
        return None
    return known.scores[variant.prediction or column.prediction].get(column.metric)


def _blind_row(experiment: Experiment, splits: Sequence[SplitData]) -> Row:
    summaries: list[Summary | None] = []
    for column in experiment.columns:
        values = [split.blind[column.metric] for split in splits if column.metric in split.blind]
        whole = column.prediction == "full" and len(values) == len(splits)
        summaries.append(Summary(statistics.fmean(values), None, 1) if whole else None)
    labels = (BLIND, *("" for _ in experiment.label_titles[1:]))
    return Row(labels=labels, summaries=tuple(summaries), seeds="")


def _data_notes(splits: Mapping[str, SplitData]) -> Iterator[str]:
    for name, split in splits.items():
        yield (
            f"split {name}: {split.n_train} training and {split.n_test} test videos; commonest action "
            f"{split.commonest!r} has {100 * split.commonest_share:.1f} % of the test frames"
        )


def _missing_notes(cells: Sequence[Cell], known: Mapping[str, Known]) -> Iterator[str]:
    for cell in cells:
        there = known[cell.key]
        if there.scores is None:
            reason = f": {there.reason}" if there.reason else ""
            yield f"{cell} is {there.state} and not averaged{reason} (trials/{cell.identity})"


def _texts(table: Table, row: Row) -> list[str]:
    shown = zip(row.summaries, table.columns, strict=True)
    values = ["–" if summary is None else summary.text(column.unit) for summary, column in shown]
    return [*row.labels, *values, row.seeds]


def _line(items: Sequence[Any]) -> str:
    return "| " + " | ".join(str(item).replace("|", "\\|") for item in items) + " |"
