"""The command line of a sweep's script, and `mucon-sweeps`: parse, call, exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mucon.cli import warnings_as_lines
from mucon.commands.parser import Parser, add_version
from mucon.errors import EXIT_INPUT, EXIT_INTERRUPTED, InputError
from storage.commands.stdout import with_lasting_output
from sweeps.service.commands import (
    compare,
    debug,
    gc,
    logs,
    merge,
    report,
    reproduce,
    retry,
    rm,
    run,
    status,
    stop,
    sync,
)
from sweeps.service.commands import list as list_command
from sweeps.service.commands.epochs import early_stop, history
from sweeps.service.commands.exchange import export_results, import_results
from sweeps.service.commands.models import export, fetch, promote
from sweeps.service.text import printable, redacted

if TYPE_CHECKING:
    from sweeps.service.spec.experiment import Collection, Experiment
    from sweeps.service.spec.search import Search


def main(experiment: Experiment | Collection | Search | None = None, arguments: Sequence[str] | None = None) -> int:
    """Runs a command line.

    Args:
        experiment: the experiment of a script; None for `mucon-sweeps`, which takes commands.
        arguments: words of the command line; by default the process's own.

    Returns:
        The exit status: 0, 2 (invalid input, one line per problem), 3 (cells without a value), 130 (interrupted).
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    return with_lasting_output(lambda: _status(experiment, words))


def _status(experiment: Experiment | Collection | Search | None, words: Sequence[str]) -> int:
    """Runs a command line and prints its errors."""
    try:
        if experiment is not None:
            return run.run_script(experiment, words)
        options = parser().parse(words)
        with warnings_as_lines():
            status: int = options.run(options)
        return status
    except InputError as error:
        for problem in error.problems:
            print(printable(redacted(f"error: {problem}")), file=sys.stderr)
        return EXIT_INPUT
    except KeyboardInterrupt:
        print("interrupted; run the same command to resume from the checkpoints", file=sys.stderr)
        return EXIT_INTERRUPTED


def parser() -> Parser:
    """The parser of `mucon-sweeps`."""
    whole = Parser(
        prog="mucon-sweeps",
        description="Runs experiments: many trainings, compared in tables, figures and MLflow.",
        epilog="example: mucon-sweeps run ablation_masks --store stores/tug --seeds 3",
    )
    add_version(whole)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listed = (
        list_command,
        run,
        status,
        logs,
        debug,
        stop,
        retry,
        report,
        history,
        early_stop,
        compare,
        reproduce,
        export,
        sync,
    )
    for command in (*listed, promote, fetch, merge, export_results, import_results, rm, gc):
        command.add(commands)
    return whole
