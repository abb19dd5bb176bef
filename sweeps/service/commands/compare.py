"""`mucon-sweeps compare`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from mucon.commands.outputs import check_file, check_suffix
from mucon.errors import EXIT_OK, InputError, Problem
from storage.fencing import ALONE
from storage.remote.addresses import place
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import say


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "compare",
        help="compare trained models: what differs, how much, and where",
        description=(
            "Compares trained models with the first one: the recorded facts in which they differ, the metrics with "
            "Wilcoxon's signed-rank test over subjects, or over videos if the store has no subjects, the spread over "
            "the seeds of their rows, the videos and the actions that differ most. A model is a trial, a run of `mucon "
            "train`, an exported folder, models:/NAME@ALIAS, or SWEEP:ROW, all seeds of a row on a split. A trial has "
            "the scores of its first evaluation; runs, exported folders and registered models are scored now."
        ),
        epilog="example: mucon-sweeps compare 1f0c52d4a9e37b86 58591acea081f2d3 --html why.html",
    )
    parser.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help="identity of a trial, a folder, models:/NAME@ALIAS, or SWEEP:ROW; at least 2",
    )
    parser.add_argument(
        "--prediction",
        metavar="NAME",
        help="frames, segments or full (default: that of the row, else full, or the only one of a method)",
    )
    parser.add_argument("--metric", default="mof", metavar="NAME", help="metric that orders videos (default: mof)")
    parser.add_argument("--split", default="1", metavar="NAME", help="split of SWEEP:ROW (default: 1)")
    parser.add_argument("--store", type=place, help="where runs are scored (default: where they trained)")
    parser.add_argument(
        "--part",
        choices=("test", "validation"),
        help="part on which runs are scored (default: validation for a run that leaves it out of its training)",
    )
    parser.add_argument("--details", action="store_true", help="print whole lists")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with colour bars and matrices")
    parser.add_argument("--json", action="store_true", help="print one object instead of lines")
    add_results(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compares the models and prints what differs."""
    from sweeps.service.compare.comparison import compare
    from sweeps.service.compare.entrants import entrant
    from sweeps.service.compare.terminal import lines
    from sweeps.service.trials.results_folder import ResultsFolder

    if len(options.models) < 2:
        raise InputError(Problem(rule="missing", place="MODEL", value=1, message="a comparison needs two models"))
    if options.html is not None:
        check_suffix(options.html, "--html", ["html"])
        check_file(options.html, "--html")
    results = ResultsFolder.at(options.results)
    entrants = [
        entrant(results, text, options.prediction, split=options.split, store=options.store, part=options.part)
        for text in options.models
    ]
    comparison = compare(entrants, options.metric)
    if options.html is not None:
        from sweeps.service.compare.page import make_page

        ALONE.write(options.html, make_page(comparison).encode())
    if options.json:
        print(json.dumps(comparison.to_dict()))
        return EXIT_OK
    console = new_console()
    for line in lines(comparison, details=options.details):
        say(console, line)
    if options.html is not None:
        say(console, f"page: {options.html}")
    return EXIT_OK
