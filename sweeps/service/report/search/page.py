"""The page of a search: best points, fresh scores, figures, all points and the space."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from mucon.configuration import setting_text
from sweeps.service.report.page import document, figure, notes
from sweeps.service.report.page_tables import Head, Item, command, folded_commands, score_table, sortable
from sweeps.service.report.search.charts import Chart
from sweeps.service.report.search.findings import Findings, settings_text, value_text
from sweeps.service.report.search.scales import is_number
from sweeps.service.report.search.texts import dashboard_command
from sweeps.service.search.points import PointRecord
from sweeps.service.stats.summary import Summary

MAX_BEST = 10
"""Points in the table of the best ones."""
UNKNOWN = "the importance of the settings is computed when the search has ended, from eight points with a score on"
BAD = ("failed", "infeasible")
"""States of points that cannot be chosen."""


def make_page(findings: Findings, charts: Sequence[Chart], folder: Path) -> str:
    """The page as text.

    Args:
        findings: the search.
        charts: its figures, whose files must be in the folder.
        folder: directory of the sweep.
    """
    search = findings.history.search
    sections = list(_sections(findings, charts, folder))
    footer = f"Generated from the trials by <code>mucon-sweeps report {escape(search['name'])}</code>."
    title = f"{search['title']}: search"
    return document(f"{search['name']}: {title}", title, _about(findings), sections, footer)


def _about(findings: Findings) -> Iterator[str]:
    search = findings.history.search
    sweep = escape(search["name"])
    yield (
        f"<p>Search <strong>{sweep}</strong>: {escape(findings.progress)}, "
        f"sampler {escape(search['sampler'])} with seed {search['sampler_seed']}, "
        f"up to {search['seeds']} seeds per point; <a href='{sweep}.html'>all trials</a></p>"
    )
    if findings.held_out:
        yield f"<p>{escape(findings.held_out)}</p>"
    if findings.damage:
        yield f"<p>no table of the fresh scores: {escape(findings.damage)}</p>"
    if findings.storage:
        yield f"<ul>{command(dashboard_command(findings.storage))}</ul>"


def _sections(findings: Findings, charts: Sequence[Chart], folder: Path) -> Iterator[tuple[str, str, str]]:
    yield "best", "Best points", _best_table(findings) + notes(_best_notes(findings))
    if findings.optimism is not None:
        yield "optimism", "Fresh seeds", score_table(findings.optimism) + notes(findings.optimism.notes)
    if charts:
        yield "figures", "Figures", "\n".join(_figure(chart, folder) for chart in charts)
    yield "points", f"Points ({len(findings.history.records)})", _points_table(findings)
    yield "space", "Space", _space_table(findings)


def _best_table(findings: Findings) -> str:
    heads = [
        *(Head("rank", number=True), Head("point", number=True)),
        *(Head(objective["title"], number=True) for objective in findings.objectives),
        *(Head("seeds", number=True), Head("differs from the default in"), Head("settings")),
    ]
    chosen = findings.chosen[:MAX_BEST]
    rows = [_best_row(findings, record, rank) for rank, record in enumerate(chosen, 1)]
    default = findings.default
    last = [] if default is None or default in chosen else [_best_row(findings, default, None)]
    return sortable("Best points", heads, rows, last)


def _best_row(findings: Findings, record: PointRecord, rank: int | None) -> list[Item]:
    number, changed = record.point.number, findings.changed(record)
    is_default = record.point.origin == "default"
    words = [word for path, one in record.point.settings.items() for word in ("--set", f"{path}={setting_text(one)}")]
    return [
        Item("default") if rank is None else Item(str(rank), number=rank),
        Item(str(number), number=number),
        *_scores(findings, record, is_best=rank == 1),
        Item(str(record.n), number=record.n),
        Item("is the default" if is_default else settings_text(changed)),
        Item("", html=folded_commands([shlex.join(words)])),
    ]


def _best_notes(findings: Findings) -> Iterator[str]:
    history = findings.history
    if not history.best:
        yield "no point has a whole training that keeps all limits"
    if len(findings.objectives) > 1 and history.front:
        yield f"the first {len(history.front)} points are the Pareto front: no other point beats them in all objectives"
    if history.duplicates:
        yield f"{history.duplicates} suggestions equalled an earlier point and were not trained again"
    if history.exhausted:
        yield "the space has no further point"


def _scores(findings: Findings, record: PointRecord, *, is_best: bool = False) -> Iterator[Item]:
    """Mean and deviation of each objective; the tooltip has each seed."""
    for index, objective in enumerate(findings.objectives):
        summary = findings.score(record, index)
        if summary is None:
            yield Item("–", sorts=False)
            continue
        seeds = sorted(record.scores.items())
        hint = ", ".join(f"seed {seed}: {reached.objectives[index]:.6g}" for seed, reached in seeds)
        kind = "best" if is_best else ""
        yield Item(summary.text(objective["unit"]), number=summary.mean, kind=kind, title=hint)


def _figure(chart: Chart, folder: Path) -> str:
    name = escape(f"{chart.picture.name}.csv")
    return figure(chart.picture, folder, f"<a href='{name}'>CSV</a> ")


def _points_table(findings: Findings) -> str:
    search, records = findings.history.search, findings.history.records
    bounds = [f"{bound['title']} beyond its limit by" for bound in search["constraints"]]
    heads = [
        *(Head("point", number=True), Head("origin"), Head("state"), Head("last rung", number=True)),
        *(Head(objective["title"], number=True) for objective in findings.objectives),
        Head("seeds", number=True),
        *(Head(bound, number=True) for bound in bounds),
        *(Head(path) for path in search["space"]),
        *([Head("reason")] if any(record.reason for record in records) else []),
    ]
    rows = [
        [
            Item(str(record.point.number), number=record.point.number),
            Item(record.point.origin, kind="short"),
            Item(record.state, kind="short bad" if record.state in BAD else "short", title=record.reason),
            Item("–", sorts=False) if record.rung is None else Item(f"{record.rung:g}", number=record.rung),
            *_scores(findings, record),
            Item(str(record.n), number=record.n),
            *map(_violation, search["constraints"], record.violations or [None] * len(bounds)),
            *(_setting(record, path) for path in search["space"]),
            Item(record.reason),
        ][: len(heads)]
        for record in records
    ]
    return sortable("Points", heads, rows)


def _violation(bound: Mapping[str, Any], value: float | None) -> Item:
    if value is None:
        return Item("–", sorts=False)
    text = Summary(value, None, 1).text(bound["unit"]) if value > 0 else "kept"
    return Item(text, number=value, kind="bad" if value > 0 else "")


def _setting(record: PointRecord, path: str) -> Item:
    if path not in record.point.settings:
        return Item("", sorts=False, title="has no effect")
    value = record.point.settings[path]
    key = value if is_number(value) else None
    return Item(value_text(value), number=key, kind="short", title=setting_text(value))


def _space_table(findings: Findings) -> str:
    heads = [
        *(Head("setting"), Head("values"), Head("only with")),
        *(Head(f"importance for {one['title']}", number=True) for one in findings.objectives),
    ]
    rows = []
    for path, dimension in findings.history.search["space"].items():
        when = "; ".join(f"{other}={'|'.join(map(value_text, of))}" for other, of in _conditions(dimension))
        shares = [one.get(path) for one in findings.history.importance or [{}] * len(findings.objectives)]
        rows.append(
            [
                Item(path, kind="code"),
                Item(_range(dimension)),
                Item(when),
                *(
                    Item("–", sorts=False) if share is None else Item(f"{100 * share:.0f} %", number=share)
                    for share in shares
                ),
            ]
        )
    limits = map(_limit, findings.history.search["constraints"])
    return sortable("Space", heads, rows) + notes([*limits, *([] if any(findings.history.importance) else [UNKNOWN])])


def _limit(bound: Mapping[str, Any]) -> str:
    """A limit that points have to keep."""
    name = "at_most" if bound.get("at_most") is not None else "at_least"
    value = Summary(bound.get(name, 0.0), None, 1).text(bound["unit"])
    return f"limit: {bound['title']} {name.replace('_', ' ')} {value}"


def _conditions(dimension: Mapping[str, Any]) -> list[tuple[str, list[object]]]:
    when = dimension.get("when")
    return list(when.items()) if isinstance(when, Mapping) else []


def _range(dimension: Mapping[str, Any]) -> str:
    """The values of a dimension."""
    if "options" in dimension:
        return ", ".join(map(value_text, dimension["options"]))
    ends = f"{value_text(dimension.get('low'))} to {value_text(dimension.get('high'))}"
    step = dimension.get("step")
    return f"{ends} ({dimension['kind']}{f', step {value_text(step)}' if step not in (None, 1) else ''})"
