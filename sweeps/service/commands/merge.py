"""`mucon-sweeps merge`."""

from __future__ import annotations

import argparse
import json
import shlex
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK, EXIT_PARTIAL
from sweeps.service.commands.options import new_console
from sweeps.service.text import say

if TYPE_CHECKING:
    from sweeps.service.upkeep.merging import Step

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "merge",
        help="take the trials and sweeps of other results folders into one",
        description=(
            "Copies the trials and sweeps of other results folders, which do not change. Trials with the same bits are "
            "skipped, unfinished ones give way to finished ones, and further evaluations are added. A trial with other "
            "bits under the same identity is kept beside the one here, in RESULTS/conflicts, and named. After a kill "
            "the same command completes the merge. Exit status 3 if something is in conflict, in use or refused."
        ),
        epilog="example: mucon-sweeps merge /mnt/other/results --into results",
    )
    parser.add_argument("sources", type=Path, nargs="+", metavar="RESULTS", help="results folders to copy from")
    parser.add_argument(
        "--into", type=Path, default=Path("results"), metavar="DIR", help="results folder (default: results)"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would happen; copy nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Merges, and prints what happened to the trials and sweeps of each folder."""
    from sweeps.service.trials.results_folder import ResultsFolder
    from sweeps.service.upkeep.merging import INCOMPLETE, merge_trials, sources_of, workspace
    from sweeps.service.upkeep.merging_sweeps import merge_sweeps
    from sweeps.service.upkeep.trash import disk_errors

    results = ResultsFolder.at(options.into)
    sources = sources_of(options.sources, results)
    found: dict[str, list[Step]] = {"trials": [], "sweeps": []}
    with disk_errors(results), workspace(results, dry_run=options.dry_run) as incoming:
        for source in sources:
            found["trials"] += merge_trials(source, results, incoming, dry_run=options.dry_run)
            found["sweeps"] += merge_sweeps(source, results, incoming, dry_run=options.dry_run)
    steps = [step for kind in found.values() for step in kind]
    if options.json:
        plain = {kind: [asdict(step) for step in ones] for kind, ones in found.items()}
        print(json.dumps({"format_version": FORMAT_VERSION, "dry_run": options.dry_run, **plain}, indent=1))
    else:
        console = new_console()
        for source in sources:
            for kind, ones in found.items():
                counts = Counter(step.verdict for step in ones if step.source == str(source.path))
                shown = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
                say(console, f"{source.path}: {kind}: {shown or 'none'}")
        for step in steps:
            if step.detail:
                say(console, f"  {step.name}: {step.verdict}: {step.detail}")
        if not options.dry_run:
            say(console, f"to update MLflow: {shlex.join(['mucon-sweeps', 'sync', str(results.path)])}")
    return EXIT_PARTIAL if any(step.verdict in INCOMPLETE for step in steps) else EXIT_OK
