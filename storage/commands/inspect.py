"""`store inspect STORE`."""

from __future__ import annotations

import argparse
import json
import os
import sys

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.errors import EXIT_OK
from storage.remote.addresses import place

_DESCRIPTION = """\
Shows the videos, actions and splits of a store, what its parts share, the frame accuracy that pooling allows, and
statistics of the features. Warnings of suspicious data stand at the end."""
_EXAMPLE = """\
examples:
  %(prog)s stores/gtea
  %(prog)s stores/gtea --json"""


def add(subparsers: Subparsers) -> None:
    """Adds `inspect`."""
    parser = add_command(subparsers, "inspect", run, "show the contents of a store", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("store", type=place, help="folder or URI of the store")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--features",
        action=argparse.BooleanOptionalAction,
        help="read all features for their statistics (default: in stores of up to 1 GB)",
    )


@reports_problems
def run(args: argparse.Namespace) -> int:
    """Runs `store inspect STORE`."""
    _start_no_blas_threads()
    from storage.inspection.findings import inspect_store
    from storage.reader import open_store

    found = inspect_store(open_store(args.store), features=args.features, progress=show_progress)
    print(json.dumps(found.to_dict(), ensure_ascii=False) if args.json else "\n".join(found.lines()))
    return EXIT_OK


def _start_no_blas_threads() -> None:
    """Prevents numpy from starting OpenBLAS threads, which cost more CPU time than the rest of the command."""
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
