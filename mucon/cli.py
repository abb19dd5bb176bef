"""The command line `mucon`: parses, calls a command, and maps errors to exit statuses."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TextIO

from mucon.commands import baselines, evaluate, export, predict, recipes, store, train, weights
from mucon.commands.parser import Command, Parser, add_version
from mucon.errors import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_PARTIAL, DataWarning, Diverged, InputError, Interrupted
from storage.commands.stdout import with_lasting_output

DESCRIPTION = "Weakly supervised action segmentation from transcripts (MuCon)."
EXAMPLE = """\
examples:
  mucon store synthesize stores/demo
  mucon train demo --store stores/demo --out runs/demo
  mucon evaluate runs/demo --store stores/demo

exit status: 0 success, 1 internal error, 2 invalid input, 3 partial failure, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        arguments: default: those of the process.

    Returns:
        Exit status: 0, 2 (invalid input), 3 (partial failure) or 130 (interrupted). Internal errors are raised and
        give status 1.
    """
    return with_lasting_output(lambda: _status(arguments))


def _status(arguments: Sequence[str] | None) -> int:
    """Runs a command and prints its errors."""
    try:
        args = build_parser().parse(arguments)
        run: Command = args.run
        with warnings_as_lines():
            return run(args)
    except InputError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return EXIT_INPUT
    except Diverged as error:
        print(f"error: {error}; the last checkpoint is kept", file=sys.stderr)
        return EXIT_PARTIAL
    except Interrupted as stop:
        print(f"interrupted: {stop}; run the same command again to resume", file=sys.stderr)
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Prints each `DataWarning` as one line on standard error, equal ones once; leaves other warnings alone."""
    with warnings.catch_warnings():
        default, shown = warnings.showwarning, set[str]()

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, DataWarning):
                if str(message) not in shown:
                    shown.add(str(message))
                    print(f"warning: {message}", file=sys.stderr)
            else:
                default(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        warnings.simplefilter("always", DataWarning)
        yield


def build_parser() -> Parser:
    """The parser of all commands; imports nothing heavy."""
    parser = Parser(prog="mucon", description=DESCRIPTION, epilog=EXAMPLE)
    add_version(parser)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (train, evaluate, predict, export, baselines, weights, recipes, store):
        command.add(commands)
    return parser
