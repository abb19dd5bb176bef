"""`store inspect STORE`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from storage.commands.command import Subparsers, add_command, reports_problems
from storage.errors import EXIT_OK

_EXAMPLE = """\
examples:
  %(prog)s stores/gtea
  %(prog)s stores/gtea --json"""


def add(subparsers: Subparsers) -> None:
    """Adds `inspect`."""
    parser = add_command(
        subparsers,
        "inspect",
        run,
        "show the contents of a store",
        "Shows the videos, actions and splits of a store.",
        _EXAMPLE,
    )
    parser.add_argument("store", type=Path, help="folder of the store")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


@reports_problems
def run(args: argparse.Namespace) -> int:
    """Runs `store inspect STORE`."""
    _start_no_blas_threads()
    from storage.inspection.overview import overview, overview_lines
    from storage.reader import open_store

    view = overview(open_store(args.store))
    if args.json:
        print(json.dumps(view.to_dict(), ensure_ascii=False))
    else:
        print("\n".join(overview_lines(view)))
    return EXIT_OK


def _start_no_blas_threads() -> None:
    """Prevents numpy from starting OpenBLAS threads, which cost more CPU time than the rest of the command."""
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
