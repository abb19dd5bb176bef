"""Training curves of a table's trials: a panel per row, with the trials of other rows in grey."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.service.report.figures.style import COLOURS, LINES, PALE, WIDTH, new_figure, plain_ticks
from sweeps.service.trials.reading import ACCURACY, LOSS

AXES = {LOSS: "loss", ACCURACY: "training MoF (%)"}
"""Metric -> title of the axis."""
ACROSS = 3
"""Panels side by side."""
MAX_PANELS = 12
"""Rows up to which each row has a panel."""
MAX_TITLES = 10
"""Seeds and splits up to which each has a line in the legend."""
MAX_MARKED = 10
"""Points of a curve up to which each has a marker."""
_OTHERS = "trials of the other rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The training curves of one trial.

    Attributes:
        row: name of the row; the joined names of all rows that share the trial.
        seed: random seed of the trial.
        split: name of the split.
        values: metric -> (epoch, value) in the order of epochs.
    """

    row: str
    seed: int
    split: str
    values: dict[str, tuple[tuple[int, float], ...]]


def training(curves: Sequence[Curve], about: str = "") -> Any | None:
    """Loss over epochs and, if measured, the accuracy on training videos below; None without curves.

    With more rows than `MAX_PANELS`, one panel contains all trials.

    Args:
        curves: one per trial.
        about: data set, splits and numbers of scored videos, printed above the panels.
    """
    names = list(dict.fromkeys(curve.row for curve in curves if curve.values.get(LOSS)))
    if not names:
        return None
    metrics = [metric for metric in AXES if any(curve.values.get(metric) for curve in curves)]
    panels = names if len(names) <= MAX_PANELS else [f"{len(names)} rows"]
    across = min(ACROSS, len(panels))
    lines = -(-len(panels) // across)
    figure = new_figure(WIDTH, 1.55 * lines * len(metrics) + 0.9)
    if about:
        figure.suptitle(textwrap.fill(about, 100), x=0.01, ha="left", fontsize=8)
    looks = _looks(curves) if panels == names else {}
    bands = figure.subfigures(len(metrics), 1, squeeze=False)[:, 0]
    for band, metric in zip(bands, metrics, strict=True):
        grid = band.subplots(lines, across, squeeze=False, sharex=True, sharey=True)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, name in zip(grid.flat, panels, strict=False):
            _panel(axes, name, curves, metric, looks)
        for axes in grid.flat[max(len(panels) - across, 0) : len(panels)]:
            axes.tick_params(labelbottom=True)
        values = [value for curve in curves for _, value in curve.values.get(metric, ())]
        if metric == LOSS and min(values) > 0:
            grid[0, 0].set_yscale("log")
            for axes in grid.flat:
                plain_ticks(axes.yaxis, min(values), max(values))
        for axes in grid.flat:
            axes.xaxis.get_major_locator().set_params(integer=True)
        for axes in grid[:, 0]:
            axes.set_ylabel(AXES[metric], fontsize=8)
        band.supxlabel("epoch", fontsize=9)
    handles = {
        label: handle for axes in bands[0].axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    ordered = sorted(handles, key=lambda label: label == _OTHERS)  # seeds first
    bands[0].legend([handles[label] for label in ordered], ordered, loc="outside upper left", ncols=4, fontsize=8)
    return figure


def _looks(curves: Sequence[Curve]) -> dict[str, dict[str, Any]]:
    """Title of a line -> colour and line style, the same in every panel."""
    titles = dict.fromkeys(_title(curve, curves) for curve in curves)
    return {
        title: {"color": COLOURS[i % len(COLOURS)], "ls": LINES[i % len(LINES)], "lw": 1.3}
        for i, title in enumerate(titles)
    }


def _title(curve: Curve, curves: Sequence[Curve]) -> str:
    """Seed of a trial, with its split if there are several; a common title if a legend of them would be too long."""
    splits, seeds = {other.split for other in curves}, {other.seed for other in curves}
    if len(splits) * len(seeds) > MAX_TITLES:
        return "a trial of the row"
    return f"seed {curve.seed}{f', split {curve.split}' if len(splits) > 1 else ''}"


def _panel(axes: Any, name: str, curves: Sequence[Curve], metric: str, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """The curves of a row in front of those of the others; without looks, those of all rows alike."""
    for curve in curves:
        epochs, values = _line(curve, metric)
        marker = {"marker": "o", "ms": 3} if 0 < len(epochs) <= MAX_MARKED else {}
        if not looks:
            axes.plot(epochs, values, color=COLOURS[0], lw=0.6, label="a trial", **marker)
        elif curve.row == name:
            title = _title(curve, curves)
            axes.plot(epochs, values, **looks[title], **marker, zorder=3, label=title)
        else:
            axes.plot(epochs, values, color=PALE, lw=0.5, alpha=0.6, zorder=1, label=_OTHERS)
    axes.set_title("\n".join(_wrapped(name)), fontsize=8)
    axes.tick_params(labelsize=7.5)


def _line(curve: Curve, metric: str) -> tuple[list[int], list[float]]:
    scale = 100 if metric == ACCURACY else 1
    values = curve.values.get(metric, ())
    return [epoch for epoch, _ in values], [scale * value for _, value in values]


def _wrapped(name: str, width: int = 34) -> list[str]:
    """A title in at most two lines."""
    if len(name) <= width:
        return [name]
    cut = name.rfind(" ", 0, width)
    first, rest = (name[:cut], name[cut + 1 :]) if cut > 0 else (name[:width], name[width:])
    return [first, rest if len(rest) <= width else f"{rest[: width - 1]}…"]
