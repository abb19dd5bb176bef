"""`mucon-sweeps status`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import clock, say

if TYPE_CHECKING:
    from sweeps.service.plan.status import CellStatus, SweepStatus

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "status",
        help="list the sweeps of a results folder, or the trials of one sweep",
        description=(
            "Without a name: the sweeps that have run, and the states of their trials. With a name: the state of every "
            "trial. Reads the results folder alone. Exit status 3 if a listed sweep has a trial without a result."
        ),
        epilog="example: mucon-sweeps status ablation_masks",
    )
    parser.add_argument("name", nargs="?", help="name of a sweep that has run")
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the states."""
    from sweeps.service.plan.plan import FILE
    from sweeps.service.plan.status import sweep_status
    from sweeps.service.trials.results_folder import ResultsFolder

    results = ResultsFolder.at(options.results)
    names = [options.name] if options.name else [folder.name for folder in results.sweeps(FILE)]
    found, damaged = [], []
    for name in names:
        try:
            found.append(sweep_status(results, name))
        except InputError as error:
            if options.name:
                raise
            damaged.append(error.line)
    if options.json:
        print(
            json.dumps({"format_version": FORMAT_VERSION, "sweeps": [status.to_dict() for status in found]}, indent=1)
        )
    else:
        console = new_console()
        for line in _lines(found, with_cells=options.name is not None) if found else ["no sweep has run here"]:
            say(console, line)
    for line in damaged:
        print(f"error: {line}", file=sys.stderr)
    return EXIT_OK if not damaged and all(status.is_complete for status in found) else EXIT_PARTIAL


def _lines(found: list[SweepStatus], *, with_cells: bool) -> Iterator[str]:
    width = max(len(status.name) for status in found)
    for status in found:
        counts = ", ".join(f"{count} {state}" for state, count in status.counts.items())
        runner = f"; run by {status.runner}" if status.runner else ""
        yield f"{status.name:<{width}}  {counts} of {len(status.cells)}{runner}"
        if with_cells:
            tables = len({cell.table for cell in status.cells})
            yield from (_line(cell, with_table=tables > 1) for cell in status.cells)


def _line(cell: CellStatus, *, with_table: bool) -> str:
    parts = [f"{cell.table}: " if with_table else "", f"{cell.row}, split {cell.split}, seed {cell.seed}"]
    if cell.holder is not None:
        since = "" if cell.since is None else f" for {clock(time.time() - cell.since)}"
        left = "" if cell.left is None else f", about {clock(cell.left)} left"
        parts.append(f": {cell.holder}{since}, epoch {cell.epoch}{left}")
    elif cell.reason:
        parts.append(f": {cell.reason}")
    elif cell.epoch and cell.state not in ("finished", "failed", "diverged"):
        parts.append(f": resumes after epoch {cell.epoch}")
    shared = f"  (also in {', '.join(cell.shared)})" if cell.shared else ""
    return f"  {cell.identity}  {cell.state:<8}  {''.join(parts)}{shared}"
