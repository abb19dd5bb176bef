"""`store append STORE SRC`."""

from __future__ import annotations

import argparse
import os
from functools import partial

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.commands.import_ import add_options, dataset_of, times_of
from storage.errors import EXIT_OK, Problem, StoreError
from storage.remote.addresses import local_place, place

_DESCRIPTION = """\
Appends the videos of a dataset or of another store to a store. They have new names, and the same D, dtype and actions.
The store is changed atomically: readers that have it open keep the old one. Its files of features are not rewritten."""
_ITSELF = "is the store that would be appended to"
_EXAMPLE = """\
examples:
  %(prog)s stores/gtea data/gtea_more
  %(prog)s stores/gtea stores/gtea_more --new-actions --dry-run"""


def add(subparsers: Subparsers) -> None:
    """Adds `append`."""
    parser = add_command(subparsers, "append", run, "append videos to a store", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("store", type=local_place, metavar="STORE", help="folder of the store")
    parser.add_argument(
        "source",
        type=place,
        metavar="SRC",
        help="folder of a dataset (see `store import`), or folder or URI of a store",
    )
    parser.add_argument("--new-actions", action="store_true", help="add actions that the store does not have")
    parser.add_argument("--dry-run", action="store_true", help="check the data and show what would change")
    add_options(parser)


@reports_problems
def run(args: argparse.Namespace) -> int:
    """Runs `store append STORE SRC`."""
    from storage.editing.appending import with_dataset, with_store
    from storage.editing.edit import edit_in_place, source_store

    if os.path.realpath(args.store) == os.path.realpath(args.source):
        raise StoreError(Problem(rule="conflict", place=str(args.source), value=str(args.source), message=_ITSELF))
    with source_store(args.source) as source:
        if source is not None:
            change = partial(with_store, source=source, new_actions=args.new_actions)
        else:
            dataset, note = dataset_of(args)
            print(f"note: {note}")
            change = partial(
                with_dataset,
                layout=dataset,
                times=times_of(args),
                new_actions=args.new_actions,
                progress=show_progress,
            )
        for line in edit_in_place(args.store, change, dry_run=args.dry_run, progress=show_progress):
            print(line)
    return EXIT_OK
