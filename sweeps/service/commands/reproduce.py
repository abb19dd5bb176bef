"""`mucon-sweeps reproduce`."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from mucon.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PARTIAL
from storage.remote.addresses import place
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import say


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "reproduce",
        help="train a finished trial again and compare the bits",
        description=(
            "Trains one finished trial again in a temporary directory and compares the sha256 of its weights and its "
            "scores. Exit status 0: the same bits; 3: something differs, and the other differences are printed."
        ),
        epilog="example: mucon-sweeps reproduce 1f0c52d4a9e37b86",
    )
    parser.add_argument("trial", metavar="TRIAL", help="identity of a trial, or its directory")
    add_results(parser)
    parser.add_argument(
        "--store", type=place, help="current place of the recordings (default: as recorded in the trial)"
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: as the trial was trained"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Trains the trial again and prints the comparison."""
    from sweeps.service.run.reproduction import reproduce
    from sweeps.service.trials.results_folder import ResultsFolder

    line = partial(say, new_console())
    try:
        reproduction = reproduce(
            options.trial, ResultsFolder.at(options.results), store=options.store, device=options.device, say=line
        )
    except KeyboardInterrupt:
        line("interrupted; nothing is kept")
        return EXIT_INTERRUPTED
    for text in reproduction.lines():
        line(text)
    return EXIT_OK if reproduction.is_same else EXIT_PARTIAL
