"""Figures of a table: bars with intervals, a curve over a numeric label, a scatter of two scores."""

from __future__ import annotations

import re
import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweeps.service.report.figures.style import (
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

_SEED: dict[str, Any] = {"facecolor": PAPER, "edgecolor": COLOURS[1], "lw": 1.0, "label": "a seed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """A row in a figure.

    Attributes:
        name: name of the row.
        y: one value per seed, in the unit of the axis; empty for a row without values.
        x: one value per seed on the horizontal axis of a scatter.
        missing: finished seeds of an incomplete row, such as `1 of 3 seeds`; empty for complete rows.
        group: name of its line in a curve; empty if all rows are one line.
        place: label whose number is its position in a curve; the name if empty.
    """

    name: str
    y: tuple[float, ...]
    x: tuple[float, ...] = ()
    missing: str = ""
    group: str = ""
    place: str = ""

    @property
    def label(self) -> str:
        """The name and, for an incomplete row, its finished seeds."""
        return f"{self.name}\n({self.missing})" if self.missing else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Data of a figure of a table.

    Attributes:
        rows: from top to bottom or left to right.
        y_title: title of the axis of scores.
        x_title: title of the other axis.
        levels: name -> value of the baselines and the ceiling.
        top: upper bound of the values; None if there is none.
    """

    rows: tuple[Points, ...]
    y_title: str
    x_title: str = ""
    levels: Mapping[str, float] = field(default_factory=dict)
    top: float | None = None


def bars(data: Data) -> Any:
    """Bars of the rows' means with Student's t intervals, and the seeds as points."""
    height = 0.38 * len(data.rows) + 0.9 + 0.14 * sum(bool(row.missing) for row in data.rows)
    figure = new_figure(WIDTH, height)
    axes = figure.subplots()
    for place, row in enumerate(data.rows):
        if not row.y:
            axes.text(0, place, " no value", va="center", color=INK, fontsize=8, style="italic")
            continue
        summary = Summary.of(row.y)
        assert summary is not None
        axes.barh(place, summary.mean, height=0.62, color="#a9cfe6", edgecolor=COLOURS[0], lw=0.8)
        if summary.interval is not None:
            half = {"xerr": summary.interval[1] - summary.mean, "label": "95 % interval of the mean"}
            axes.errorbar(summary.mean, place, color=INK, capsize=3, lw=1.1, zorder=3, **half)
            spread = [place + 0.16 * (2 * i / (len(row.y) - 1) - 1) for i in range(len(row.y))]
            axes.scatter(row.y, spread, s=13, **_SEED, zorder=4)
    axes.set_yticks(range(len(data.rows)), [row.label for row in data.rows])
    axes.set_ylim(len(data.rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, _end_of_bars(data))
    axes.set_xlabel(data.y_title)
    _levels(axes.axvline, data)
    _legend(axes)
    return figure


def curve(data: Data) -> Any:
    """The rows' means over the number in their labels, a line per group, with standard deviations and seeds."""
    figure = new_figure(WIDTH, 3.4)
    axes = figure.subplots()
    numbers = {number_in(row.place or row.name): row.place or row.name for row in data.rows}
    groups = list(dict.fromkeys(row.group for row in data.rows))
    for group, look in zip(groups, looks(len(groups)), strict=True):
        _line(axes, group, [row for row in data.rows if row.group == group and row.y], look)
    _levels(axes.axhline, data)
    _scale_by_numbers(axes, list(numbers))
    axes.set_xticks(list(numbers), list(numbers.values()))
    axes.minorticks_off()
    axes.set_xlabel(data.x_title + _missing([row for row in data.rows if row.missing or not row.y]))
    axes.set_ylabel(data.y_title)
    _legend(axes)
    return figure


def _line(axes: Any, group: str, rows: Sequence[Points], look: Mapping[str, Any]) -> None:
    places = [number_in(row.place or row.name) for row in rows]
    means = [statistics.fmean(row.y) for row in rows]
    stds = [statistics.stdev(row.y) if len(row.y) > 1 else 0.0 for row in rows]
    label = f"{group}, mean over seeds" if group else "mean over seeds"
    band = None if group else "± standard deviation"
    if any(stds):
        low, high = ([m + sign * s for m, s in zip(means, stds, strict=True)] for sign in (-1, 1))
        axes.fill_between(places, low, high, color=look["color"], alpha=0.18, lw=0, label=band)
    axes.plot(
        places,
        means,
        color=look["color"],
        marker=look["marker"],
        ms=5,
        lw=1.6,
        label=label,
        zorder=3,
    )
    seeds = [(x, y) for x, row in zip(places, rows, strict=True) for y in row.y if len(row.y) > 1]
    if seeds:
        axes.scatter(
            *zip(*seeds, strict=True), s=11, **{**_SEED, **({"edgecolor": look["color"]} if group else {})}, zorder=4
        )


def scatter(data: Data) -> Any:
    """The rows' means of two scores with their names, the first score on a logarithmic axis if it is positive."""
    figure = new_figure(WIDTH, 3.8)
    axes = figure.subplots()
    drawn = [row for row in data.rows if row.x and row.y]
    middles = [(statistics.fmean(row.x), statistics.fmean(row.y)) for row in drawn]
    if drawn and min(x for x, _ in middles) > 0:
        axes.set_xscale("log")
    for row, middle, look in zip(drawn, middles, looks(len(drawn)), strict=True):
        if len(row.y) > 1:
            axes.scatter(row.x, row.y, s=9, color=look["color"], marker=look["marker"], alpha=0.45, lw=0)
        axes.plot(*middle, color=look["color"], marker=look["marker"], ms=8, ls="", mec="#ffffff", mew=0.6, zorder=3)
    _levels(axes.axhline, data)
    axes.margins(x=0.2, y=0.16)
    axes.set_xlabel(data.x_title + _missing([row for row in data.rows if row not in drawn]))
    axes.set_ylabel(data.y_title)
    if axes.get_xscale() == "log":
        plain_ticks(axes.xaxis, min(x for x, _ in middles), max(x for x, _ in middles))
    _legend(axes)
    if drawn:
        place_labels(axes, middles, [row.label for row in drawn])
    return figure


def number_in(text: str) -> float:
    """The first number in a label; 0 without one.

    >>> number_in("10 %"), number_in("beam 50"), number_in("none")
    (10.0, 50.0, 0.0)
    """
    match = re.search(r"-?\d+(?:\.\d+)?", text)
    return float(match.group()) if match else 0.0


def _end_of_bars(data: Data) -> float:
    highest = max((value for row in data.rows for value in row.y), default=1.0)
    summaries = [Summary.of(row.y) for row in data.rows]
    ends = [summary.interval[1] if summary.interval else summary.mean for summary in summaries if summary]
    end: float = 1.04 * max([highest, *(min(end, 1.3 * highest) for end in ends), *data.levels.values()])
    return min(end, 1.001 * data.top) if data.top is not None else end


def _scale_by_numbers(axes: Any, numbers: Sequence[float]) -> None:
    """Uses a log or symlog axis when the values span a wide range."""
    positive = [number for number in numbers if number > 0]
    if not positive or min(numbers) < 0 or max(positive) < 20 * min(positive):
        return
    if min(numbers) > 0:
        axes.set_xscale("log")
        axes.set_xlim(min(numbers) / 1.2, 1.2 * max(numbers))
    else:
        axes.set_xscale("symlog", linthresh=min(positive), linscale=0.4)
        axes.set_xlim(-0.3 * min(positive), 1.2 * max(positive))


def _missing(rows: Sequence[Points]) -> str:
    """Lines with the incomplete rows; empty if there are none."""
    names = [f"{row.name} ({row.missing or 'not measured'})" for row in rows]
    return "\n" + textwrap.fill(f"missing: {'; '.join(names)}", 90) if names else ""


def _levels(line: Callable[..., Any], data: Data) -> None:
    for (name, value), style in zip(data.levels.items(), LINES[1:], strict=False):
        line(value, color=INK, ls=style, lw=1.1, label=name)


def _legend(axes: Any) -> None:
    """Adds a legend without duplicates above the axes."""
    handles = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if handles:
        axes.figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=2, fontsize=8)
