"""`mucon-sweeps gc`."""

from __future__ import annotations

import argparse
import json
import os
from functools import cache, partial
from typing import Any

from mucon.errors import EXIT_OK
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import megabytes, say

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "gc",
        help="remove what nobody needs from a results folder",
        description=(
            "Removes leftovers of dead processes, and the states of optimisers in finished trials that no sweep keeps "
            "(`--keep` of a sweep). Nothing that a process holds is touched, and no result, prediction, journal or "
            "weight is removed without --orphans."
        ),
        epilog="example: mucon-sweeps gc --results results --dry-run",
    )
    add_results(parser)
    parser.add_argument(
        "--tracking-uri", metavar="URI", help="MLflow server with registered models (default: those of the sweeps)"
    )
    parser.add_argument(
        "--orphans",
        action="store_true",
        help="also trials that no sweep contains, from which none starts, and of which no model is registered",
    )
    parser.add_argument(
        "--damaged",
        type=_days,
        metavar="DAYS",
        help="also damaged files that a run has set aside at least so many days ago",
    )
    parser.add_argument("--dry-run", action="store_true", help="list what would be removed; remove nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Removes what nobody needs, and prints the number of files and bytes of each kind."""
    from sweeps.service.track.compare import registered_trials
    from sweeps.service.trials.results_folder import ResultsFolder
    from sweeps.service.upkeep.rubbish import KINDS, find, remove
    from sweeps.service.upkeep.trash import disk_errors

    results = ResultsFolder.at(options.results)
    uri = options.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    registered = cache(partial(registered_trials, results, uri))
    found = find(results, orphans=options.orphans, damaged_days=options.damaged, registered=registered)
    if not options.dry_run:
        with disk_errors(results):
            found = remove(results, found, options.damaged)
    kinds = {kind: [item for item in found if item.kind == kind] for kind in KINDS}
    sizes = {kind: sum(item.n_bytes for item in items) for kind, items in kinds.items()}
    if options.json:
        counted = {
            kind: {"bytes": sizes[kind], "paths": [str(item.path.relative_to(results.path)) for item in items]}
            for kind, items in kinds.items()
        }
        whole = {"format_version": FORMAT_VERSION, "removed": not options.dry_run, "bytes": sum(sizes.values())}
        print(json.dumps({**whole, "kinds": counted}, indent=1))
        return EXIT_OK
    console = new_console()
    for kind, items in kinds.items():
        if items:
            say(console, f"{kind:<12} {len(items):>6}  {megabytes(sizes[kind]):>10}  {KINDS[kind]}")
    verb = "would remove" if options.dry_run else "removed"
    say(console, f"{verb} {megabytes(sum(sizes.values()))}" if found else f"nothing to remove in {results.path}")
    return EXIT_OK


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of days, at least 0, got {text!r}")
    return days
