"""`store merge STORE... --out NEW`."""

from __future__ import annotations

import argparse

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.errors import EXIT_OK
from storage.remote.addresses import local_place, place

_DESCRIPTION = """\
Writes a new store with the videos of several stores of the same D and dtype. Actions are united by name. A video may be
in several stores if its features are equal and nothing else contradicts. The stores stay as they are; their files of
features get a second name (a hard link) in the new store where the file system allows it, and are copied elsewhere."""
_EXAMPLE = """\
example:
  %(prog)s stores/gtea stores/gtea_more --out stores/gtea_all"""


def add(subparsers: Subparsers) -> None:
    """Adds `merge`."""
    parser = add_command(subparsers, "merge", run, "merge stores into a new one", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("stores", nargs="+", type=place, metavar="STORE", help="folder or URI of a store")
    parser.add_argument("--out", type=local_place, required=True, metavar="NEW", help="folder of the new store")
    parser.add_argument("--replace", action="store_true", help="replace an existing store")
    parser.add_argument("--dry-run", action="store_true", help="check the stores and show what would be written")


@reports_problems
def run(args: argparse.Namespace) -> int:
    """Runs `store merge STORE... --out NEW`."""
    from storage.editing.merging import merge_stores

    lines = merge_stores(args.stores, args.out, replace=args.replace, dry_run=args.dry_run, progress=show_progress)
    for line in lines:
        print(line)
    return EXIT_OK
