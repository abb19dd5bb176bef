"""The figures of a search, each with the numbers that it shows as a table."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mucon.configuration import setting_text
from sweeps.service.report.figures.picture import Picture
from sweeps.service.report.search import plots, relations
from sweeps.service.report.search.scales import is_number
from sweeps.service.report.search.values import Dot, Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure and its numbers, in the units of its axes.

    Attributes:
        picture: the figure.
        heads: names of the columns.
        rows: one row per mark of the figure; None is an empty field.
    """

    picture: Picture
    heads: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    @property
    def csv(self) -> str:
        """The numbers as CSV in full precision."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.heads)
        writer.writerows(self.rows)
        return text.getvalue()


def charts_of(shown: Shown, title: str) -> list[Chart]:
    """The figures of a search, the most telling first; none without points.

    Args:
        shown: the search.
        title: its caption.
    """
    charts = [] if not shown.dots else [_history(shown, title)]
    if any(dot.means for dot in shown.dots):
        pairs = itertools.combinations(range(len(shown.scores)), 2)
        charts += [_pareto(shown, title, x, y) for y, x in pairs]
        charts.append(_parallel(shown, title))
        charts += [_importance(shown, title)] if any(shown.importance) else []
        charts += [_slices(shown, title, index) for index in range(len(shown.scores))]
    return charts


def _history(shown: Shown, title: str) -> Chart:
    rows = [
        (score.title, dot.number, dot.state, *_score(dot, index), dot.n, best)
        for index, score in enumerate(shown.scores)
        for dot, best in zip(shown.dots, shown.best_so_far(index), strict=True)
    ]
    return Chart(
        picture=_picture(shown, "history", f"{title}: scores of the points", lambda: plots.history(shown)),
        heads=("objective", "point", "state", "score", "std", "seeds", "best so far"),
        rows=tuple(rows),
    )


def _pareto(shown: Shown, title: str, x: int, y: int) -> Chart:
    several = f"_{x + 1}_{y + 1}" if len(shown.scores) > 2 else ""
    names = [shown.scores[index].title for index in (x, y)]
    caption = f"{title}: {names[1]} against {names[0]}"
    rows = [
        (dot.number, dot.state, int(dot.is_best), *_score(dot, x), *_score(dot, y)) for dot in shown.dots if dot.means
    ]
    return Chart(
        picture=_picture(shown, f"pareto{several}", caption, lambda: relations.pareto(shown, x, y)),
        heads=("point", "state", "on the front", *(head for name in names for head in (name, f"{name} std"))),
        rows=tuple(rows),
    )


def _parallel(shown: Shown, title: str) -> Chart:
    levels = shown.levels()
    rows = [
        (
            *(dot.number, dot.state, None if dot.number not in levels else levels[dot.number] + 1),
            *(_setting(dot, path) for path in shown.space),
            *(dot.means or (None,) * len(shown.scores)),
        )
        for dot in shown.dots
    ]
    return Chart(
        picture=_picture(shown, "parallel", f"{title}: a line per point", lambda: relations.parallel(shown)),
        heads=("point", "state", "colour", *shown.space, *(score.title for score in shown.scores)),
        rows=tuple(rows),
    )


def _importance(shown: Shown, title: str) -> Chart:
    paths = relations.by_importance(shown)
    rows = [
        (score.title, path, None if path not in shares else 100 * shares[path])
        for score, shares in zip(shown.scores, shown.importance, strict=True)
        for path in paths
    ]
    note = "fANOVA: shares of the variation of the scores between points that a setting explains by itself"
    return Chart(
        picture=_picture(
            shown, "importance", f"{title}: importance of the settings", lambda: relations.importance(shown), note
        ),
        heads=("objective", "setting", "share (%)"),
        rows=tuple(rows),
    )


def _slices(shown: Shown, title: str, index: int) -> Chart:
    several = f"_{index + 1}" if len(shown.scores) > 1 else ""
    caption = f"{title}: {shown.scores[index].title} over each setting"
    rows = [
        (path, _setting(dot, path), dot.number, dot.state, *_score(dot, index))
        for path in shown.space
        for dot in shown.dots
        if path in dot.settings
    ]
    return Chart(
        picture=_picture(shown, f"slices{several}", caption, lambda: plots.slices(shown, index)),
        heads=("setting", "value", "point", "state", "score", "std"),
        rows=tuple(rows),
    )


def _picture(shown: Shown, name: str, title: str, draw: Callable[[], Any], *notes: str) -> Picture:
    return Picture(name=f"{shown.name}_{name}", title=title, shows=f"{name} {shown}", draw=draw, notes=notes)


def _score(dot: Dot, index: int) -> tuple[float | None, float | None]:
    """Mean and deviation of an objective."""
    return (dot.means[index], dot.stds[index]) if dot.means else (None, None)


def _setting(dot: Dot, path: str) -> object:
    """A number, or the text of another value; None where the setting has no effect."""
    if path not in dot.settings:
        return None
    value = dot.settings[path]
    return value if is_number(value) else setting_text(value)
