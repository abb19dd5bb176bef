"""Tables of the page, sortable by every column with the mouse and the keyboard."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from mucon.metrics.catalogue import Unit
from sweeps.service.report.trainings import CURVES, Scored
from sweeps.service.spec.columns import Column
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.table import Row, Table
from sweeps.service.tables.text import shown_interval
from sweeps.service.text import significant
from sweeps.service.trials.reading import ACCURACY, LOSS

MAX_POINTS = 80
"""Maximum number of points of a small curve."""
_CURVE_TITLES = {LOSS: "training loss", ACCURACY: "training MoF"}
_CURVE_UNITS: dict[str, Unit | None] = {LOSS: None, ACCURACY: "percent"}


@dataclass(frozen=True, slots=True)
class Head:
    """A column head; columns of numbers are aligned to the right."""

    title: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A table field.

    Attributes:
        text: content, not escaped.
        number: sort key; the text by default.
        kind: class names, or `code`.
        title: tooltip.
        html: markup that replaces the text.
        sorts: whether the field has a sort key; fields without one are sorted last.
    """

    text: str
    number: float | None = None
    kind: str = ""
    title: str = ""
    html: str | None = None
    sorts: bool = True


def sortable(
    caption: str, heads: Sequence[Head], rows: Sequence[Sequence[Item]], last: Sequence[Sequence[Item]] = ()
) -> str:
    """A table whose heads are buttons.

    Args:
        caption: label for screen readers; the heading above is visible.
        heads: column heads.
        rows: fields by row and column.
        last: rows that stay below the sorted ones.
    """
    titles = "".join(
        f"<th scope='col'{' class=number' if head.number else ''}>"
        f"<button type='button'>{escape(head.title)}</button></th>"
        for head in heads
    )
    body = "\n".join(f"<tr>{''.join(_fields(heads, row))}</tr>" for row in rows)
    foot = "\n".join(f"<tr>{''.join(_fields(heads, row))}</tr>" for row in last)
    return (
        f"<div class='wide' role='region' tabindex='0' aria-label='{escape(caption)}'><table class='sortable'>"
        f"<thead><tr>{titles}</tr></thead>\n<tbody>{body}</tbody>{f'<tfoot>{foot}</tfoot>' if foot else ''}"
        "</table></div>"
    )


def score_table(table: Table) -> str:
    """A sweep's table; baselines and the ceiling stay below the sorted rows."""
    heads = [
        *(Head(title) for title in table.label_heads),
        *(Head(column.title, number=True) for column in table.columns),
        Head("seeds", number=True),
    ]
    rows = [list(_score_fields(table, row)) for row in table.rows if row.kind == "row"]
    extra = [list(_score_fields(table, row)) for row in table.rows if row.kind != "row"]
    return sortable(table.title, heads, rows, extra)


def trials_table(trials: Sequence[Scored], columns: Sequence[Column]) -> str:
    """All trials with test scores, training curves, folder, commands and tracked run.

    Args:
        trials: the trials.
        columns: columns of their scores.
    """
    metrics = [metric for metric in CURVES if any(trial.training.curves.get(metric) for trial in trials)]
    titles = Counter(column.title for column in columns)
    heads = [
        Head("rows"),
        Head("split"),
        Head("seed", number=True),
        Head("state"),
        *(
            Head(column.title if titles[column.title] == 1 else f"{column.title} {column.prediction}", number=True)
            for column in columns
        ),
        *(head for metric in metrics for head in (Head(_CURVE_TITLES[metric], number=True), Head("curve"))),
        Head("epochs", number=True),
        Head("s/epoch", number=True),
        Head("folder"),
        Head("commands"),
        *([Head("run")] if any(trial.training.link for trial in trials) else []),
    ]
    rows = [list(_trial_fields(trial, columns, metrics))[: len(heads)] for trial in trials]
    return sortable("Trials", heads, rows)


def folded_commands(commands: Sequence[str]) -> str:
    """A list of commands that opens on a click."""
    return f"<details><summary>show</summary><ul>{''.join(map(command, commands))}</ul></details>"


def command(text: str) -> str:
    """A list item with a command and a button that copies it."""
    return f"<li><code>{escape(text)}</code> <button type='button' class='copy'>copy</button></li>"


def small_curve(points: Sequence[tuple[int, float]], title: str) -> str:
    """A curve without axes as SVG, logarithmic if all values are positive; its label contains the end points.

    Args:
        points: (epoch, value), at least one.
        title: name of the values.
    """
    step = -(-len(points) // MAX_POINTS)
    drawn = [*points[::step], *([points[-1]] if (len(points) - 1) % step else [])]
    scale = math.log if min(value for _, value in points) > 0 else float
    low, high = (scale(end(value for _, value in points)) for end in (min, max))
    first, last = points[0][0], points[-1][0]
    line = " ".join(
        f"{100 * (epoch - first) / (last - first or 1):.1f},{28 - 26 * (scale(value) - low) / (high - low or 1):.1f}"
        for epoch, value in drawn
    )
    words = f"{title}, epoch {first} to {last}: from {points[0][1]:.4g} to {points[-1][1]:.4g}"
    if len(points) == 1:
        line = f"{line} 100,28"
    return (
        f"<svg class='curve' viewBox='-1 -1 102 32' role='img' aria-label='{escape(words)}'><title>{escape(words)}"
        f"</title><polyline points='{line}'/></svg>"
    )


def _fields(heads: Sequence[Head], row: Sequence[Item]) -> Iterator[str]:
    for column, (head, item) in enumerate(zip(heads, row, strict=True)):
        kinds = [*(["number"] if head.number else []), *([item.kind] if item.kind not in ("", "code") else [])]
        content = item.html if item.html is not None else escape(item.text)
        if item.kind == "code":
            content = f"<code>{content}</code>"
        key = "" if not item.sorts else item.text if item.number is None else repr(float(item.number))
        name, scope = ("th", " scope='row'") if column == 0 else ("td", "")
        classes = f" class='{' '.join(kinds)}'" if kinds else ""
        hint = f" title='{escape(item.title)}'" if item.title else ""
        yield f"<{name}{scope}{classes}{hint} data-key='{escape(key)}'>{content}</{name}>"


def _score_fields(table: Table, row: Row) -> Iterator[Item]:
    style = "imported" if row.is_from_elsewhere else ""
    name, *others = row.marked_labels
    yield Item(name, kind="best" if row.is_main else style)
    yield from (Item(label, kind=style) for label in others)
    bold = row.bold or (False,) * len(row.summaries)
    p_values = row.p_values or (None,) * len(row.summaries)
    for column, summary, best, p in zip(table.columns, row.summaries, bold, p_values, strict=True):
        if summary is None:
            yield Item("–", sorts=False)
            continue
        yield Item(
            summary.text(column.shown_unit),
            number=summary.mean,
            kind="best" if best else "",
            title=_hint(summary, column, p),
        )
    if row.seeds is None:
        yield Item("", number=0.0, sorts=False)
    else:
        kind = "" if row.seeds.are_whole and not row.collapsed else "bad"
        yield Item(row.seeds_text, number=row.seeds.whole, kind=kind)


def _hint(summary: Summary, column: Column, p: float | None) -> str:
    """Mean in more digits, deviation, interval, and p against the default row."""
    parts = [f"mean {summary.mean:.6g}"]
    if summary.std is not None:
        parts.append(f"standard deviation {significant(summary.std, 3)} over {summary.n} seeds")
    if (interval := shown_interval(summary, column.shown_unit)) is not None:
        parts.append(f"95 % interval {interval[0]:.4g} to {interval[1]:.4g}")
    if p is not None:
        parts.append(f"p {p:.3g} against the default row, after Holm")
    return ", ".join(parts)


def _trial_fields(trial: Scored, columns: Sequence[Column], metrics: Sequence[str]) -> Iterator[Item]:
    training = trial.training
    yield Item(" / ".join(trial.rows))
    yield Item(training.split)
    yield Item(str(training.seed), number=training.seed)
    state, kind = f"{trial.state}{', collapsed' * trial.is_collapsed}", "" if trial.is_whole else "bad"
    yield Item(state, kind=kind, title=trial.reason or "")
    for column, score in zip(columns, trial.scores, strict=True):
        yield _number(score, column.shown_unit)
    for metric in metrics:
        points = training.curves.get(metric)
        yield _number(points[-1][1] if points else None, _CURVE_UNITS[metric])
        curve = small_curve(points, _CURVE_TITLES[metric]) if points else ""
        yield Item("", html=curve, number=points[-1][1] if points else None, sorts=bool(points))
    yield Item(str(training.epochs), number=training.epochs)
    yield _number(training.epoch_seconds, "seconds")
    folder = escape(f"trials/{training.identity}")
    yield Item(folder, html=f"<a href='../../{folder}/'><code>{folder}</code></a>")
    yield Item("", html=folded_commands(list(trial.commands.values())) if trial.commands else "–")
    link = f"<a href='{escape(training.link)}'>run</a>" if training.link else ""
    yield Item("run" if training.link else "", html=link)


def _number(value: float | None, unit: Unit | None) -> Item:
    """A number in its unit; without a unit, with four significant digits."""
    if value is None:
        return Item("–", sorts=False)
    return Item(f"{value:.4g}" if unit is None else Summary(value, None, 1).text(unit), number=value)
