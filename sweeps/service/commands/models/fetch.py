"""`mucon-sweeps fetch`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mucon.commands.outputs import check_folder
from mucon.errors import EXIT_OK
from sweeps.service.commands.options import add_results, add_tracking_uri, new_console, tracking_uri
from sweeps.service.text import say


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "fetch",
        help="copy a registered model from the tracking server into a folder",
        description=(
            "Copies a model that `promote` has registered into a folder that `mucon predict`, `mucon evaluate` and "
            "mucon.load take, and compares every file with its checksum."
        ),
        epilog="example: mucon-sweeps fetch models:/mucon@champion models/champion",
    )
    parser.add_argument("reference", metavar="MODEL", help="models:/NAME@ALIAS or models:/NAME/VERSION")
    parser.add_argument("out", type=Path, metavar="DIR", help="the folder, new")
    parser.add_argument("--replace", action="store_true", help="replace an exported folder at DIR")
    add_results(parser)
    add_tracking_uri(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Fetches the model."""
    from sweeps.service.track.registry import fetch
    from sweeps.service.trials.results_folder import ResultsFolder

    check_folder(options.out, "DIR")
    results, console = ResultsFolder.at(options.results), new_console()
    uri = tracking_uri(options.tracking_uri, results)
    version = fetch(options.reference, options.out, uri, results, replace_old=options.replace)
    say(console, f"fetched: {version} in {options.out}")
    say(console, f"next:    mucon predict {options.out} FEATURES.npy")
    return EXIT_OK
