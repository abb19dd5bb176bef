"""`store verify STORE`."""

from __future__ import annotations

import argparse

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.errors import EXIT_OK, Problem, StoreError, counted
from storage.remote.addresses import is_uri, place

_DESCRIPTION = """\
Reads a whole store, compares it with its checksums and records, and reports damaged files and videos. Of a store at a
URI, the copy on this machine is read."""
_EXAMPLE = """\
example:
  %(prog)s stores/gtea"""


def add(subparsers: Subparsers) -> None:
    """Adds `verify`."""
    parser = add_command(subparsers, "verify", run, "compare a store with its checksums", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("store", type=place, help="folder or URI of the store")


@reports_problems
def run(args: argparse.Namespace) -> int:
    """Runs `store verify STORE`."""
    from storage.inspection.overview import size_text
    from storage.remote.opening import local_copy
    from storage.verify import verify_store

    with local_copy(args.store) as folder:
        result = verify_store(folder, show_progress)
    is_copy = is_uri(args.store)
    if result.problems:
        hint = "`mucon store cache verify` removes damaged files, which are then fetched again"
        copy = Problem(rule="state", place=str(args.store), message="its copy in the cache is damaged", hint=hint)
        raise StoreError([*result.problems, copy] if is_copy else result.problems)
    where = " in the copy on this machine" if is_copy else ""
    size = size_text(result.n_bytes)
    print(f"{args.store}: {counted(result.n_videos, 'video')}, {size} of features, nothing damaged{where}")
    return EXIT_OK
