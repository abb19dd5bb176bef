"""`store rename-actions STORE OLD=NEW...`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.errors import EXIT_OK
from storage.remote.addresses import local_place

if TYPE_CHECKING:
    from storage.editing.edit import Edit
    from storage.reader import Store

_DESCRIPTION = """\
Renames actions of a store, all at once, so that two names can be exchanged. With --merge, several actions become one;
segments that then have the same action as the one before stay apart. The store is changed atomically: readers that have
it open keep the old one. Features are neither read nor written."""
_EXAMPLE = """\
examples:
  %(prog)s stores/gtea background=SIL
  %(prog)s stores/gtea take_cup=take take_bowl=take --merge"""


def add(subparsers: Subparsers) -> None:
    """Adds `rename-actions`."""
    parser = add_command(subparsers, "rename-actions", run, "rename or merge actions", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("store", type=local_place, metavar="STORE", help="folder of the store")
    parser.add_argument("renames", nargs="+", metavar="OLD=NEW", help="old and new name of an action")
    parser.add_argument("--merge", action="store_true", help="allow several actions to get the same name")
    parser.add_argument("--dry-run", action="store_true", help="show what would change")


@reports_problems
def run(args: argparse.Namespace) -> int:
    """Runs `store rename-actions STORE OLD=NEW...`."""
    from storage.editing.edit import edit_in_place
    from storage.editing.renaming import parse_renames, renamed

    def change(store: Store) -> Edit:
        return renamed(store, parse_renames(args.renames, store.manifest.vocabulary), merge=args.merge)

    for line in edit_in_place(args.store, change, dry_run=args.dry_run, progress=show_progress):
        print(line)
    return EXIT_OK
