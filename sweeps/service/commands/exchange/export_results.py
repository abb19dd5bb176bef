"""`mucon-sweeps export-results`."""

from __future__ import annotations

import argparse
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError, Problem
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import megabytes, say

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""
MOST = 20
"""Largest number of lines about what is left out."""
READINGS = 8
"""Trials whose files are in memory at a time."""


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "export-results",
        help="write a sweep with all its numbers as one Parquet file",
        description=(
            "Writes plan, trials, metrics of the epochs, and scores and predictions of the videos of a sweep as one "
            "Parquet file, from which `mucon-sweeps report --from` makes the tables again. Exit status 3 if a damaged "
            "file of the results folder leaves something out."
        ),
        epilog="example: mucon-sweeps export-results ablation_masks --to ablation_masks.parquet",
    )
    parser.add_argument("name", help="name of a sweep that has run")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="the file, NAME.parquet; is replaced")
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Writes the file, and prints what it contains and what is left out."""
    from mucon.commands.outputs import check_file
    from sweeps.service.exchange.writing import shared_plan, write_results
    from sweeps.service.plan.imported import plain_rows, read_rows
    from sweeps.service.plan.plan import read_plan
    from sweeps.service.search.points import FILE as SEARCH_FILE
    from sweeps.service.search.points import read_history
    from sweeps.service.trials.results_folder import ResultsFolder

    target: Path = options.to
    if target.suffix != ".parquet":
        raise InputError(Problem(rule="type", place="--to", value=str(target), expected="a file NAME.parquet"))
    check_file(target, "--to")
    plan = read_plan(ResultsFolder.at(options.results), options.name)
    content: dict[str, Any] = {"plan": shared_plan(plan.to_dict()), "imported": plain_rows(read_rows(plan.folder))}
    if (plan.folder / SEARCH_FILE).exists():
        content["search"] = read_history(plan.folder).to_dict()
    tables = {part.experiment.name: (part.experiment, part.cells) for part in plan.parts}
    reading = lru_cache(maxsize=READINGS)(plan.results.reading)
    results = plan.read_results(reading=reading)
    written = write_results(target, content, plan.name, tables, results, reading, plan.part)
    if options.json:
        facts = {"sweep": plan.name, "file": str(target), "bytes": written.n_bytes, "digest": written.digest}
        more = {"rows": dict(written.rows), "left_out": list(written.left_out)}
        print(json.dumps({"format_version": FORMAT_VERSION, **facts, **more}, indent=1, ensure_ascii=False))
    else:
        console = new_console()
        counts = ", ".join(f"{count} {kind}" for kind, count in written.rows.items())
        say(console, f"exported: {target} ({megabytes(written.n_bytes)}: {counts})")
        for line in written.left_out[:MOST]:
            say(console, f"left out: {line}")
        if len(written.left_out) > MOST:
            say(console, f"left out: {len(written.left_out) - MOST} more, which --json lists")
        say(console, f"tables:   mucon-sweeps report --from {target}")
    return EXIT_PARTIAL if written.left_out else EXIT_OK
