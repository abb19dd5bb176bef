"""Tables of the page: each can be sorted by each of its columns, with the mouse and with keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from sweeps.service.report.trainings import CURVES, Training
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.table import Row, Table
from sweeps.service.text import significant
from sweeps.service.trials.folder import State
from sweeps.service.trials.reading import ACCURACY, LOSS

MAX_POINTS = 80
"""Of a small curve; more cannot be seen on it."""
_CURVE_TITLES = {LOSS: "loss", ACCURACY: "training MoF"}


@dataclass(frozen=True, slots=True)
class Head:
    """A column's head; a `number` stands to the right."""

    title: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A field.

    Attributes:
        text: what it shows.
        number: by what it is sorted, where that is not the text.
        kind: class names, or `code`.
        title: shown when it is pointed at.
        html: what it shows in the place of the text, already escaped.
        sorts: whether the field has anything to sort by; those that have not come last.
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
        caption: read aloud, not shown: a heading stands above.
        heads: of the columns.
        rows: fields.
        last: rows that stay beneath the others however they are sorted.
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
    """A sweep's table: what stands beside the rows (baselines, the ceiling) stays beneath them."""
    heads = [
        *(Head(title) for title in table.label_titles),
        *(Head(column.title, number=True) for column in table.columns),
        Head("seeds", number=True),
    ]
    rows = [list(_score_fields(table, row)) for row in table.rows if row.kind == "row"]
    beside = [list(_score_fields(table, row)) for row in table.rows if row.kind != "row"]
    return sortable(table.title, heads, rows, beside)


def trials_table(trials: Iterable[Training]) -> str:
    """Every training: state, end of its curves, time, curves, its run."""
    every = list(trials)
    metrics = [metric for metric in CURVES if any(trial.curves.get(metric) for trial in every)]
    heads = [
        Head("rows"),
        Head("split"),
        Head("seed", number=True),
        Head("state"),
        Head("epochs", number=True),
        Head("training, s", number=True),
        *(head for metric in metrics for head in (Head(_CURVE_TITLES[metric], number=True), Head("curve"))),
        Head("folder"),
        *([Head("run")] if any(trial.link for trial in every) else []),
    ]
    rows = [list(_trial_fields(trial, metrics))[: len(heads)] for trial in every]
    return sortable("Trials", heads, rows)


def small_curve(points: Sequence[tuple[int, float]], title: str) -> str:
    """A curve without axes, as SVG, logarithmic where it can be; its ends are told in words.

    Args:
        points: epoch and value.
        title: of what.
    """
    step = -(-len(points) // MAX_POINTS)
    shown = [*points[::step], *([points[-1]] if (len(points) - 1) % step else [])]
    scale = math.log if min(value for _, value in points) > 0 else float
    low, high = (scale(end(value for _, value in points)) for end in (min, max))
    first, last = points[0][0], points[-1][0]
    line = " ".join(
        f"{100 * (epoch - first) / (last - first or 1):.1f},{28 - 26 * (scale(value) - low) / (high - low or 1):.1f}"
        for epoch, value in shown
    )
    words = f"{title}, epoch {first} to {last}: from {points[0][1]:.4g} to {points[-1][1]:.4g}"
    if len(points) == 1:
        line = f"{line} 100,28"
    return (
        f"<svg class='curve' viewBox='-1 -1 102 32' role='img' aria-label='{escape(words)}'><title>{escape(words)}"
        f"</title><polyline points='{line}'/></svg>"
    )


def _fields(heads: Sequence[Head], row: Sequence[Item]) -> Iterator[str]:
    for place, (head, item) in enumerate(zip(heads, row, strict=True)):
        kinds = [*(["number"] if head.number else []), *([item.kind] if item.kind not in ("", "code") else [])]
        shown = item.html if item.html is not None else escape(item.text)
        if item.kind == "code":
            shown = f"<code>{shown}</code>"
        key = "" if not item.sorts else item.text if item.number is None else repr(float(item.number))
        name, scope = ("th", " scope='row'") if place == 0 else ("td", "")
        classes = f" class='{' '.join(kinds)}'" if kinds else ""
        hint = f" title='{escape(item.title)}'" if item.title else ""
        yield f"<{name}{scope}{classes}{hint} data-key='{escape(key)}'>{shown}</{name}>"


def _score_fields(table: Table, row: Row) -> Iterator[Item]:
    for label in row.labels:
        yield Item(label)
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
            title=_hint(summary, p),
        )
    if row.seeds is None:
        yield Item("", number=0.0, sorts=False)
    else:
        yield Item(str(row.seeds), number=row.seeds.whole, kind="" if row.seeds.are_whole else "bad")


def _hint(summary: Summary, p: float | None) -> str:
    """All digits, the interval, and what the test against the default row says."""
    parts = [f"mean {summary.mean:.6g}"]
    if summary.std is not None:
        parts.append(f"standard deviation {significant(summary.std, 3)} over {summary.n} seeds")
    if summary.interval is not None:
        parts.append(f"95 % interval {summary.interval[0]:.4g} to {summary.interval[1]:.4g}")
    if p is not None:
        parts.append(f"p {p:.3g} against the default row, after Holm")
    return ", ".join(parts)


def _trial_fields(trial: Training, metrics: Sequence[str]) -> Iterator[Item]:
    yield Item(" / ".join(trial.rows))
    yield Item(trial.split)
    yield Item(str(trial.seed), number=trial.seed)
    yield Item(str(trial.state), kind="" if trial.state is State.FINISHED else "bad", title=trial.reason or "")
    yield Item(str(trial.epochs), number=trial.epochs)
    yield _number(trial.seconds, "{:.1f}")
    for metric in metrics:
        points = trial.curves.get(metric)
        yield _number(points[-1][1] if points else None, "{:.4g}")
        curve = small_curve(points, _CURVE_TITLES[metric]) if points else ""
        yield Item("", html=curve, number=points[-1][1] if points else None, sorts=bool(points))
    yield Item(f"trials/{trial.identity}", kind="code")
    link = f"<a href='{escape(trial.link)}'>run</a>" if trial.link else ""
    yield Item("run" if trial.link else "", html=link)


def _number(value: float | None, form: str) -> Item:
    return Item("–", sorts=False) if value is None else Item(form.format(value), number=value)
