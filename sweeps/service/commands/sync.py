"""`mucon-sweeps sync`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError
from sweeps.service.commands.options import add_tracking_uri, new_console, tracking_uri
from sweeps.service.text import say

if TYPE_CHECKING:
    from sweeps.service.plan.sweep_folder import Outcome


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "sync",
        help="update a tracking server from a results folder",
        epilog="example: mucon-sweeps sync results --tracking-uri http://127.0.0.1:5000",
    )
    parser.add_argument("results", type=Path, help="results folder")
    add_tracking_uri(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ships what the server lacks, and prints the number of trials of each sweep and all failures."""
    from sweeps.service.plan.plan import read_plan
    from sweeps.service.tables.best import outcome_of
    from sweeps.service.tables.standing import Standing
    from sweeps.service.track.sync import sync
    from sweeps.service.trials.results_folder import ResultsFolder

    def outcome(sweep: str) -> Outcome | None:
        try:
            return outcome_of(Standing.of(read_plan(results, sweep)))
        except InputError:  # no plan, as of the trials of no sweep, or a damaged one, which `report` names
            return None

    results, console = ResultsFolder.at(options.results), new_console()
    uri = tracking_uri(options.tracking_uri, results)
    complete = True
    for name, shipment in sync(results, uri, outcome_of=outcome).items():
        say(console, f"{name}: {len(shipment.shipped)} trials")
        for line in shipment.lines(results.path, uri):
            say(console, line)
        complete = complete and shipment.complete
    return EXIT_OK if complete else EXIT_PARTIAL
