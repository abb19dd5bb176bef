"""Figures of a table: bars, a curve over a number, a scatter of two scores; always with the seeds."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweeps.service.report.figures.numbers import numbers_in, unnumbered
from sweeps.service.report.figures.style import (
    BAR,
    COLOURS,
    INK,
    LINES,
    PAPER,
    WIDTH,
    looks,
    new_figure,
    place_labels,
    plain_ticks,
)
from sweeps.service.stats.summary import Summary

_SEED: dict[str, Any] = {"facecolor": COLOURS[1], "edgecolor": PAPER, "lw": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """A row in a figure.

    Attributes:
        name: name of the row.
        y: one value per seed, in the unit of the axis; empty for a row without values.
        x: one value per seed on the horizontal axis of a scatter.
        missing: finished seeds of an incomplete row, such as `1 of 3 seeds`; empty for complete rows.
        group: name of its line in a curve; empty if all rows are one line.
        place: its label on the x axis of a curve; the name if empty.
        collapsed: whether each seed has collapsed; empty if none has.
    """

    name: str
    y: tuple[float, ...]
    x: tuple[float, ...] = ()
    missing: str = ""
    group: str = ""
    place: str = ""
    collapsed: tuple[bool, ...] = ()

    @property
    def label(self) -> str:
        """The name and, for an incomplete row, its finished seeds."""
        return f"{self.name}\n({self.missing})" if self.missing else self.name

    @property
    def position(self) -> str:
        """The label on the x axis of a curve."""
        return self.place or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Data of a figure of a table.

    Attributes:
        rows: from top to bottom or left to right.
        y_title: title of the axis of scores, with its unit.
        x_title: title of the other axis, with its unit.
        levels: name -> value of the baselines and the ceiling.
        top: upper bound of the values, whose lower bound is 0; None if there is none.
        about: data set, split and number of scored videos, printed above the axes.
        numbers: label on the x axis of a curve -> number of its setting; if empty, the numbers in the labels.
        has_intervals: whether the means have intervals; not if the results decided how many seeds each row has.
    """

    rows: tuple[Points, ...]
    y_title: str
    x_title: str = ""
    levels: Mapping[str, float] = field(default_factory=dict)
    top: float | None = None
    about: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    has_intervals: bool = True

    @property
    def n_seeds(self) -> str:
        """Number of seeds of the rows with values, such as `n = 5 seeds` or `n = 3 to 5 seeds`."""
        counts = sorted({len(row.y) for row in self.rows if row.y}) or [0]
        upto = f" to {counts[-1]}" if len(counts) > 1 else ""
        return f"n = {counts[0]}{upto} seed{'s' * (counts[-1] != 1)}"

    def interval(self, values: Sequence[float]) -> tuple[float, float] | None:
        """The 95 % interval of a mean within the bounds of the values; None with too few seeds or without intervals."""
        summary = Summary.of(values) if self.has_intervals else None
        if summary is None or summary.interval is None:
            return None
        low, high = summary.interval
        return (low, high) if self.top is None else (max(low, 0.0), min(high, self.top))


def bars(data: Data) -> Any:
    """Bars of the rows' means, the seeds as points and, with enough seeds, Student's t intervals."""
    height = 0.38 * len(data.rows) + 1.1 + 0.14 * sum(bool(row.missing) for row in data.rows)
    figure = new_figure(WIDTH, height)
    axes = figure.subplots()
    for place, row in enumerate(data.rows):
        if not row.y:
            axes.text(0, place, " no value", va="center", color=INK, fontsize=8, style="italic")
            continue
        mean = statistics.fmean(row.y)
        axes.barh(place, mean, height=0.62, color=BAR, edgecolor=COLOURS[0], lw=0.8, label="mean over seeds")
        interval = data.interval(row.y)
        if interval is not None:
            half = {
                "xerr": [[max(mean - interval[0], 0.0)], [max(interval[1] - mean, 0.0)]],
                "label": _interval_title(data),
            }
            axes.errorbar(mean, place, color=INK, capsize=3, lw=1.1, zorder=3, fmt="none", **half)
        n = len(row.y)
        spread = [place + 0.16 * (2 * i / (n - 1) - 1) if n > 1 else place for i in range(n)]
        if n > 1:
            axes.scatter(row.y, spread, s=15, **_SEED, zorder=4, label="individual seeds")
        _mark_collapsed(axes, row, row.y, spread)
    axes.set_yticks(range(len(data.rows)), [row.label for row in data.rows])
    axes.set_ylim(len(data.rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, _end_of_bars(data))
    axes.set_xlabel(data.y_title)
    _levels(axes.axvline, data)
    _finish(axes, data)
    return figure


def curve(data: Data) -> Any:
    """The rows' means over the numbers of their labels, a line per group, with the seeds and, with enough, intervals.

    If a label has no number, or two labels have the same, all labels are categories in the order of the rows: points
    without a line between them.
    """
    figure = new_figure(WIDTH, 3.6)
    axes = figure.subplots()
    labels = list(dict.fromkeys(row.position for row in data.rows))
    numbers = data.numbers or numbers_in(labels)
    places = numbers or {label: float(i) for i, label in enumerate(labels)}
    groups = list(dict.fromkeys(row.group for row in data.rows))
    for group, look in zip(groups, looks(len(groups)), strict=True):
        _line(axes, data, group, places, {**look, "linestyle": "-" if numbers else ""})
    _levels(axes.axhline, data)
    if numbers:
        _scale_by_numbers(axes, list(numbers.values()))
    axes.set_xticks(list(places.values()), list(places))
    axes.minorticks_off()
    note = f"\nin the order of the rows: no number of its own in {', '.join(map(repr, unnumbered(labels)))}"
    order = "" if numbers else textwrap.fill(note, 90, replace_whitespace=False)
    axes.set_xlabel(data.x_title + order + _missing([row for row in data.rows if row.missing or not row.y]))
    _title_of_scores(axes, data)
    _finish(axes, data)
    return figure


def _line(axes: Any, data: Data, group: str, places: Mapping[str, float], look: Mapping[str, Any]) -> None:
    """The means of a group from left to right, with its seeds and intervals."""
    rows = sorted((row for row in data.rows if row.group == group and row.y), key=lambda row: places[row.position])
    means = [statistics.fmean(row.y) for row in rows]
    xs = [places[row.position] for row in rows]
    colour = look["color"]
    intervals = [data.interval(row.y) or (mean, mean) for row, mean in zip(rows, means, strict=True)]
    if look["linestyle"] and any(low < high for low, high in intervals):
        lows, highs = zip(*intervals, strict=True)
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.18, lw=0, label=_interval_title(data))
    name = f"{group}, mean over seeds" if group else "mean over seeds"
    axes.plot(xs, means, color=colour, marker=look["marker"], ls=look["linestyle"], ms=5, lw=1.6, label=name, zorder=3)
    seeds = [(x, y) for x, row in zip(xs, rows, strict=True) for y in row.y if len(row.y) > 1]
    if seeds:
        own = {**_SEED, **({"facecolor": colour} if group else {})}
        axes.scatter(*zip(*seeds, strict=True), s=13, alpha=0.75, **own, zorder=4, label="individual seeds")
    for x, row in zip(xs, rows, strict=True):
        _mark_collapsed(axes, row, [x] * len(row.y), row.y, colour if group else INK)


def scatter(data: Data) -> Any:
    """The rows' means of two scores with their names, the first score on a logarithmic axis if it is positive."""
    figure = new_figure(WIDTH, 4.0)
    axes = figure.subplots()
    drawn = [row for row in data.rows if row.x and row.y]
    middles = [(statistics.fmean(row.x), statistics.fmean(row.y)) for row in drawn]
    if drawn and min(x for x, _ in middles) > 0:
        axes.set_xscale("log")
    for row, middle, look in zip(drawn, middles, looks(len(drawn)), strict=True):
        colour, marker = look["color"], look["marker"]
        if len(row.y) > 1:
            axes.scatter(row.x, row.y, s=9, color=colour, marker=marker, alpha=0.45, lw=0, label="individual seeds")
        _mark_collapsed(axes, row, row.x, row.y, colour)
        mean = {"label": "mean over seeds", "mec": PAPER, "mew": 0.6}
        axes.plot(*middle, color=colour, marker=marker, ms=8, ls="", **mean, zorder=3)
    _levels(axes.axhline, data)
    axes.margins(x=0.2, y=0.16)
    axes.set_xlabel(data.x_title + _missing([row for row in data.rows if row not in drawn]))
    _title_of_scores(axes, data)
    if axes.get_xscale() == "log":
        plain_ticks(axes.xaxis, min(x for x, _ in middles), max(x for x, _ in middles))
    _finish(axes, data)
    if drawn:
        place_labels(axes, middles, [row.label for row in drawn])
    return figure


def _mark_collapsed(axes: Any, row: Points, xs: Sequence[float], ys: Sequence[float], colour: str = INK) -> None:
    """Crosses over the collapsed seeds of a row."""
    marked = [point for *point, is_collapsed in zip(xs, ys, row.collapsed, strict=False) if is_collapsed]
    if marked:
        cross = {"s": 34, "marker": "x", "color": colour, "lw": 1.2, "label": "collapsed seeds"}
        axes.scatter(*zip(*marked, strict=True), **cross, zorder=5)


def _end_of_bars(data: Data) -> float:
    highest = max((value for row in data.rows for value in row.y), default=1.0)
    ends = [interval[1] for row in data.rows if (interval := data.interval(row.y)) is not None]
    end: float = 1.04 * max([highest, *(min(end, 1.3 * highest) for end in ends), *data.levels.values()])
    return min(end, 1.001 * data.top) if data.top is not None else end


def _scale_by_numbers(axes: Any, numbers: Sequence[float]) -> None:
    """Uses a log or symlog axis when the values span a wide range."""
    sizes = [abs(number) for number in numbers if number]
    if not sizes or max(sizes) < 20 * min(sizes):
        return
    low, high = min(numbers), max(numbers)
    if low > 0:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.2, 1.2 * high)
    else:
        axes.set_xscale("symlog", linthresh=min(sizes), linscale=0.4)
        edge = 0.3 * min(sizes)
        axes.set_xlim(1.2 * low if low < 0 else -edge, 1.2 * high if high > 0 else edge)


def _missing(rows: Sequence[Points]) -> str:
    """Lines with the incomplete rows; empty if there are none."""
    names = [f"{row.name} ({row.missing or 'not measured'})" for row in rows]
    return "\n" + textwrap.fill(f"missing: {'; '.join(names)}", 90) if names else ""


def _interval_title(data: Data) -> str:
    return f"95 % interval of the mean ({data.n_seeds})"


def _title_of_scores(axes: Any, data: Data) -> None:
    """Names the vertical axis, which ends at the upper bound of the scores."""
    axes.set_ylabel(data.y_title)
    if data.top is not None:
        axes.set_ylim(top=min(axes.get_ylim()[1], 1.005 * data.top))


def _levels(line: Callable[..., Any], data: Data) -> None:
    for (name, value), style in zip(data.levels.items(), LINES[1:], strict=False):
        line(value, color=INK, ls=style, lw=1.1, label=name)


def _finish(axes: Any, data: Data) -> None:
    """Adds what the figure is about, and a legend without duplicates above the axes."""
    about = f"{data.about}, {data.n_seeds}".removeprefix(", ")
    axes.set_title(textwrap.fill(about, 100), fontsize=8)
    handles = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if handles:
        axes.figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=2, fontsize=8)
