"""A sweep as one HTML page that needs nothing else: tables, figures, trials, configuration, environment."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from mucon.config import flatten
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import FILE as SWEEP_FILE
from sweeps.service.plan.sweep_folder import read_links
from sweeps.service.report.figures.style import INK, PALE, PAPER, RULE
from sweeps.service.report.page_tables import Head, Item, score_table, sortable, trials_table
from sweeps.service.report.trainings import TrialFacts
from sweeps.service.tables.table import Table
from sweeps.service.text import param_text
from sweeps.service.trials.folder import State

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A figure as the page shows it.

    Attributes:
        name: of its files, distinct on the page.
        title: its caption.
        svg: the file's text.
        notes: what is left out, and why.
    """

    name: str
    title: str
    svg: str
    notes: tuple[str, ...] = ()


def make_page(
    plan: Plan, tables: Mapping[str, Table], figures: Mapping[str, Sequence[Drawn]], trials: Mapping[str, TrialFacts]
) -> str:
    """The page's text.

    Args:
        plan: the sweep.
        tables: by name.
        figures: of each table, by its name.
        trials: by identity.
    """
    sections = [*_table_sections(tables, figures), *_other_sections(plan, trials)]
    links = "".join(f"<li><a href='#{place}'>{escape(title)}</a></li>" for place, title, _ in sections)
    parts = [
        "<!DOCTYPE html>",
        "<html lang='en'>",
        "<head>",
        "<meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        "<meta name='color-scheme' content='light dark'>",
        f"<title>{escape(plan.name)}: {escape(plan.title)}</title>",
        "<link rel='icon' href='data:,'>",
        f"<style>{(_HERE / 'page.css').read_text(encoding='utf-8')}</style>",
        "</head>",
        "<body>",
        "<header>",
        f"<h1>{escape(plan.title)}</h1>",
        *_about(plan, trials),
        f"<nav aria-label='Sections'><ul>{links}</ul></nav>",
        "</header>",
        "<main>",
        *(f"<section id='{place}'><h2>{escape(title)}</h2>\n{body}\n</section>" for place, title, body in sections),
        "</main>",
        f"<footer><p>Made from the trials by <code>mucon-sweeps report {escape(plan.name)}</code>.</p></footer>",
        "<dialog aria-label='Figure'><form method='dialog'><button>close</button></form><div></div></dialog>",
        f"<script>{(_HERE / 'page.js').read_text(encoding='utf-8')}</script>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def inline_svg(figure: Drawn) -> str:
    """A figure's file as part of a page: its names are its own, its greys the page's.

    Args:
        figure: of matplotlib.
    """
    svg = figure.svg[figure.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\b(id=\"|url\(#|href=\"#)", lambda found: f"{found.group(1)}{figure.name}-", svg)
    svg = svg.replace("xlink:href=", "href=").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    svg = svg.replace(' xmlns="http://www.w3.org/2000/svg"', "")
    for colour, name in ((INK, "ink"), (PALE, "pale"), (RULE, "rule"), (f"fill: {PAPER}", "paper")):
        before = "fill: " if colour.startswith("fill") else ""
        svg = re.sub(rf"{colour}\b", f"{before}var(--{name})", svg, flags=re.IGNORECASE)
    label = f' role="img" aria-label="{escape(figure.title)}"'
    return re.sub(r'^<svg ([^>]*?)width="[\d.]+pt" height="[\d.]+pt"|^<svg', rf"<svg{label} \1", svg, count=1)


def _about(plan: Plan, trials: Mapping[str, TrialFacts]) -> Iterator[str]:
    path = plan.folder / SWEEP_FILE
    sweep = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    states = Counter(trial.state for trial in trials.values())
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    yield f"<p>Sweep <strong>{escape(plan.name)}</strong>: {len(trials)} trials ({counts})</p>"
    if sweep:
        yield f"<p>First run {escape(sweep['created'])} as <code>{escape(sweep['command'])}</code></p>"
    parent = read_links(plan.folder).get("")
    if parent:
        yield f"<p><a href='{escape(parent)}'>The sweep on the tracking server</a></p>"


def _table_sections(
    tables: Mapping[str, Table], figures: Mapping[str, Sequence[Drawn]]
) -> Iterator[tuple[str, str, str]]:
    for name, table in tables.items():
        short = _notes([note for note in table.notes if note not in table.differences], table.missing)
        long = _notes(table.differences, ())
        folded = f"<details><summary>Which rows differ</summary>{long}</details>" if table.differences else ""
        body = [score_table(table), short, folded, *map(_figure, figures[name])]
        yield f"table-{escape(name)}", table.title, "\n".join(body)


def _notes(notes: Sequence[str], missing: Sequence[str]) -> str:
    lines = (f"<li{' class=missing' if note in missing else ''}>{escape(note)}</li>" for note in notes)
    return f"<ul class='notes'>{''.join(lines)}</ul>"


def _figure(drawn: Drawn) -> str:
    notes = "".join(f"<br>{escape(note)}" for note in drawn.notes)
    return (
        f"<figure id='figure-{escape(drawn.name)}'>{inline_svg(drawn)}"
        f"<figcaption>{escape(drawn.title)}{notes} "
        f"<button type='button' class='open'>enlarge</button></figcaption></figure>"
    )


def _other_sections(plan: Plan, trials: Mapping[str, TrialFacts]) -> Iterator[tuple[str, str, str]]:
    without = [trial for trial in trials.values() if trial.state is not State.FINISHED]
    if without:
        yield "without", f"Trials without a value ({len(without)})", _without_table(without)
    yield "trials", "Trials", trials_table(trials.values())
    yield "configuration", "Configuration", "\n".join(_configuration(plan, trials))
    yield "environment", "Environment", _environment(trials)


def _without_table(trials: Sequence[TrialFacts]) -> str:
    heads = [Head("trial"), Head("split"), Head("seed", number=True), Head("state"), Head("reason"), Head("folder")]
    rows = [
        [
            Item(" / ".join(trial.rows)),
            Item(trial.split),
            Item(str(trial.seed), number=trial.seed),
            Item(str(trial.state), kind="bad"),
            Item(trial.reason or ""),
            Item(f"trials/{trial.identity}", kind="code"),
        ]
        for trial in trials
    ]
    return sortable("Trials without a value", heads, rows)


def _configuration(plan: Plan, trials: Mapping[str, TrialFacts]) -> Iterator[str]:
    """What varies by row, and what all trials have in common."""
    heads = [Head("table"), Head("row"), Head("settings of the row")]
    rows = [
        [
            Item(part.experiment.name),
            Item(row.name),
            Item(", ".join(f"{path}={param_text(value)}" for path, value in row.settings.items()) or "the base's"),
        ]
        for part in plan.parts
        for row in part.experiment.variants
    ]
    yield sortable("Settings of the rows", heads, rows)
    configs = [trial.config for trial in trials.values() if trial.config]
    if configs:
        paths = sorted(set().union(*configs))
        values = {path: {param_text(config.get(path)) for config in configs} for path in paths}
        common = [[Item(path, kind="code"), Item(found.pop())] for path, found in values.items() if len(found) == 1]
        yield "<details><summary>Settings that all trials have in common</summary>"
        yield sortable("Settings that all trials have in common", [Head("setting"), Head("value")], common)
        yield "</details>"
    splits = [[Item(name), Item(split.fingerprint, kind="code")] for name, split in plan.splits.items()]
    yield f"<p>Recordings: <code>{escape(plan.store)}</code></p>"
    yield sortable("Splits", [Head("split"), Head("fingerprint of its data")], splits)


def _environment(trials: Mapping[str, TrialFacts]) -> str:
    """Each fact with its values, and of how many trials, where they differ."""
    found = [trial.environment for trial in trials.values() if trial.environment]
    if not found:
        return "<p>No trial has been started.</p>"
    names: dict[str, Counter[str]] = {}
    for environment in found:
        for name, value in flatten(environment).items():
            names.setdefault(name, Counter())[param_text(value)] += 1
    rows = []
    for name, values in names.items():
        alone = len(values) == 1 and values.total() == len(found)
        shown = ", ".join(value if alone else f"{value} ({count})" for value, count in values.most_common())
        rows.append([Item(name, kind="code"), Item(shown)])
    return sortable("Environment of the trials", [Head("fact"), Head("value (trials)")], rows)
