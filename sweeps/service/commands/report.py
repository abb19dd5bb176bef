"""`mucon-sweeps report`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError, Problem
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import say


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "report",
        help="rebuild a sweep's tables, figures and page from its trials, or tables and figures from one file",
        description=(
            "Makes the report of a sweep again: tables, figures and page from its trials; or, with --from, tables and "
            "figures from a file of `mucon-sweeps export-results` alone."
        ),
        epilog=(
            "example: mucon-sweeps report ablation_masks --results results\n"
            "example: mucon-sweeps report --from ablation_masks.parquet --out tables"
        ),
    )
    parser.add_argument("name", nargs="?", help="name of a sweep that has run")
    parser.add_argument("--from", type=Path, dest="file", metavar="FILE", help="a file of export-results")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="with --from: where to write (default: print the tables only)"
    )
    add_results(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Writes and prints the report of a sweep; the exit status is 3 if a file of it is damaged."""
    if (options.name is None) == (options.file is None):
        message = "expected the name of a sweep, or a file with --from"
        raise InputError(Problem(rule="conflict", place="--from", value=options.name, message=message))
    if options.file is not None:
        return _from_file(options)
    if options.out is not None:
        message = "the report of a sweep is in its results folder; --out needs --from"
        raise InputError(Problem(rule="conflict", place="--out", value=str(options.out), message=message))
    from sweeps.service.plan.sweep_folder import read_sweep
    from sweeps.service.report.report import present, report_again
    from sweeps.service.report.search.gathering import findings_of, is_search
    from sweeps.service.trials.folder import State
    from sweeps.service.trials.results_folder import ResultsFolder
    from sweeps.service.upkeep.trash import disk_errors

    results, console = ResultsFolder.at(options.results), new_console()
    with disk_errors(results):
        standing = report_again(results, options.name)
    findings = findings_of(standing.plan) if is_search(standing.plan) else None
    present(standing, console, findings=findings)
    damaged = bool(standing.imported.damage or (findings and findings.damage)) or any(
        result.state is State.DAMAGED for result in standing.results.values()
    )
    try:
        read_sweep(standing.plan.folder)
    except InputError as error:
        say(console, error.line)
        damaged = True
    return EXIT_PARTIAL if damaged else EXIT_OK


def _from_file(options: argparse.Namespace) -> int:
    """Prints the tables of a results file and, with `--out`, writes them and the figures."""
    from mucon.commands.outputs import check_folder
    from sweeps.service.exchange.rebuilt import NOT_REBUILT, rebuild
    from sweeps.service.report.report import present
    from sweeps.service.report.search.findings import Findings
    from sweeps.service.trials.results_folder import ResultsFolder
    from sweeps.service.upkeep.trash import disk_errors

    if options.out is not None:
        check_folder(options.out, "--out")
    rebuilt = rebuild(options.file, with_figures=options.out is not None)
    written: list[Path] = []
    if options.out is not None:
        with disk_errors(ResultsFolder.at(options.out)):
            written += rebuilt.write(options.out)
    places = [f"written:    {path}" for path in written if path.suffix != ".svg"]
    search = rebuilt.file.search
    findings = None if search is None else Findings(history=search)
    present(rebuilt.standing, new_console(), [*places, f"not in {options.file}: {NOT_REBUILT}"], findings)
    return EXIT_OK
