"""`mucon-sweeps report`."""

from __future__ import annotations

import argparse
from typing import Any

from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import say


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
    """Writes and prints the report of a sweep; the exit status is 3 if a file of it is damaged."""
    from sweeps.service.plan.plan import read_plan
    from sweeps.service.plan.sweep_folder import read_sweep
    from sweeps.service.report.report import present, write_report
    from sweeps.service.tables.standing import Standing
    from sweeps.service.trials.folder import State
    from sweeps.service.trials.results_folder import ResultsFolder

    standing, console = Standing.of(read_plan(ResultsFolder.at(options.results), options.name)), new_console()
    write_report(standing)
    present(standing, console)
    damaged = any(result.state is State.DAMAGED for result in standing.results.values())
    try:
        read_sweep(standing.plan.folder)
    except InputError as error:
        say(console, error.line)
        damaged = True
    return EXIT_PARTIAL if damaged else EXIT_OK
