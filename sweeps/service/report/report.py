"""Writes all files of a sweep for people to look at, and prints the tables."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from storage import open_store
from storage.remote.addresses import name_of
from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.plan.sweep_folder import Outcome, read_links
from sweeps.service.report.current import read_current, shown, write_current
from sweeps.service.report.figures.pictures import draw_pictures, pictures_of
from sweeps.service.report.figures.segmentations import chosen_recordings
from sweeps.service.report.live import write_live
from sweeps.service.report.page import make_page
from sweeps.service.report.search.findings import Findings, page_name
from sweeps.service.report.search.gathering import findings_of, is_search
from sweeps.service.report.search.report import write_search_report
from sweeps.service.report.search.texts import fresh_lines, search_lines, search_metrics
from sweeps.service.report.trainings import read_trainings
from sweeps.service.tables.best import best_lines, command_lines, outcome_of
from sweeps.service.tables.latex import latex
from sweeps.service.tables.parquet import write_trials
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.table import Table
from sweeps.service.tables.text import comma_separated, for_terminal, markdown, shortened
from sweeps.service.text import say, wrapped
from sweeps.service.trials.known_results import write_known
from sweeps.service.trials.results_folder import ResultsFolder

SHOWN_POINTS = 10
"""Number of points of a search that the terminal shows; files have all."""
MAX_NAMED = 2
"""Files of a kind up to which the terminal names each of them."""


def write_report(standing: Standing, findings: Findings | None = None, until: float = math.inf) -> dict[str, Path]:
    """Writes the plan, tables, figures and the page of a sweep into its directory.

    Tables are written as `TABLE.md`, `.csv` and `.tex`, all trials as `trials.parquet`, figures as `.svg` and `.png`,
    the page as `SWEEP.html` and, in place of the page of the running sweep, as `index.html`; those of a search besides,
    see `write_search_report`. A report that shows all this already is left as it is.

    Args:
        standing: the sweep.
        findings: of a search, as `findings_of` reads them; None: they are read if they are needed.
        until: when no further figure is begun, on the monotonic clock; the page lacks those that are left, and the next
            report draws them.

    Returns:
        File name -> path, without the plan.

    Raises:
        InputError: a figure names a recording that is not scored.
    """
    plan, shows = standing.plan, shown(standing)
    if (current := read_current(plan.folder, shows)) is not None:
        return current
    plan.write()
    trainings = read_trainings(standing)
    pictures = {part.experiment.name: pictures_of(part, standing, trainings) for part in plan.parts}
    figures = draw_pictures([picture for group in pictures.values() for picture in group], plan.folder, until=until)
    drawn = {name: [one for one in group if f"{one.name}.svg" in figures] for name, group in pictures.items()}
    page, text = plan.folder / f"{plan.name}.html", make_page(standing, drawn, trainings)
    page.write_text(text, encoding="utf-8")
    write_live(plan.folder, text)
    files = {**write_tables(standing, plan.folder), **figures, page.name: page}
    if is_search(plan):
        findings = findings or findings_of(plan)
        files |= _write_search(plan, findings, until)
    write_known(plan.folder, standing.results)
    is_damaged = findings is not None and findings.damage
    if drawn == pictures and time.monotonic() < until and not is_damaged:
        write_current(plan.folder, shows, files)
    return files


def report_again(results: ResultsFolder, name: str) -> Standing:
    """Reads a sweep that has run and writes its report.

    Raises:
        InputError: no such sweep, or a damaged plan.
    """
    standing = Standing.of(read_plan(results, name))
    write_report(standing)
    return standing


def present(
    standing: Standing, console: Console, places: Sequence[str] | None = None, findings: Findings | None = None
) -> None:
    """Prints the tables, the best rows, where the report is, commands, and the notes without the long ones.

    On a terminal, lines end between words; commands continue after a backslash, so that they can be copied.

    Args:
        standing: the sweep.
        console: where to print.
        places: the lines about report and commands; by default those of a sweep in its results folder.
        findings: of a search; None: they are read.
    """
    if findings is None and is_search(standing.plan):
        findings = findings_of(standing.plan)
    for table in standing.tables.values():
        shown = shortened(table, SHOWN_POINTS) if findings else table
        console.print(for_terminal(shown, console))
        if len(shown.rows) < len(table.rows):
            say(console, f"the best {SHOWN_POINTS} points; all: {standing.plan.folder / table.name}.md")
    width = console.width if console.is_terminal else 0
    for line in best_lines(standing):
        say(console, "\n".join(wrapped(line, width)))
    if findings is not None:
        present_search(findings, console)
    for line in (*_places(standing.plan), *command_lines(standing)) if places is None else places:
        say(console, _folded(line, width))
    for table in standing.tables.values():
        for note in (*table.notes.about, *table.notes.missing):
            say(console, "\n".join(wrapped(note, width)))


def present_search(findings: Findings, console: Console) -> None:
    """Prints what a search has found, and what fresh seeds say of its best points."""
    width = console.width if console.is_terminal else 0
    lines = search_lines(findings)
    if findings.optimism is not None:
        console.print(for_terminal(findings.optimism, console))
        lines = [*findings.optimism.notes, *lines]
    elif findings.history.fresh:
        lines += fresh_lines(findings)
    for line in lines:
        say(console, "\n".join(wrapped(line, width)))


def outcome_with_search(standing: Standing, findings: Findings | None = None) -> Outcome:
    """What a sweep has found, for the tracking server, with the numbers of its search if it is one.

    Args:
        standing: the sweep.
        findings: of a search; None: they are read.

    Raises:
        InputError: a file of the search is damaged.
    """
    outcome = outcome_of(standing)
    if findings is None and not is_search(standing.plan):
        return outcome
    found = search_metrics(findings or findings_of(standing.plan))
    return replace(outcome, metrics={**outcome.metrics, **found})


def _write_search(plan: Plan, findings: Findings, until: float) -> dict[str, Path]:
    for name, text in findings.files.items():
        (plan.folder / name).write_text(text, encoding="utf-8")
    return {
        **write_search_report(findings, plan.folder, until),
        **{name: plan.folder / name for name in findings.files},
    }


def _places(plan: Plan) -> Iterator[str]:
    """Where the page, the figures and the LaTeX tables are, and how to see the runs in MLflow."""
    yield f"report:     {plan.folder / plan.name}.html"
    if is_search(plan):
        yield f"  search:   {plan.folder / page_name(plan.name)}"
    for title, suffix in (("figures", "png"), ("LaTeX", "tex")):
        names = sorted(path.name for path in plan.folder.glob(f"*.{suffix}"))
        for i, name in enumerate(names if len(names) <= MAX_NAMED else [f"*.{suffix}"]):
            yield f"  {'' if i else title + ':':<9} {plan.folder / name}"
    links = read_links(plan.folder)
    if address := links.runs or links.sweep:
        yield f"MLflow:     {address}"
        if links.serve:
            yield f"  start:    {links.serve}"


def _folded(line: str, width: int) -> str:
    """A titled command in lines that a shell reads as one; unchanged if the width is 0, or without words to part.

    Quoted words may contain spaces, so that a line with quotes is unchanged, too.
    """
    if len(line) <= width or not width or " " not in line.partition(": ")[2].strip() or "'" in line or '"' in line:
        return line
    return " \\\n".join(wrapped(line, width - 2))


def check_figures(plan: Plan) -> None:
    """Checks before training that the figures can be drawn afterwards.

    Raises:
        InputError: a figure names a recording that is not scored.
    """
    for part in plan.parts:
        shape = part.experiment.figure
        if shape is not None and shape.recordings:
            split = part.cells[0].split
            scored = plan.splits[split].validation or open_store(plan.store).split(split, "test")
            chosen_recordings(shape, scored, split, plan.part)


def write_tables(standing: Standing, folder: Path) -> dict[str, Path]:
    """Writes the tables of a sweep and the file with all trials into a folder; returns file name -> path."""
    plan = standing.plan
    kinds: dict[str, Callable[[Table], str]] = {
        "md": markdown,
        "csv": comma_separated,
        "tex": partial(latex, data=name_of(plan.store)),
    }
    texts = {f"{name}.{kind}": write(table) for name, table in standing.tables.items() for kind, write in kinds.items()}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    shapes = {part.experiment.name: (part.experiment, part.cells, standing.table(part)) for part in plan.parts}
    write_trials(folder / "trials.parquet", plan.name, shapes, standing.results, plan.part)
    return {name: folder / name for name in (*texts, "trials.parquet")}
