"""What all store commands share: their parsers, their problems and their progress.

Commands import the modules that need numpy or pyarrow when they run, so that the parser starts without them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from storage.commands.progress import ProgressBar
from storage.errors import EXIT_INPUT, Problem, StoreError

Run = Callable[[argparse.Namespace], int]
# `argparse` has no public name for this class.
Subparsers = Any


def reports_problems(command: Run) -> Run:
    """Decorates a command: a `StoreError` is printed, one line per problem, and gives exit status 2.

    So does an error of the disk with a path, such as a folder of another user.
    """

    @wraps(command)
    def run(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except StoreError as error:
            for problem in error.problems:
                print(f"error: {problem}", file=sys.stderr)
        except OSError as error:
            if error.filename is None:
                raise
            place = os.fspath(error.filename)
            problem = Problem(
                rule="unreadable", place=place, value=error.strerror, message=f"cannot open ({error.strerror})"
            )
            print(f"error: {problem}", file=sys.stderr)
        return EXIT_INPUT

    return run


def add_command(
    subparsers: Subparsers, name: str, run: Run, summary: str, description: str, example: str
) -> argparse.ArgumentParser:
    """Adds a command whose parsed arguments are given to `run`.

    Args:
        subparsers: result of `ArgumentParser.add_subparsers`.
        name: name of the command.
        run: function that runs it and returns the exit status.
        summary: its line in the list of commands.
        description: what it does.
        example: examples below its options.
    """
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=description,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


show_progress = ProgressBar()
"""Shows the progress of the activity of a command, see `ProgressBar`."""
