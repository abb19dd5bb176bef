"""`mucon-sweeps sync`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError, Problem
from sweeps.service.commands.options import add_tracking_uri, new_console, tracking_uri
from sweeps.service.text import redacted, say

if TYPE_CHECKING:
    from sweeps.service.plan.sweep_folder import Outcome


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "sync",
        help="update a tracking server from a results folder",
        description="Ships what a tracking server lacks of a results folder, or only compares the two.",
        epilog="example: mucon-sweeps sync results --tracking-uri http://127.0.0.1:5000 --check",
    )
    parser.add_argument("results", type=Path, help="results folder")
    add_tracking_uri(parser)
    parser.add_argument(
        "--check", action="store_true", help="compare and write nothing; status 3 and one line per difference"
    )
    parser.add_argument("--json", action="store_true", help="print the comparison of --check as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ships what the server lacks, and prints the number of trials of each sweep and all failures."""
    if options.check:
        return _check(options)
    if options.json:
        raise InputError(Problem(rule="conflict", place="--json", value="--json", expected="--json with --check"))
    from sweeps.service.plan.plan import read_plan
    from sweeps.service.report.report import outcome_with_search
    from sweeps.service.tables.standing import Standing
    from sweeps.service.track.sync import sync
    from sweeps.service.trials.results_folder import ResultsFolder

    def outcome(sweep: str) -> Outcome | None:
        try:
            return outcome_with_search(Standing.of(read_plan(results, sweep)))
        except InputError:  # no plan, as of the trials of no sweep, or a damaged one, which `report` names
            return None

    def digest(sweep: str) -> str:
        try:
            return read_plan(results, sweep).tracked.digest
        except InputError:
            return ""

    results, console = ResultsFolder.at(options.results), new_console()
    uri = tracking_uri(options.tracking_uri, results)
    complete = True
    for name, shipment in sync(results, uri, outcome_of=outcome, digest_of=digest).items():
        say(console, f"{name}: {len(shipment.shipped)} trials")
        for line in shipment.lines(results.path, uri):
            say(console, line)
        complete = complete and shipment.complete
    return EXIT_OK if complete else EXIT_PARTIAL


def _check(options: argparse.Namespace) -> int:
    """Prints the differences between the folder and the server."""
    from sweeps.service.track.compare import compare
    from sweeps.service.trials.results_folder import ResultsFolder

    results, console = ResultsFolder.at(options.results), new_console()
    uri = tracking_uri(options.tracking_uri, results)
    differences = compare(results, uri)
    if options.json:
        every = [asdict(difference) for difference in differences]
        whole = {"format_version": 1, "server": redacted(uri), "equal": not every, "differences": every}
        print(json.dumps(whole, indent=1, ensure_ascii=False))
    else:
        for line in map(str, differences) if differences else [f"{redacted(uri)} shows all of {results.path}"]:
            say(console, line)
    return EXIT_PARTIAL if differences else EXIT_OK
