"""Figures of the points of a search: scores by number, and over each setting."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.service.report.figures.style import COLOURS, INK, PALE, PAPER, WIDTH, new_figure
from sweeps.service.report.search.scales import BESIDE, Scale, cut
from sweeps.service.report.search.values import Dot, Shown
from sweeps.service.search.points import State

LOOKS: Mapping[State, Mapping[str, Any]] = {
    "complete": {"marker": "o", "mfc": COLOURS[0], "mec": PAPER, "mew": 0.5},
    "stopped": {"marker": "v", "mfc": PAPER, "mec": COLOURS[0]},
    "infeasible": {"marker": "s", "mfc": PAPER, "mec": COLOURS[3]},
    "running": {"marker": "D", "mfc": PAPER, "mec": PALE},
    "failed": {"marker": "x", "mec": COLOURS[1], "mew": 1.2},
}
"""Marker of the points in each state; only complete points are filled."""
TITLES: Mapping[State, str] = {
    **{"complete": "complete", "stopped": "stopped at a rung", "infeasible": "infeasible"},
    **{"running": "running", "failed": "failed"},
}
BEST: Mapping[str, Any] = {"marker": "*", "mfc": COLOURS[1], "mec": INK, "mew": 0.6, "ls": "", "zorder": 5}
ACROSS = 3
"""Panels side by side."""
ROOM = 0.1
"""Share of the height of the axes below the lowest score, where points without a score are."""


def history(shown: Shown) -> Any:
    """The score of each point by number with its deviation over seeds, and the best so far; a panel per objective."""
    figure = new_figure(WIDTH, 2.4 * len(shown.scores) + 1.0)
    grid = figure.subplots(len(shown.scores), 1, squeeze=False, sharex=True)[:, 0]
    numbers = {dot.number: float(dot.number) for dot in shown.dots}
    for index, (axes, score) in enumerate(zip(grid, shown.scores, strict=True)):
        axes.set_ylabel(score.title)
        bests = zip(numbers, shown.best_so_far(index), strict=True)
        known = [(number, best) for number, best in bests if best is not None]
        if known:
            xs, ys = zip(*known, strict=True)
            axes.step((*xs, xs[-1] + 0.5), (*ys, ys[-1]), where="post", color=INK, lw=1.1, label="best so far")
        _points(axes, shown, numbers, index)
        _make_room(axes, shown)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.margins(x=0.02)
    grid[-1].set_xlabel("point")
    finish(figure, shown)
    return figure


def slices(shown: Shown, index: int) -> Any:
    """The score of each point over each setting, on a logarithmic axis where the search varies the logarithm.

    A point is drawn where the setting has an effect; points of one option are spread.

    Args:
        shown: the search.
        index: place of the objective.
    """
    across = min(ACROSS, len(shown.space))
    lines = -(-len(shown.space) // across)
    figure = new_figure(WIDTH, 1.75 * lines + 0.9)
    grid = figure.subplots(lines, across, squeeze=False, sharey=True)
    for axes in grid.flat[len(shown.space) :]:
        axes.set_visible(False)
    for axes, (path, dimension) in zip(grid.flat, shown.space.items(), strict=False):
        scale = Scale.of(dimension, shown.values(path))
        _points(axes, shown, _places(shown, path, scale), index, size=3.4)
        axes.set_xlim((BESIDE if scale.beside else 0.0) - 0.05, 1.05)
        _label_across(axes, scale)
        axes.set_xlabel(_broken(path), fontsize=8)
        axes.tick_params(axis="y", labelsize=7.5)
    _make_room(grid[0, 0], shown)
    for axes in grid[:, 0]:
        axes.set_ylabel(shown.scores[index].title, fontsize=8)
    finish(figure, shown)
    return figure


def finish(figure: Any, shown: Shown, columns: int = 4) -> None:
    """Adds what the figure is about, and a legend without duplicates above the axes."""
    about = textwrap.fill(shown.about, 100)
    handles = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if not handles:
        figure.suptitle(about, x=0.01, ha="left", fontsize=8)
        return
    legend = figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside upper left",
        ncols=columns,
        fontsize=8,
        title=about,
        columnspacing=1.2,
    )
    legend.get_title().set(fontsize=8, multialignment="left")
    legend.set_alignment("left")


def _points(axes: Any, shown: Shown, places: Mapping[int, float], index: int, size: float = 4.4) -> None:
    """The points at their places, those without a score at the lower edge, and the best ones as stars."""
    here = [dot for dot in shown.dots if dot.number in places]
    _deviations(axes, [dot for dot in here if dot.means], places, index)
    for state, look in LOOKS.items():
        scored = [dot for dot in here if dot.state == state and dot.means and not dot.is_best]
        without = [places[dot.number] for dot in here if dot.state == state and not dot.means]
        if scored:
            xs, ys = [places[dot.number] for dot in scored], [dot.means[index] for dot in scored]
            axes.plot(xs, ys, ls="", ms=size, zorder=3, label=TITLES[state], **look)
        if without:
            where = {"transform": axes.get_xaxis_transform(), "clip_on": False, "label": TITLES[state]}
            axes.plot(without, [0.03] * len(without), ls="", ms=size, zorder=3, **look, **where)
    best = [dot for dot in here if dot.is_best]
    if best:
        title = "best" if len(shown.scores) == 1 else "on the Pareto front"
        xs, ys = [places[dot.number] for dot in best], [dot.means[index] for dot in best]
        axes.plot(xs, ys, ms=2.2 * size, label=title, **BEST)


def _deviations(axes: Any, dots: Sequence[Dot], places: Mapping[int, float], index: int) -> None:
    """One deviation over seeds to either side."""
    known = [(places[dot.number], dot.means[index], std) for dot in dots if (std := dot.stds[index]) is not None]
    if known:
        xs, means, stds = zip(*known, strict=True)
        axes.errorbar(xs, means, yerr=stds, fmt="none", color=PALE, lw=0.8, zorder=1, label="± deviation over seeds")


def _make_room(axes: Any, shown: Shown) -> None:
    """Leaves room for points without a score."""
    if any(not dot.means for dot in shown.dots):
        low, high = axes.get_ylim()
        axes.set_ylim(low - ROOM * (high - low), high)


def _places(shown: Shown, path: str, scale: Scale) -> dict[int, float]:
    """Number of a point -> its place on the axis of a setting."""
    return {
        dot.number: scale.place(dot.settings[path]) + scale.spread(dot.number)
        for dot in shown.dots
        if path in dot.settings
    }


def _label_across(axes: Any, scale: Scale) -> None:
    """Labels a horizontal axis; many or long names are turned."""
    ticks = [(place, cut(text, 16)) for place, text in scale.ticks()]
    axes.set_xticks([place for place, _ in ticks], [text for _, text in ticks], fontsize=7)
    if scale.options and sum(len(text) + 2 for _, text in ticks) > 28:
        turned = {"rotation": 90} if len(ticks) > 5 else {"rotation": 25, "ha": "right", "rotation_mode": "anchor"}
        for label in axes.get_xticklabels():
            label.set(**turned)


def _broken(path: str, width: int = 26) -> str:
    """A path in lines that end after a dot or underscore."""
    lines = textwrap.wrap(path.replace(".", ". ").replace("_", "_ "), width)
    return "\n".join(line.replace(". ", ".").replace("_ ", "_") for line in lines)
