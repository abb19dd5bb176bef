"""A sweep as one self-contained HTML page: tables, figures, trials, configuration and environment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from mucon.errors import InputError
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import read_links, read_sweep
from sweeps.service.report.figures.picture import Picture
from sweeps.service.report.figures.style import BAR, INK, PALE, PAPER, RAMP, RULE
from sweeps.service.report.page_tables import Head, Item, score_table, sortable, trials_table
from sweeps.service.report.search.findings import page_name
from sweeps.service.report.search.gathering import is_search
from sweeps.service.report.trainings import Training, score_columns, scored_trials
from sweeps.service.tables.best import choice
from sweeps.service.tables.standing import Standing
from sweeps.service.text import param_text
from sweeps.service.triage.failures import failure_lines, failures_of
from sweeps.service.trials.folder import State

_HERE = Path(__file__).parent
_TRIAL_NOTES = (
    "training loss and training MoF are those of the last epoch that measured them",
    "s/epoch is the median over the epochs of a trial, which the start of its process hardly changes",
    "folders are relative to this page in the results folder; commands run in the environment of the sweep",
)


def make_page(standing: Standing, pictures: Mapping[str, Sequence[Picture]], trainings: Mapping[str, Training]) -> str:
    """The page as text.

    Args:
        standing: state of the sweep.
        pictures: figures by name of the table; their files must be in the sweep's directory.
        trainings: trainings by identity.
    """
    plan = standing.plan
    sections = [*_table_sections(standing, pictures), *_other_sections(standing, trainings)]
    footer = f"Generated from the trials by <code>mucon-sweeps report {escape(plan.name)}</code>."
    return document(f"{plan.name}: {plan.title}", plan.title, _about(plan, trainings), sections, footer)


def document(
    name: str,
    title: str,
    about: Iterable[str],
    sections: Sequence[tuple[str, str, str]],
    footer: str,
    *,
    reload_seconds: int | None = None,
) -> str:
    """A self-contained page.

    Args:
        name: title of the window.
        title: heading.
        about: paragraphs below the heading, as markup.
        sections: anchor, title and markup of each section.
        footer: markup of the last paragraph.
        reload_seconds: time after which the browser loads the page again; None for a page that stays.
    """
    reload = [] if reload_seconds is None else [f"<meta http-equiv='refresh' content='{reload_seconds}'>"]
    links = "".join(f"<li><a href='#{anchor}'>{escape(title)}</a></li>" for anchor, title, _ in sections)
    parts = [
        "<!DOCTYPE html>",
        "<html lang='en'>",
        "<head>",
        "<meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        "<meta name='color-scheme' content='light dark'>",
        *reload,
        f"<title>{escape(name)}</title>",
        "<link rel='icon' href='data:,'>",
        f"<style>{(_HERE / 'page.css').read_text(encoding='utf-8')}</style>",
        "</head>",
        "<body>",
        "<header>",
        f"<h1>{escape(title)}</h1>",
        *about,
        f"<nav aria-label='Sections'><ul>{links}</ul></nav>",
        "</header>",
        "<main>",
        *(f"<section id='{anchor}'><h2>{escape(title)}</h2>\n{body}\n</section>" for anchor, title, body in sections),
        "</main>",
        f"<footer><p>{footer}</p></footer>",
        "<dialog aria-label='Figure'><form method='dialog'><button>close</button></form><div></div></dialog>",
        f"<script>{(_HERE / 'page.js').read_text(encoding='utf-8')}</script>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def notes(lines: Iterable[str]) -> str:
    """Notes below a table or a figure as a list; empty without notes."""
    return _list([("", line) for line in lines])


def figure(picture: Picture, folder: Path, beside: str = "") -> str:
    """A figure with its caption and notes.

    Args:
        picture: the figure.
        folder: folder of its files.
        beside: markup after the caption, such as a link.
    """
    svg = (folder / f"{picture.name}.svg").read_text(encoding="utf-8")
    notes = "".join(f"<br>{escape(note)}" for note in picture.notes)
    return (
        f"<figure id='figure-{escape(picture.name)}'>{inline_svg(picture, svg)}"
        f"<figcaption>{escape(picture.title)}{notes} {beside}"
        f"<button type='button' class='open'>enlarge</button></figcaption></figure>"
    )


def inline_svg(picture: Picture, svg: str) -> str:
    """Converts an SVG file of matplotlib to an inline element with unique ids and the page's colours.

    Args:
        picture: the figure.
        svg: content of the file.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\b(id=\"|url\(#|href=\"#)", lambda match: f"{match.group(1)}{picture.name}-", svg)
    svg = svg.replace("xlink:href=", "href=").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    svg = svg.replace(' xmlns="http://www.w3.org/2000/svg"', "")
    ramp = ((colour, f"ramp-{level}") for level, colour in enumerate(RAMP))
    for colour, name in ((INK, "ink"), (PALE, "pale"), (RULE, "rule"), (BAR, "bar"), (PAPER, "paper"), *ramp):
        svg = re.sub(rf"((?:fill|stroke): ){colour}\b", rf"\1var(--{name})", svg, flags=re.IGNORECASE)
    label = f' role="img" aria-label="{escape(picture.title)}"'
    opening = r'^<svg ([^>]*?)width="[\d.]+pt" height="[\d.]+pt"|^<svg'
    return re.sub(opening, lambda match: f"<svg{label} {match[1] or ''}", svg, count=1)


def _about(plan: Plan, trainings: Mapping[str, Training]) -> Iterator[str]:
    try:
        record = read_sweep(plan.folder)
    except InputError:  # damaged; the command reports it
        record = None
    states = Counter(training.state for training in trainings.values())
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    yield f"<p>Sweep <strong>{escape(plan.name)}</strong>: {len(trainings)} trials ({counts})</p>"
    if made := choice(plan):
        yield f"<p>{escape(made[0].upper() + made[1:])}.</p>"
    if record is not None:
        yield f"<p>First run {escape(record.created or '')} as <code>{escape(record.sweep.command)}</code></p>"
    if is_search(plan):
        yield f"<p><a href='{escape(page_name(plan.name))}'>The search</a>: best points, importance, figures</p>"
    links = read_links(plan.folder)
    pages = {"sweep": links.sweep, "all runs": links.runs}
    anchors = [f"<a href='{escape(page)}'>{escape(name)}</a>" for name, page in pages.items() if page]
    if anchors:
        start = f", which <code>{escape(links.serve)}</code> starts" if links.serve else ""
        yield f"<p>MLflow: {', '.join(anchors)}. Links to runs need the server{start}.</p>"


def _table_sections(standing: Standing, pictures: Mapping[str, Sequence[Picture]]) -> Iterator[tuple[str, str, str]]:
    for name, table in standing.tables.items():
        short = _list([*(("", note) for note in table.notes.about), *(("missing", n) for n in table.notes.missing)])
        long = notes(table.notes.differences)
        folded = f"<details><summary>Significant differences</summary>{long}</details>" if long else ""
        figures = [figure(picture, standing.plan.folder) for picture in pictures[name]]
        yield f"table-{escape(name)}", table.title, "\n".join([score_table(table), short, folded, *figures])


def _list(notes: Sequence[tuple[str, str]]) -> str:
    """Pairs of a class and a note as a list; empty without notes."""
    lines = "".join(f"<li{f' class={kind}' if kind else ''}>{escape(note)}</li>" for kind, note in notes)
    return f"<ul class='notes'>{lines}</ul>" if lines else ""


def _other_sections(standing: Standing, trainings: Mapping[str, Training]) -> Iterator[tuple[str, str, str]]:
    plan = standing.plan
    unfinished = [training for training in trainings.values() if training.state is not State.FINISHED]
    if unfinished:
        yield "without", f"Trials without results ({len(unfinished)})", _unfinished_table(unfinished)
    groups = failures_of(plan.results, plan.cells, standing.results)
    if groups:
        causes = (map(escape, map(str.strip, failure_lines([group], plan.results))) for group in groups)
        items = "".join(f"<li class=missing>{'<br>'.join(lines)}</li>" for lines in causes)
        yield "failures", f"Causes of failures ({len(groups)})", f"<ul class='notes'>{items}</ul>"
    table = trials_table(scored_trials(standing, trainings), score_columns(plan))
    yield "trials", "Trials", table + notes((f"scores are those of the {plan.part} part", *_TRIAL_NOTES))
    yield "configuration", "Configuration", "\n".join(_configuration(plan, trainings))
    yield "environment", "Environment", _environment(trainings)


def _unfinished_table(trainings: Sequence[Training]) -> str:
    heads = [Head("trial"), Head("split"), Head("seed", number=True), Head("state"), Head("reason"), Head("folder")]
    rows = [
        [
            Item(" / ".join(training.rows)),
            Item(training.split),
            Item(str(training.seed), number=training.seed),
            Item(str(training.state), kind="bad"),
            Item(training.reason or ""),
            Item(f"trials/{training.identity}", kind="code"),
        ]
        for training in trainings
    ]
    return sortable("Trials without results", heads, rows)


def _configuration(plan: Plan, trainings: Mapping[str, Training]) -> Iterator[str]:
    """Settings of the rows, settings common to all trials, and the data."""
    heads = [Head("table"), Head("row"), Head("settings of the row")]
    rows = [
        [
            Item(part.experiment.name),
            Item(row.name),
            Item(", ".join(f"{path}={param_text(value)}" for path, value in row.settings.items()) or "base settings"),
        ]
        for part in plan.parts
        for row in part.experiment.variants
    ]
    yield sortable("Settings of the rows", heads, rows)
    configs = [training.config for training in trainings.values() if training.config]
    if configs:
        paths = sorted(set().union(*configs))
        values = {path: {param_text(config.get(path)) for config in configs} for path in paths}
        common = [[Item(path, kind="code"), Item(texts.pop())] for path, texts in values.items() if len(texts) == 1]
        yield "<details><summary>Settings common to all trials</summary>"
        yield sortable("Settings common to all trials", [Head("setting"), Head("value")], common)
        yield "</details>"
    splits = [[Item(name), Item(split.fingerprint, kind="code")] for name, split in plan.splits.items()]
    yield f"<p>Recordings: <code>{escape(plan.store)}</code></p>"
    yield sortable("Splits", [Head("split"), Head("data fingerprint")], splits)
    for name, split in plan.splits.items():
        if split.validation:
            title = f"Validation part of split {name} ({len(split.validation)} recordings)"
            names = escape(", ".join(split.validation))
            yield f"<details><summary>{escape(title)}</summary><p>{names}</p></details>"


def _environment(trainings: Mapping[str, Training]) -> str:
    """Each fact with its values; with the number of trials per value if they differ."""
    environments = [training.environment for training in trainings.values() if training.environment]
    if not environments:
        return "<p>No trial has been started.</p>"
    facts: dict[str, Counter[str]] = {}
    for environment in environments:
        for name, value in environment.items():
            facts.setdefault(name, Counter())[param_text(value)] += 1
    rows = []
    for name, values in facts.items():
        is_common = len(values) == 1 and values.total() == len(environments)
        text = ", ".join(value if is_common else f"{value} ({count})" for value, count in values.most_common())
        rows.append([Item(name, kind="code"), Item(text)])
    return sortable("Environment of the trials", [Head("fact"), Head("value (trials)")], rows)
