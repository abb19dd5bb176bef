"""Figures of relations in a search: parallel coordinates, Pareto front, importance of settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweeps.service.report.figures.style import BAR, COLOURS, INK, PALE, PAPER, RAMP, WIDTH, new_figure, place_labels
from sweeps.service.report.search.plots import BEST, LOOKS, TITLES, finish
from sweeps.service.report.search.scales import BESIDE, Scale, cut, cut_path, number_text
from sweeps.service.report.search.values import Dot, Shown

ABSENT = 1.09
"""Place of points without a value on an axis."""
MAX_NAMED = 12
"""Points of a Pareto front up to which each has its number."""
MANY = 40
"""Points above which lines are thinner."""
WIDTHS = (1.8, 1.2, 0.9, 0.7, 0.6)
"""Widths of lines for each colour of `RAMP`."""
RANKS = ("best 10 %", "10 to 25 %", "25 to 50 %", "50 to 75 %", "others")
BEATEN = "beaten by another point"


def parallel(shown: Shown) -> Any:
    """A line per point across an axis for each setting and objective; the darker, the better, the best on top."""
    scales = [Scale.of(one, shown.values(path)) for path, one in shown.space.items()]
    scored = [dot for dot in shown.dots if dot.means]
    scales += [Scale.of_numbers([dot.means[index] for dot in scored]) for index in range(len(shown.scores))]
    names = [*map(cut_path, shown.space), *(score.title for score in shown.scores)]
    figure = new_figure(WIDTH, 0.55 * len(names) + 1.1)
    axes = figure.subplots()
    levels, thin = shown.levels(), 0.6 if len(shown.dots) > MANY else 1.0
    unranked = [dot for dot in shown.dots if dot.number not in levels]
    for dot in unranked:
        look = {"color": PALE, "ls": (0, (1, 2)), "lw": 0.7 * thin, "zorder": 2}
        axes.plot(_places(dot, shown, scales), range(len(names)), **look, label="not ranked")
    for level in reversed(range(len(RAMP))):
        dots = [dot for dot in shown.dots if levels.get(dot.number) == level]
        for dot in dots:
            look = {"color": RAMP[level], "lw": thin * WIDTHS[level], "zorder": 3 - 0.1 * level}
            axes.plot(_places(dot, shown, scales), range(len(names)), **look, label=_rank(shown, dots, level))
    for row, scale in enumerate(scales):
        _axis(axes, row, scale)
    if any(not dot.means or len(dot.settings) < len(shown.space) for dot in shown.dots):
        axes.text(ABSENT, -0.22, "no value", fontsize=7, ha="center")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.45, -0.5)
    axes.set_xlim((BESIDE if any(scale.beside for scale in scales) else 0.0) - 0.03, 1.14)
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    finish(figure, shown, columns=3)
    return figure


def pareto(shown: Shown, x: int, y: int) -> Any:
    """Two objectives of each point; those that another one beats are pale, those of the front have their number.

    Args:
        shown: the search.
        x: place of the objective on the horizontal axis.
        y: place of the other one.
    """
    figure = new_figure(WIDTH, 4.0)
    axes = figure.subplots()
    for state, look in LOOKS.items():
        dots = [dot for dot in shown.dots if dot.state == state and dot.means and not dot.is_best]
        if dots:
            pale = {**look, **({"mfc": PALE} if state == "complete" else {"mec": PALE})}
            title = BEATEN if state == "complete" else TITLES[state]
            axes.plot(
                [dot.means[x] for dot in dots], [dot.means[y] for dot in dots], ls="", ms=4.4, label=title, **pale
            )
    front = sorted((dot for dot in shown.dots if dot.is_best), key=lambda dot: dot.means[x])
    xs, ys = [dot.means[x] for dot in front], [dot.means[y] for dot in front]
    if front:
        bars = {"xerr": [dot.stds[x] or 0.0 for dot in front], "yerr": [dot.stds[y] or 0.0 for dot in front]}
        axes.errorbar(xs, ys, **bars, fmt="none", color=PALE, lw=0.8, zorder=1, label="± deviation over seeds")
        if len(shown.scores) == 2:
            where = "pre" if shown.scores[x].higher_is_better else "post"
            axes.step(xs, ys, where=where, color=INK, lw=0.9, zorder=2)
        axes.plot(xs, ys, ms=9, label="on the Pareto front", **BEST)
    axes.set_xlabel(shown.scores[x].title)
    axes.set_ylabel(shown.scores[y].title)
    axes.margins(0.1)
    finish(figure, shown)
    if 0 < len(front) <= MAX_NAMED:
        place_labels(axes, list(zip(xs, ys, strict=True)), [str(dot.number) for dot in front])
    return figure


def importance(shown: Shown) -> Any:
    """The share of the variation of each objective that each setting explains, the largest first."""
    paths = by_importance(shown)
    figure = new_figure(WIDTH, 0.3 * len(paths) + 1.1)
    grid = figure.subplots(1, len(shown.scores), squeeze=False, sharey=True)[0]
    for axes, score, shares in zip(grid, shown.scores, shown.importance, strict=True):
        for place, path in enumerate(paths):
            share = shares.get(path)
            if share is None:
                axes.text(0, place, " unknown", va="center", fontsize=7.5, style="italic")
                continue
            axes.barh(place, 100 * share, height=0.62, color=BAR, edgecolor=COLOURS[0], lw=0.8)
            axes.text(100 * share, place, f" {100 * share:.0f}", va="center", fontsize=7.5)
        axes.set_title(score.title, fontsize=8)
        axes.set_xlim(0, 112 * max(shares.values(), default=0.0) or 1.0)
        axes.set_ylim(len(paths) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
    grid[0].set_yticks(range(len(paths)), list(map(cut_path, paths)))
    figure.supxlabel("share of the variation between points (%)", fontsize=9)
    finish(figure, shown)
    return figure


def by_importance(shown: Shown) -> list[str]:
    """The settings of the space, the most important one first."""
    return sorted(shown.space, key=lambda path: -sum(shares.get(path, 0.0) for shares in shown.importance))


def _rank(shown: Shown, dots: Sequence[Dot], level: int) -> str:
    """The name of a colour: the rank of its points and their scores."""
    if len(shown.scores) > 1:
        return "on the Pareto front" if level == 0 else BEATEN
    ends = dict.fromkeys(number_text(end(dot.means[0] for dot in dots)) for end in (min, max))
    return f"{RANKS[level]}: {' to '.join(ends)}"


def _axis(axes: Any, row: int, scale: Scale) -> None:
    """A horizontal axis with its labels; long names of options alternate between two lines."""
    axes.plot([0, 1], [row, row], color=INK, lw=0.8, zorder=4)
    ticks = scale.ticks()
    width = 120 // len(ticks) if scale.options else 16
    is_long = scale.options and sum(len(text) + 1 for _, text in ticks) > 60
    halo = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    for i, (place, text) in enumerate(ticks):
        below = 0.12 + (0.22 if is_long and i % 2 else 0.0)
        axes.plot([place, place], [row, row + below - 0.05], color=INK, lw=0.8, zorder=4)
        axes.text(
            place, row + below, cut(text, min(width, 24)), fontsize=6.5, ha="center", va="top", zorder=5, bbox=halo
        )


def _places(dot: Dot, shown: Shown, scales: Sequence[Scale]) -> list[float]:
    """The place of a point on each axis."""
    values = [dot.settings.get(path) for path in shown.space]
    present = [path in dot.settings for path in shown.space]
    values += dot.means or [None] * len(shown.scores)
    present += [bool(dot.means)] * len(shown.scores)
    return [
        scale.place(value) + scale.spread(dot.number) if is_present else ABSENT
        for value, is_present, scale in zip(values, present, scales, strict=True)
    ]
