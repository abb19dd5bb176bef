"""`mucon-sweeps rm`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError, Problem
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import megabytes, say

if TYPE_CHECKING:
    from sweeps.service.upkeep.removal import Removal

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""
MOST = 20
"""Largest number of trials that are listed."""


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "rm",
        help="remove a sweep and the trials that nobody else needs",
        description=(
            "Removes the directory of a sweep and those of its trials that no other sweep contains, from which no "
            "other trial or sweep starts, and of which no model is registered. Runs on the tracking server stay. A "
            "running sweep is refused. Exit status 3 if a trial was in use and stays."
        ),
        epilog="example: mucon-sweeps rm smoothing --dry-run",
    )
    parser.add_argument("name", help="name of a sweep that has run")
    add_results(parser)
    parser.add_argument(
        "--tracking-uri", metavar="URI", help="MLflow server with registered models (default: those of the sweeps)"
    )
    parser.add_argument("--dry-run", action="store_true", help="list what would be removed; remove nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Says what is removed, asks, and removes it."""
    from sweeps.service.track.compare import registered_trials
    from sweeps.service.trials.results_folder import ResultsFolder
    from sweeps.service.upkeep.removal import plan_removal, remove
    from sweeps.service.upkeep.trash import disk_errors

    results = ResultsFolder.at(options.results)
    registered = registered_trials(results, options.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI"))
    removal = plan_removal(results, options.name, registered)
    console = new_console()
    if not options.json:
        for line in _lines(removal):
            say(console, line)
    if options.dry_run:
        removed, taken = False, {}
    else:
        if not options.yes and not _agreed(options.name, options.json):
            say(console, "nothing is removed")
            return EXIT_OK
        with disk_errors(results):
            removed, taken = True, remove(results, plan_removal(results, options.name, registered))
    if options.json:
        trials = [identity for identity in removal.trials if identity not in taken]
        kept = {**removal.kept, **taken}
        whole = {"format_version": FORMAT_VERSION, "sweep": options.name, "removed": removed}
        size = removal.n_bytes + sum(removal.trials[identity] for identity in trials)
        print(json.dumps({**whole, "trials": trials, "kept": kept, "bytes": size}, indent=1))
    elif removed:
        for identity, holder in taken.items():
            say(console, f"  stays: {identity}, {holder}")
        say(console, f"removed; its runs stay in MLflow{'; give the command again later' if taken else ''}")
    return EXIT_PARTIAL if taken else EXIT_OK


def _lines(removal: Removal) -> Iterator[str]:
    size = megabytes(removal.n_bytes + sum(removal.trials.values()))
    yield f"{removal.name}: removes its tables and pages, and {len(removal.trials)} trials; {size}"
    yield from (f"  {identity}  {megabytes(n_bytes)}" for identity, n_bytes in islice(removal.trials.items(), MOST))
    if len(removal.trials) > MOST:
        yield f"  ... and {len(removal.trials) - MOST} more"
    for reason, count in Counter(removal.kept.values()).items():
        identities = [identity for identity, users in removal.kept.items() if users == reason]
        yield f"  {count} stay{'s' * (count == 1)}, needed by {reason}: {', '.join(identities)}"


def _agreed(name: str, in_json: bool) -> bool:
    if in_json or not sys.stdin.isatty():
        message, hint = "this removal must be confirmed", "pass --yes, or --dry-run to look"
        raise InputError(Problem(rule="missing", place="--yes", value=name, message=message, hint=hint))
    return input(f"remove {name}? [y/N] ").strip().lower() in ("y", "yes")
