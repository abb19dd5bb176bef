"""A table as text: for terminals, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import replace

import rich.table
from rich.console import Console
from rich.measure import Measurement

from mucon.metrics.catalogue import Unit
from sweeps.service.stats.comparisons import Comparison
from sweeps.service.stats.significance import Outcome
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.table import Row, Table
from sweeps.service.text import in_markdown, plain

NOTHING = "–"
"""Text of a field without a value."""
CSV_PARTS = (
    "mean",
    "std",
    "n",
    "low",
    "high",
    "bold",
    "p_seeds",
    "p_seeds_holm",
    "p_paper",
    "p_paper_holm",
    "p_best",
)
"""CSV columns of each score: mean and deviation over n seeds, ends of the 95 % interval (empty with few seeds; of
shares within 0 and 1), whether it is bold; p against the default row by Welch's test over seeds and by the paper's
test, before and after Holm's adjustment; adjusted p of Welch's test against the best row."""


def for_terminal(table: Table, console: Console) -> rich.table.Table:
    """The table without its notes; on a narrow terminal, deviations are printed under their means."""
    wide = _drawn(table, "±", padding=1)
    width = Measurement.get(console, console.options.update(max_width=10**4), wide).maximum
    return wide if width <= console.width else _drawn(table, "\n±", padding=0)


def shortened(table: Table, most: int) -> Table:
    """The table with its best rows in the first column, and the default row; in their order."""

    def rank(row: Row) -> tuple[bool, bool, float]:
        summary, sign = row.summaries[0], -1 if table.columns[0].higher_is_better else 1
        return not row.default, summary is None, 0.0 if summary is None else sign * summary.mean

    rows = [row for row in table.rows if row.kind == "row"]
    kept = sorted(rows, key=rank)[:most]
    return replace(table, rows=tuple(row for row in table.rows if row.kind != "row" or row in kept))


def _drawn(table: Table, deviation: str, padding: int) -> rich.table.Table:
    drawn = rich.table.Table(
        title=plain(table.title, "table.title"), title_justify="left", header_style="bold", padding=(0, padding)
    )
    for title in table.label_heads:
        drawn.add_column(plain(title))
    for title in table.heads[len(table.label_heads) :]:
        drawn.add_column(plain(title), justify="right")
    for row, before in zip(table.rows, (None, *table.rows), strict=False):
        if before is not None and (before.kind == "row") != (row.kind == "row"):
            drawn.add_section()
        values = [
            plain(text.replace("±", deviation), "bold" if bold else "")
            for text, bold in zip(_values(table, row), row.bold, strict=True)
        ]
        style = "italic" if row.is_from_elsewhere else ""
        name, *others = row.marked_labels
        labels = [plain(name, "bold" if row.is_main else style), *(plain(label, style) for label in others)]
        drawn.add_row(*labels, *values, plain(row.seeds_text))
    return drawn


def markdown(table: Table) -> str:
    """The table with its notes, as Markdown."""
    rules = ["---"] * len(table.label_heads) + ["---:"] * (len(table.columns) + 1)
    lines = [f"**{in_markdown(table.title)}**", "", _line(map(in_markdown, table.heads)), _line(rules)]
    for row in table.rows:
        values = [f"**{text}**" if bold else text for text, bold in zip(_values(table, row), row.bold, strict=True)]
        style = "*" if row.is_from_elsewhere else ""
        labels = [f"{style}{in_markdown(label)}{style}" if label else "" for label in row.marked_labels]
        labels = [f"**{labels[0]}**", *labels[1:]] if row.is_main else labels
        lines.append(_line([*labels, *values, row.seeds_text]))
    return "\n".join([*lines, "", *(f"- {in_markdown(note)}" for note in table.notes), ""])


def comma_separated(table: Table) -> str:
    """The table as CSV: values in full precision, one column for each of the `CSV_PARTS` of each score.

    See `column_names` for the names of the scores. The column `prediction` contains a row's own prediction, if any;
    `collapsed` is the number of seeds that collapsed, and `decision` that of the rule for seeds, where there is one.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = column_names(table)
    heads = [f"{name}.{part}" for name in names for part in CSV_PARTS]
    writer.writerow([*table.label_heads, "kind", "default", "prediction", "seeds", "collapsed", "decision", *heads])
    for row in table.rows:
        values: list[object] = [row.kind, int(row.default), row.prediction or ""]
        values += ["", ""] if row.seeds is None else [str(row.seeds), len(row.collapsed_seeds)]
        values += [row.decision or ""]
        scores = zip(table.columns, row.summaries, row.bold, row.against_default, row.against_best, strict=True)
        for column, summary, bold, against_default, against_best in scores:
            values += _parts(column.shown_unit, summary, bold, against_default, against_best)
        writer.writerow([*row.labels, *row.extra_labels, *values])
    return text.getvalue()


def column_names(table: Table) -> tuple[str, ...]:
    """Distinct names of the scores: `METRIC` in tables whose rows name their prediction, else `PREDICTION.METRIC`."""
    own = any(row.prediction for row in table.rows)
    short = [column.metric for column in table.columns]
    if own and len(set(short)) == len(short):
        return tuple(short)
    return tuple(f"{column.prediction}.{column.metric}" for column in table.columns)


def shown_interval(summary: Summary, unit: Unit) -> tuple[float, float] | None:
    """The interval of a mean, in the unit of the result files; that of a share ends at 0 and 1.

    >>> shown_interval(Summary(0.98, 0.03, 5, (0.95, 1.01)), "percent")
    (0.95, 1.0)
    >>> shown_interval(Summary(1.2, 2.0, 5, (-1.3, 3.7)), "seconds")
    (-1.3, 3.7)
    """
    if summary.interval is None or unit not in ("percent", "fraction"):
        return summary.interval
    low, high = summary.interval
    return max(low, 0.0), min(high, 1.0)


def _parts(
    unit: Unit,
    summary: Summary | None,
    bold: bool,
    against_default: Comparison | None,
    against_best: Outcome | None,
) -> Iterator[object]:
    if summary is None:
        yield from ("", "", 0, "", "")
    else:
        yield from (summary.mean, summary.std, summary.n, *(shown_interval(summary, unit) or ("", "")))
    yield int(bold)
    for outcome in (None, None) if against_default is None else (against_default.seeds, against_default.paper):
        yield from ("", "") if outcome is None else (outcome.p, outcome.adjusted_p)
    yield "" if against_best is None else against_best.adjusted_p


def _values(table: Table, row: Row) -> list[str]:
    pairs = zip(row.summaries, table.columns, strict=True)
    return [NOTHING if summary is None else summary.text(column.shown_unit) for summary, column in pairs]


def _line(items: Iterable[str]) -> str:
    return "| " + " | ".join(items) + " |"
