"""`mucon-sweeps import-results`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK, InputError, Problem, nearest
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import say

if TYPE_CHECKING:
    from sweeps.service.exchange.outside import Record
    from sweeps.service.plan.imported import Source
    from sweeps.service.spec.experiment import Experiment

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""
SCALES = ("percent", "fraction")
CSV_HELP = """\
A line of the file has the labels of a row, the split, the seed and a column per metric, such as `mof` or `frames.mof`.
Lines without seed are values that a source quotes; without split they are means over all splits."""


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "import-results",
        help="take results from elsewhere as rows of a table",
        description=(
            "Takes results from elsewhere as rows of a table, in another style and with a note of their source. They "
            "are neither tested nor bold, and change no test of the sweep's own rows."
        ),
        epilog="example: mucon-sweeps import-results csv paper.csv --sweep ablation_masks --scale percent",
    )
    kinds = parser.add_subparsers(dest="source_kind", required=True, metavar="csv|mlflow|remove")
    example = "example: mucon-sweeps import-results"
    of_csv = kinds.add_parser(
        "csv",
        help="from a CSV file",
        description=CSV_HELP,
        epilog=f"{example} csv paper.csv --sweep ablation_masks --scale percent",
    )
    of_csv.add_argument("source", type=Path, metavar="FILE", help="CSV in UTF-8 with a head")
    of_csv.add_argument(
        "--scale", choices=SCALES, help="how the file states shares (default: its column `scale` says so)"
    )
    of_mlflow = kinds.add_parser(
        "mlflow",
        help="from the runs of an experiment on a tracking server",
        description="Every finished run that has a row becomes a seed of that row, with the last value of its metrics.",
        epilog=f"{example} mlflow http://127.0.0.1:5000 --experiment lab --row model --metric mof=test_acc "
        "--scale percent --sweep ablation_masks",
    )
    of_mlflow.add_argument("source", metavar="URI", help="address of the server")
    of_mlflow.add_argument("--experiment", required=True, metavar="NAME", help="name of the experiment")
    of_mlflow.add_argument("--row", required=True, metavar="NAME", help="parameter or tag with the label of the row")
    of_mlflow.add_argument(
        "--seed", default="seed", metavar="NAME", help="parameter or tag with the seed (default: seed)"
    )
    of_mlflow.add_argument(
        "--split", metavar="NAME", help="parameter or tag with the split (default: means over all splits)"
    )
    of_mlflow.add_argument(
        "--metric",
        required=True,
        action="append",
        metavar="METRIC=NAME",
        help="metric of the table, and its name on the server; may be repeated",
    )
    of_mlflow.add_argument("--scale", required=True, choices=SCALES, help="how the runs state shares")
    of_removal = kinds.add_parser(
        "remove", help="remove an imported row", epilog=f"{example} remove 'their model' --sweep ablation_masks"
    )
    of_removal.add_argument("source", metavar="ROW", help="name of the row")
    for kind in (of_csv, of_mlflow, of_removal):
        kind.add_argument("--sweep", required=True, metavar="NAME", help="name of a sweep that has run")
        kind.add_argument("--table", metavar="NAME", help="its table, if it has several")
        add_results(kind)
        kind.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Adds or removes rows, writes the report again, and prints the table."""
    from sweeps.service.exchange.importing import add_rows, remove_row
    from sweeps.service.exchange.outside import rows_of
    from sweeps.service.plan.plan import read_plan
    from sweeps.service.report.report import present, report_again
    from sweeps.service.trials.results_folder import ResultsFolder

    results = ResultsFolder.at(options.results)
    plan = read_plan(results, options.sweep)
    experiment = _table([part.experiment for part in plan.parts], options.table)
    left_out: list[str] = []
    if options.source_kind == "remove":
        remove_row(results, plan.name, options.source, experiment.name)
        names = [options.source]
    else:
        records, source, left_out = _read(options, experiment)
        rows = rows_of(records, experiment, plan.splits, source)
        add_rows(results, plan.name, rows)
        names = [row.name for row in rows]
    standing = report_again(results, plan.name)
    done = "removed" if options.source_kind == "remove" else "imported"
    if options.json:
        facts = {"sweep": plan.name, "table": experiment.name, done: names, "left_out": left_out}
        print(json.dumps({"format_version": FORMAT_VERSION, **facts}, indent=1, ensure_ascii=False))
    else:
        console = new_console()
        present(standing, console)
        for line in left_out:
            say(console, f"left out: {line}")
        say(console, f"{done}: {', '.join(map(repr, names))}")
    return EXIT_OK


def _read(options: argparse.Namespace, experiment: Experiment) -> tuple[list[Record], Source, list[str]]:
    """The records of the file or the server, their source, and what was left out."""
    if options.source_kind == "csv":
        from sweeps.service.exchange.csv_records import read_csv

        return *read_csv(options.source, experiment.label_titles, options.scale), []
    from sweeps.service.exchange.mlflow_records import Names, read_runs
    from sweeps.service.exchange.outside import score_named

    metrics = {}
    for text in options.metric:
        metric, equals, name = text.partition("=")
        if not equals or not name:
            raise InputError(Problem(rule="type", place="--metric", value=text, expected="METRIC=NAME"))
        metrics[name] = score_named(metric, "--metric")
    names = Names(row=options.row, seed=options.seed, split=options.split, metrics=metrics, scale=options.scale)
    return read_runs(options.source, options.experiment, experiment.label_titles, names)


def _table(experiments: list[Experiment], name: str | None) -> Experiment:
    """The table of a name, or the only one.

    Raises:
        InputError: no such table, or several without a name.
    """
    names = [experiment.name for experiment in experiments]
    if name is None and len(names) == 1:
        return experiments[0]
    if name not in names:
        message = f"unknown table {name!r}{nearest(name, names)}" if name else "the sweep has several tables"
        hint = f"expected one of {', '.join(names)}"
        raise InputError(Problem(rule="unknown", place="--table", value=name, message=message, hint=hint))
    return experiments[names.index(name)]
