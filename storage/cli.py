"""The store commands, for `python -m storage` and `mucon store`.

Each parser sets the default `run`, a function that takes the parsed arguments and returns the exit status: 0, or 2
after one line per problem on standard error.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from storage.commands import append, cache, export, fetch, import_, inspect, merge, remove, rename_actions, verify
from storage.commands.command import Subparsers
from storage.commands.stdout import with_lasting_output
from storage.errors import EXIT_INTERRUPTED

COMMANDS = (fetch, import_, inspect, verify, append, remove, rename_actions, merge, export, cache)
"""In the order of the help."""


def add_store_commands(subparsers: Subparsers) -> None:
    """Adds all commands.

    Args:
        subparsers: result of `ArgumentParser.add_subparsers`.
    """
    for command in COMMANDS:
        command.add(subparsers)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `python -m storage`, the store commands without the rest of mucon."""
    return with_lasting_output(lambda: _status(argv))


def _status(argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="python -m storage", description="Creates and checks feature stores.")
    add_store_commands(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))
    args = parser.parse_args(argv)
    try:
        status: int = args.run(args)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return status
