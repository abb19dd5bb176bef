"""`mucon store`: the store's own commands, and `synthesize`, which makes a store of made-up recordings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mucon.errors import EXIT_OK
from storage.cli import add_store_commands as add_commands_of_storage


def add_store_commands(commands: Any) -> None:
    """Adds `store` with all its commands to the subparsers of `mucon`."""
    store = commands.add_parser("store", help="make and look at feature stores", description="Feature stores.")
    subparsers = store.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_commands_of_storage(subparsers)
    synthesize = subparsers.add_parser(
        "synthesize", help="make a store of made-up recordings", description=_synthesize.__doc__
    )
    synthesize.add_argument("store", type=Path, metavar="STORE", help="folder that appears")
    synthesize.add_argument("--seed", type=int, default=1, help="of the recordings (default 1)")
    synthesize.set_defaults(run=_synthesize)


def _synthesize(args: argparse.Namespace) -> int:
    """Makes the demo data: made-up recordings with known answers, the same for the same seed."""
    from mucon.synthetic import demo_store

    demo_store(args.store, seed=args.seed)
    print(f"made {args.store}; see `mucon store inspect {args.store}`")
    return EXIT_OK
