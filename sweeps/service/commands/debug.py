"""`mucon-sweeps debug`."""

from __future__ import annotations

import argparse
import contextlib
import json
import pdb
import sys
import traceback
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PARTIAL, InputError
from storage.remote.addresses import place
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import printable, redacted, say

if TYPE_CHECKING:
    from mucon.training import EpochReport

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "debug",
        help="repeat a failed trial in the foreground",
        description=(
            "Repeats a trial in a temporary copy, in this process and without Ray, from its last checkpoint. Prints "
            "each epoch, warnings and the whole traceback. Nothing of the trial itself changes. Exit status 0 if it "
            "finishes now, 3 if it fails again."
        ),
        epilog="example: mucon-sweeps debug 1f0c52d4a9e37b86 --post-mortem",
    )
    parser.add_argument("trial", metavar="TRIAL", help="identity, its first characters, directory, or ROW/SPLIT/SEED")
    parser.add_argument("--from-start", action="store_true", help="train from the first epoch")
    parser.add_argument("--post-mortem", action="store_true", help="open Python's debugger where the error is raised")
    parser.add_argument("--store", type=place, help="current place of the recordings (default: as recorded)")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: as the trial was trained"
    )
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document; the rest on standard error")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Repeats the trial and prints what happens."""
    from sweeps.service.run.debugging import Repetition, repeat, trial_of
    from sweeps.service.triage.failures import Failure
    from sweeps.service.triage.naming import find
    from sweeps.service.trials.folder import State
    from sweeps.service.trials.results_folder import ResultsFolder

    named = find(ResultsFolder.at(options.results), options.trial)
    trial = trial_of(named)
    how = Repetition(device=options.device, store=options.store, from_start=options.from_start)
    failures: list[Failure] = []

    def failed(error: Exception) -> None:
        failures.append(Failure.of(error))
        if not isinstance(error, InputError):
            print(printable(redacted("".join(traceback.format_exception(error)))), end="", file=sys.stderr)
        if options.post_mortem:
            pdb.post_mortem(error.__traceback__)

    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
        console = new_console()

        def report(epoch: EpochReport) -> None:
            say(console, f"epoch {epoch.epoch}/{epoch.epochs} loss {epoch.losses['total']:.4f}")

        say(console, f"repeating {named.identity}: {named.title}, evaluation {trial.evaluation}, in a copy")
        try:
            outcome = repeat(trial, named.reading, how, report=report, failed=failed)
        except KeyboardInterrupt:
            say(console, "interrupted; nothing is kept")
            return EXIT_INTERRUPTED
        say(console, f"{outcome.state}{f': {outcome.reason}' if outcome.reason else ''}")
    if options.json:
        facts = {
            "identity": trial.identity,
            "evaluation": trial.evaluation,
            "state": outcome.state,
            "reason": outcome.reason,
        }
        failure = failures[0].to_dict() if failures else None
        print(json.dumps({"format_version": FORMAT_VERSION, **facts, "failure": failure}, indent=1))
    return EXIT_OK if outcome.state is State.FINISHED else EXIT_PARTIAL
