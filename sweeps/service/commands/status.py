"""`mucon-sweeps status`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError, Problem
from sweeps.service.commands.options import add_cluster, add_results, new_console
from sweeps.service.text import clock, plain, say, wrapped

if TYPE_CHECKING:
    from rich.console import Console

    from sweeps.service.report.search.progress import SearchProgress
    from sweeps.service.triage.status import CellStatus, SweepStatus
    from sweeps.service.trials.results_folder import ResultsFolder

FORMAT_VERSION = 4
"""Version of the output of `--json`, see docs/formats.md."""
WATCH_SECONDS = 2.0
"""Seconds between two looks of `--watch`."""
FIRST = ("running", "failed", "diverged", "damaged", "lost", "stopped", "stale", "pending", "missing")
"""Order of the trials in `--watch`, whose end a low terminal does not show."""


class Look(NamedTuple):
    """What a look at a results folder finds.

    Attributes:
        found: the sweeps.
        unreadable: sweep -> why it cannot be read.
        searches: sweep -> how far its search has come.
    """

    found: list[SweepStatus]
    unreadable: dict[str, str]
    searches: dict[str, SearchProgress]

    @classmethod
    def of(cls, results: ResultsFolder, found: list[SweepStatus], unreadable: dict[str, str]) -> Look:
        """The sweeps with the progress of those that are searches."""
        from sweeps.service.report.search.progress import SearchProgress

        progress = {status.name: SearchProgress.of(results, status.name) for status in found}
        searches = {name: one for name, one in progress.items() if one is not None}
        whole = [searches[one.name].with_it(one) if one.name in searches else one for one in found]
        return cls(whole, unreadable, searches)

    @property
    def is_running(self) -> bool:
        """Whether a process runs one of the sweeps."""
        return any(status.runner is not None for status in self.found)

    @property
    def exit_status(self) -> int:
        """3 if a sweep has a trial without a result or cannot be read."""
        complete = not self.unreadable and all(status.is_complete for status in self.found)
        complete &= all(search.is_complete for search in self.searches.values())
        return EXIT_OK if complete else EXIT_PARTIAL


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "status",
        help="list the sweeps of a results folder, or the trials of one sweep",
        description=(
            "Without a name: the sweeps that have run, and the states of their trials. With a name: the state of every "
            "trial, and the failures by cause. Reads the results folder alone. Exit status 3 if a listed sweep has a "
            "trial without a result."
        ),
        epilog="example: mucon-sweeps status ablation_masks\n"
        "         mucon-sweeps status --why 'box, no, split 1, seed 2'",
    )
    parser.add_argument("name", nargs="?", help="name of a sweep that has run")
    add_results(parser)
    add_cluster(parser)
    parser.add_argument(
        "--why",
        metavar="TRIAL",
        help="explain why a trial has no result: identity, its first characters, its directory, or ROW/SPLIT/SEED",
    )
    parser.add_argument(
        "--watch",
        nargs="?",
        metavar="SECONDS",
        const=str(WATCH_SECONDS),
        help=f"look again and again until no process runs the sweeps (default: every {WATCH_SECONDS:g} s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the states, once or until no process runs the sweeps."""
    if options.cluster is not None:
        from sweeps.service.run.executor.cluster.views import print_jobs

        return print_jobs(options.cluster, options.name, as_json=options.json)
    from sweeps.service.triage.status import all_statuses, sweep_status
    from sweeps.service.trials.results_folder import ResultsFolder

    results = ResultsFolder.at(options.results)
    name, seconds = _watched(options)
    if options.why is not None:
        return _explain(results, options)

    def look() -> Look:
        found = ([sweep_status(results, name)], {}) if name else all_statuses(results)
        return Look.of(results, *found)

    seen = look()
    if options.json:
        print(json.dumps(_as_json(seen), indent=1))
        return seen.exit_status
    if seconds is None:
        _print(seen, results, new_console(), with_cells=name is not None)
        return seen.exit_status
    return _watch(look, results, seconds, with_cells=name is not None)


def _watched(options: argparse.Namespace) -> tuple[str | None, float | None]:
    """The name of the sweep and the interval of `--watch`, whose word is the name if it is no number."""
    name = options.name
    if options.watch is None:
        return name, None
    if options.json or options.why is not None:
        other = "--json" if options.json else "--why"
        raise InputError(Problem(rule="conflict", place="--watch", value=other, message=f"{other} looks once"))
    try:
        seconds = float(options.watch)
    except ValueError:
        if name is not None:
            raise InputError(
                Problem(rule="type", place="--watch", value=options.watch, expected="a number of seconds")
            ) from None
        name, seconds = options.watch, WATCH_SECONDS
    if not 0 < seconds < float("inf"):
        raise InputError(Problem(rule="range", place="--watch", value=options.watch, expected="more than 0 seconds"))
    return name, seconds


def _as_json(seen: Look) -> dict[str, Any]:
    damaged = [{"name": name, "error": error} for name, error in seen.unreadable.items()]
    return {
        "format_version": FORMAT_VERSION,
        "sweeps": [
            {**status.to_dict(), "search": search and search.to_dict()}
            for status in seen.found
            for search in [seen.searches.get(status.name)]
        ],
        "unreadable": damaged,
    }


def _explain(results: ResultsFolder, options: argparse.Namespace) -> int:
    """Prints why a trial has no result; the exit status is 3 if it has none."""
    from sweeps.service.triage.why import explain

    explanation = explain(results, options.why, options.name)
    if options.json:
        print(json.dumps({"format_version": FORMAT_VERSION, **explanation.to_dict()}, indent=1))
    else:
        console = new_console()
        for line in explanation.lines():
            _say(console, line)
    return EXIT_OK if explanation.is_finished else EXIT_PARTIAL


def _watch(look: Callable[[], Look], results: ResultsFolder, seconds: float, *, with_cells: bool) -> int:
    """Shows look after look: in place on a terminal, as blocks elsewhere; ends with the sweeps or with Ctrl-C."""
    from rich.live import Live
    from rich.text import Text

    console = new_console()
    seen = look()
    try:
        if not console.is_terminal:
            _print(seen, results, console, with_cells=with_cells)
            while seen.is_running and getattr(sys.stdout, "has_reader", True):
                time.sleep(seconds)
                seen = look()
                say(console, "")
                _print(seen, results, console, with_cells=with_cells)
            return seen.exit_status

        def picture() -> Text:
            lines = [*_lines(seen, results, with_cells=with_cells, running_first=True), *seen.unreadable.values()]
            text = plain("\n".join(" ".join(line.split("\n")) for line in lines))
            text.no_wrap, text.overflow = True, "ellipsis"
            return text

        with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis", transient=True) as live:
            live.update(picture(), refresh=True)
            while seen.is_running:
                time.sleep(seconds)
                seen = look()
                live.update(picture(), refresh=True)
    except KeyboardInterrupt:
        pass
    if console.is_terminal:
        _print(seen, results, console, with_cells=with_cells)
    return seen.exit_status


def _print(seen: Look, results: ResultsFolder, console: Console, *, with_cells: bool) -> None:
    for line in _lines(seen, results, with_cells=with_cells):
        _say(console, line)
    if not seen.found and not seen.unreadable:
        say(console, f"no sweep has run in {results.path}")
    for error in seen.unreadable.values():
        print(f"error: {' '.join(error.split())}", file=sys.stderr)


def _say(console: Console, line: str) -> None:
    """Prints one line; on a terminal, it continues below between words."""
    lines = wrapped(" ".join(line.split("\n")), console.width if console.is_terminal else 0)
    say(console, "\n".join(lines))


def _lines(seen: Look, results: ResultsFolder, *, with_cells: bool, running_first: bool = False) -> Iterator[str]:
    from sweeps.service.triage.failures import failure_lines

    width = max((len(status.name) for status in seen.found), default=0)
    for status in seen.found:
        yield f"{status.name:<{width}}  {status.state:<10}  {_progress(status)}{_time(status)}"
        if status.name in seen.searches:
            yield f"  {seen.searches[status.name].line()}"
        if with_cells:
            tables = len({cell.table for cell in status.cells})
            cells = list(status.cells)
            if running_first:
                cells.sort(key=lambda cell: FIRST.index(cell.state) if cell.state in FIRST else len(FIRST))
            yield from (_line(cell, with_table=tables > 1) for cell in cells)
            yield from failure_lines(status.failures, results)


def _progress(status: SweepStatus) -> str:
    others = [f"{count} {state}" for state, count in status.counts.items() if state not in ("finished", "known")]
    return f"{status.n_finished} of {len(status.cells)}{''.join(f', {text}' for text in others)}"


def _time(status: SweepStatus) -> str:
    """For how long it has run and who runs it, or when it ended."""
    if status.runner is None:
        ended = status.since and time.strftime("%Y-%m-%d %H:%M", time.localtime(status.since))
        return f"; last trial ended {ended}" if ended else ""
    since = "" if status.since is None else f"; for {clock(time.time() - status.since)}"
    slots = "" if status.at_a_time is None else f", {status.at_a_time} at a time"
    left = "" if status.left is None else f", about {clock(status.left)} left"
    return f"{since}{slots}{left}; {status.runner}"


def _line(cell: CellStatus, *, with_table: bool) -> str:
    from sweeps.service.triage.failures import shortened

    parts = [f"{cell.table}: " if with_table else "", cell.name]
    if cell.holder is not None and cell.state == "pending":
        parts.append(f": {cell.reason}, {cell.holder}")
    elif cell.holder is not None:
        since = "" if cell.since is None else f", for {clock(time.time() - cell.since)}"
        left = "" if cell.left is None else f", about {clock(cell.left)} left"
        parts.append(f": epoch {cell.epoch}{left}{since}, {cell.holder}")
    elif cell.state == "stale":
        parts.append(f": trained as {', '.join(cell.earlier)} before; `status --why {cell.identity}` compares")
    elif cell.reason:
        parts.append(f": {shortened(cell.reason)}")
    elif cell.epoch and cell.state in ("stopped", "lost", "pending", "missing"):
        parts.append(f": resumes after epoch {cell.epoch}")
    shared = f"  (also in {', '.join(cell.shared)})" if cell.shared else ""
    return f"  {cell.identity}  {cell.state:<8}  {''.join(parts)}{shared}"
