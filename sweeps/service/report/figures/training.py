"""Training curves of a table's trials: a panel per row, with the trials of other rows in grey."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.service.report.figures.style import COLOURS, LINES, PALE, WIDTH, new_figure, plain_ticks
from sweeps.service.trials.reading import ACCURACY, LOSS

AXES = {LOSS: "loss", ACCURACY: "MoF of training videos (%)"}
"""Metric -> title of the axis."""
ACROSS = 3
"""Panels side by side."""
MAX_PANELS = 12
"""Rows up to which each row has a panel."""


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


def training(curves: Sequence[Curve]) -> Any | None:
    """Loss over epochs and, if measured, the accuracy on training videos below; None without curves.

    With more rows than `MAX_PANELS`, one panel contains all trials.
    """
    names = list(dict.fromkeys(curve.row for curve in curves if curve.values.get(LOSS)))
    if not names:
        return None
    metrics = [metric for metric in AXES if any(curve.values.get(metric) for curve in curves)]
    panels = names if len(names) <= MAX_PANELS else [f"{len(names)} rows"]
    across = min(ACROSS, len(panels))
    lines = -(-len(panels) // across)
    figure = new_figure(WIDTH, 1.55 * lines * len(metrics) + 0.5)
    bands = figure.subfigures(len(metrics), 1, squeeze=False)[:, 0]
    for band, metric in zip(bands, metrics, strict=True):
        grid = band.subplots(lines, across, squeeze=False, sharex=True, sharey=True)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, name in zip(grid.flat, panels, strict=False):
            _panel(axes, name, curves, metric, of_one_row=panels == names)
        for axes in grid.flat[max(len(panels) - across, 0) : len(panels)]:
            axes.tick_params(labelbottom=True)
        values = [value for curve in curves for _, value in curve.values.get(metric, ())]
        if metric == LOSS and min(values) > 0:
            grid[0, 0].set_yscale("log")
            for axes in grid.flat:
                plain_ticks(axes.yaxis, min(values), max(values))
        band.supylabel(AXES[metric], fontsize=9)
        band.supxlabel("epoch", fontsize=9)
    return figure


def _panel(axes: Any, name: str, curves: Sequence[Curve], metric: str, *, of_one_row: bool) -> None:
    highlighted = [curve for curve in curves if curve.row == name or not of_one_row]
    for curve in curves:
        if of_one_row and curve.row != name:
            axes.plot(*_line(curve, metric), color=PALE, lw=0.5, alpha=0.6, zorder=1)
    for i, curve in enumerate(highlighted):
        colour, line = (COLOURS[i % len(COLOURS)], LINES[i % len(LINES)]) if of_one_row else (COLOURS[0], "-")
        axes.plot(*_line(curve, metric), color=colour, ls=line, lw=1.3 if of_one_row else 0.6, zorder=3)
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
