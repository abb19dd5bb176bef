"""`mucon-sweeps history`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from mucon.errors import EXIT_OK, InputError, Problem, nearest
from sweeps.service.commands.options import add_results


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "history",
        help="print a metric of a trial for every epoch",
        description=(
            "Prints epoch and value of a training metric, one line per epoch, from the trial's journal. Without a "
            "metric: the names of its metrics."
        ),
        epilog="example: mucon-sweeps history 1f0c52d4a9e37b86 loss.total",
    )
    parser.add_argument("trial", metavar="TRIAL", help="identity of a trial, or its directory")
    parser.add_argument("metric", metavar="METRIC", nargs="?", help="name of a metric, such as loss.total")
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON list of [epoch, value]")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the values, or the names of the metrics."""
    from sweeps.service.trials.reading import TrialReading
    from sweeps.service.trials.results_folder import ResultsFolder

    reading = TrialReading(ResultsFolder.at(options.results).find_trial(options.trial))
    names = sorted({name for record in reading.epochs for name in record["metrics"]})
    if options.metric is None:
        print(json.dumps(names) if options.json else "\n".join(names))
        return EXIT_OK
    if options.metric not in names:
        place, message = str(reading.folder.path), f"no metric {options.metric!r}{nearest(options.metric, names)}"
        raise InputError(Problem(rule="unknown", place=place, value=options.metric, message=message))
    values = [(r["step"], r["metrics"][options.metric]) for r in reading.epochs if options.metric in r["metrics"]]
    print(json.dumps(values) if options.json else "\n".join(f"{epoch}\t{value!r}" for epoch, value in values))
    return EXIT_OK
