"""`mucon-sweeps list`."""

from __future__ import annotations

import argparse
from typing import Any

from mucon.errors import EXIT_OK
from sweeps.service.commands.options import experiments, new_console
from sweeps.service.text import say


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "list",
        help="list the experiments and what they vary",
        description="Lists the experiments of the package with their rows or tables.",
        epilog="example: mucon-sweeps list",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Lists the experiments of the package."""
    from sweeps.service.spec.search import Search  # imports numpy

    console = new_console()
    for name, experiment in experiments().items():
        if isinstance(experiment, Search):
            rows = list(experiment.space)
        elif len(tables := experiment.experiments) == 1:
            rows = [row.name for row in tables[0].variants]
        else:
            rows = [table.name for table in tables]
        say(console, f"{name}: {experiment.title} ({'; '.join(rows)})")
    return EXIT_OK
