"""`mucon-sweeps report`."""

from __future__ import annotations

import argparse
from typing import Any

from mucon.errors import EXIT_OK
from sweeps.service.commands.options import add_results, new_console


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "report",
        help="rebuild a sweep's tables, figures and page from its trials",
        epilog="example: mucon-sweeps report ablation_masks --results results",
    )
    parser.add_argument("name", help="name of a sweep that has run")
    add_results(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Writes and prints the report of a sweep."""
    from sweeps.service.plan.plan import read_plan
    from sweeps.service.report.report import present, write_report
    from sweeps.service.tables.standing import Standing
    from sweeps.service.trials.results_folder import ResultsFolder

    standing = Standing.of(read_plan(ResultsFolder.at(options.results), options.name))
    write_report(standing)
    present(standing, new_console())
    return EXIT_OK
