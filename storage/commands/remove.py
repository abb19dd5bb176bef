"""`store remove STORE ID...`."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.errors import EXIT_OK
from storage.remote.addresses import local_place

_DESCRIPTION = """\
Removes videos from a store. Its actions and their ids stay. The store is changed atomically: readers that have it open
keep the old one. Only files of features that contain a removed video are rewritten."""
_EXAMPLE = """\
examples:
  %(prog)s stores/gtea S1_Cheese_C1 S1_Pealate_C1
  %(prog)s stores/gtea --from broken.txt --dry-run"""


def add(subparsers: Subparsers) -> None:
    """Adds `remove`."""
    parser = add_command(subparsers, "remove", run, "remove videos from a store", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("store", type=local_place, metavar="STORE", help="folder of the store")
    parser.add_argument("ids", nargs="*", metavar="ID", help="name of a video")
    parser.add_argument("--from", dest="file", type=Path, metavar="FILE", help="file with the name of a video per line")
    parser.add_argument("--dry-run", action="store_true", help="show what would change")


@reports_problems
def run(args: argparse.Namespace) -> int:
    """Runs `store remove STORE ID...`."""
    from storage.editing.edit import edit_in_place
    from storage.editing.removal import without
    from storage.layouts.text import read_lines

    ids = [*args.ids, *(line for line in (read_lines(args.file) if args.file else ()) if line)]
    for line in edit_in_place(args.store, partial(without, ids=ids), dry_run=args.dry_run, progress=show_progress):
        print(line)
    return EXIT_OK
