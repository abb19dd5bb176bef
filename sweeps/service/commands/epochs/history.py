"""`mucon-sweeps history`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from mucon.errors import EXIT_OK, InputError, Problem, nearest
from sweeps.service.commands.options import add_results
from sweeps.service.text import printable

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""


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
    parser.add_argument("trial", metavar="TRIAL", help="identity, its first characters, directory, or ROW/SPLIT/SEED")
    parser.add_argument("metric", metavar="METRIC", nargs="?", help="name of a metric, such as loss.total")
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the values, or the names of the metrics."""
    from sweeps.service.triage.naming import find
    from sweeps.service.trials.results_folder import ResultsFolder

    reading, metric = find(ResultsFolder.at(options.results), options.trial).reading, options.metric
    names = sorted({name for record in reading.epochs for name in record["metrics"]})
    if metric is not None and metric not in names:
        if not names:
            message = "no epoch is recorded yet"
            raise InputError(Problem(rule="missing", place=str(reading.folder.path), value=metric, message=message))
        place, message = str(reading.folder.path), f"no metric {metric!r}{nearest(metric, names)}"
        raise InputError(Problem(rule="unknown", place=place, value=metric, message=message))
    values = [(r["step"], r["metrics"][metric]) for r in reading.epochs if metric in r["metrics"]]
    if options.json:
        shown = {"metrics": names} if metric is None else {"metric": metric, "values": values}
        print(json.dumps({"format_version": FORMAT_VERSION, "identity": reading.folder.identity, **shown}))
    else:
        for line in names if metric is None else (f"{epoch}\t{value!r}" for epoch, value in values):
            print(printable(line))
    return EXIT_OK
