"""`mucon-sweeps logs`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK, InputError, Problem
from sweeps.service.commands.options import add_cluster, add_results, new_console
from sweeps.service.text import say

if TYPE_CHECKING:
    from sweeps.service.trials.folder import TrialFolder
    from sweeps.service.trials.results_folder import ResultsFolder

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""
LINES = 100
LINES_OF_A_SWEEP = 10
"""Default numbers of lines: of a trial, and of each trial of a sweep."""
LOOK_SECONDS = 0.5
"""Seconds between two looks of `--follow`."""


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "logs",
        help="print what a trial has recorded and printed",
        description=(
            "Prints the last lines of a trial's journal, of its traceback, and of what its worker printed. With the "
            "name of a sweep: the last lines of each of its trials that failed."
        ),
        epilog="example: mucon-sweeps logs 1f0c52d4a9e37b86 --follow",
    )
    parser.add_argument(
        "trial", metavar="TRIAL", help="identity, its first characters, directory, ROW/SPLIT/SEED, or a sweep's name"
    )
    parser.add_argument(
        "-n",
        "--lines",
        type=int,
        metavar="N",
        help=f"lines of each part (default: {LINES}; of a sweep: {LINES_OF_A_SWEEP} of each trial)",
    )
    parser.add_argument("--follow", action="store_true", help="go on until no process runs the trial")
    add_results(parser)
    add_cluster(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the lines."""
    if options.cluster is not None:
        from sweeps.service.run.executor.cluster.views import print_output

        return print_output(options.cluster, options.trial, lines=options.lines or LINES, follows=options.follow)
    from sweeps.service.triage.log import follow, log_lines
    from sweeps.service.triage.naming import find
    from sweeps.service.trials.results_folder import ResultsFolder

    results = ResultsFolder.at(options.results)
    is_sweep = _is_sweep(results, options.trial)
    _check(options, is_sweep)
    if is_sweep:
        chosen, lines = _failed(results, options.trial), options.lines or LINES_OF_A_SWEEP
    else:
        named = find(results, options.trial)
        chosen, lines = {named.title: named.reading.folder}, options.lines or LINES
    if options.json:
        trials = [_as_json(title, folder) for title, folder in chosen.items()]
        print(json.dumps({"format_version": FORMAT_VERSION, "trials": trials}, indent=1))
        return EXIT_OK
    console = new_console()
    if not chosen:
        say(console, f"no trial of {options.trial} has failed, is lost or is damaged")
    for title, folder in chosen.items():
        said = list(log_lines(folder, lines))
        for line in (
            f"{folder.identity}  {title}",
            *(said or ["nothing is recorded yet"]),
            *([""] if is_sweep else []),
        ):
            say(console, line)
    if options.follow:
        sweeps = [results.running(place.sweep) for place in named.places]
        for line in follow(named.reading.folder, sweeps, _wait):
            say(console, line)
    return EXIT_OK


def _is_sweep(results: ResultsFolder, name: str) -> bool:
    from sweeps.service.plan.plan import FILE
    from sweeps.service.spec.texts import name_problems

    return not any(name_problems("name", name)) and (results.sweep(name) / FILE).exists()


def _check(options: argparse.Namespace, is_sweep: bool) -> None:
    if options.lines is not None and options.lines < 1:
        raise InputError(Problem(rule="range", place="--lines", value=options.lines, expected="at least 1"))
    if options.follow and (options.json or is_sweep):
        value = "--json" if options.json else options.trial
        message = "--json looks once" if options.json else "only one trial can be followed"
        hint = "" if options.json else f"`mucon-sweeps status {options.trial} --watch` shows all"
        raise InputError(Problem(rule="conflict", place="--follow", value=value, message=message, hint=hint))


def _failed(results: ResultsFolder, name: str) -> dict[str, TrialFolder]:
    """Row, split and seed of each failed, lost or damaged trial of a sweep -> its directory."""
    from sweeps.service.triage.status import CellState, sweep_status

    states = (CellState.FAILED, CellState.DIVERGED, CellState.LOST, CellState.DAMAGED)
    cells = [cell for cell in sweep_status(results, name).cells if cell.state in states]
    return {f"{cell.name}: {cell.state}": results.trial(cell.identity) for cell in cells}


def _wait() -> bool:
    """Waits for a moment; returns whether somebody still reads the output."""
    time.sleep(LOOK_SECONDS)
    return bool(getattr(sys.stdout, "has_reader", True))


def _as_json(title: str, folder: TrialFolder) -> dict[str, Any]:
    from sweeps.service.triage.log import journal_lines, output_lines, traceback_lines

    parts = {"journal": journal_lines(folder), "traceback": traceback_lines(folder), "output": output_lines(folder)}
    return {"identity": folder.identity, "name": title, **parts}
