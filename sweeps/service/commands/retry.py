"""`mucon-sweeps retry`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK
from sweeps.service.commands.options import add_budget, add_results, new_console
from sweeps.service.text import say

if TYPE_CHECKING:
    from sweeps.service.trials.results_folder import ResultsFolder
    from sweeps.service.upkeep.retries import Retried

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "retry",
        help="run the failed trials of a sweep again",
        description=(
            "Runs the trials of a sweep that have failed, diverged or are stale, and whatever else is missing: the "
            "sweep's own command does not repeat a failure with the same code and data. They resume from their "
            "checkpoints. The exit status is that of the run."
        ),
        epilog="example: mucon-sweeps retry ablation_masks --failed --diverged",
    )
    parser.add_argument("name", help="name of a sweep that has run")
    parser.add_argument("--failed", action="store_true", help="trials that have failed (default)")
    parser.add_argument("--diverged", action="store_true", help="trials that have diverged")
    parser.add_argument(
        "--stale", action="store_true", help="trials of earlier code or data, which get new identities and folders"
    )
    add_results(parser)
    parser.add_argument("--tracking-uri", metavar="URI", help="MLflow server (default: that of the sweep's command)")
    parser.add_argument(
        "--address", help="Ray cluster, as of the sweep's script (default: that of the sweep's command)"
    )
    add_budget(parser.add_argument_group("limits"), default="that of the sweep's command")
    parser.add_argument("--dry-run", action="store_true", help="list the trials; change and run nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document; the run writes to stderr")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Queues the trials and runs the sweep's recorded command."""
    from sweeps.service.commands.run import run_named
    from sweeps.service.run.budget.limits import CAPS, read_budget
    from sweeps.service.run.executor.cluster.address import use_address
    from sweeps.service.triage.failures import FAILURES
    from sweeps.service.trials.folder import State
    from sweeps.service.trials.results_folder import ResultsFolder
    from sweeps.service.upkeep.retries import failures, queue, rerun_of
    from sweeps.service.upkeep.trash import disk_errors

    results = ResultsFolder.at(options.results)
    states = {State(state) for state in ("failed", "diverged") if getattr(options, state)}
    states |= set() if states or options.stale else {State.FAILED}
    queued = failures(results, options.name, states)
    chosen = [*queued, *(_stale(results, options.name) if options.stale else [])]
    names = ("--tracking-uri", "--address", *CAPS)
    values = {option: getattr(options, option[2:].replace("-", "_")) for option in names}
    use_address(options.address)  # checks, as the next line, before anything is queued
    read_budget({option: values[option] for option in CAPS}, os.environ)
    rerun = rerun_of(results, options.name, {option: value for option, value in values.items() if value is not None})
    command = rerun.command
    out = sys.stderr if options.json else sys.stdout
    status = None
    with contextlib.redirect_stdout(out):
        console = new_console()
        for cell in chosen:
            cause = f": {cell.reason}" if cell.reason else ""
            say(console, f"{cell.identity}  {cell.row}, split {cell.split}, seed {cell.seed}  {cell.state}{cause}")
        if not chosen and not options.stale:
            others = Counter(cell.state for cell in failures(results, options.name, {*FAILURES} - states))
            left = "".join(f"; {count} {state}: pass --{state}" for state, count in others.items())
            say(console, f"{options.name} has no {' or '.join(sorted(states))} trials{left}")
        elif options.dry_run:
            say(console, f"to run: {command}")
        else:
            with disk_errors(results):
                queue(results, options.name, queued, partial(say, console))
            say(console, command)
            with contextlib.chdir(rerun.folder):
                status = run_named(rerun.sweep, rerun.words)
    if options.json:
        cells = [{name: getattr(cell, name) for name in cell.__slots__} for cell in chosen]
        whole = {"format_version": FORMAT_VERSION, "sweep": options.name, "trials": cells, "command": command}
        print(json.dumps({**whole, "status": status}, indent=1))
    return EXIT_OK if status is None else status


def _stale(results: ResultsFolder, name: str) -> list[Retried]:
    """The trials of the sweep's last plan that are stale; they have no directory, so that nothing is queued."""
    from sweeps.service.triage.status import CellState, sweep_status
    from sweeps.service.upkeep.retries import Retried

    return [
        Retried(
            row=cell.row,
            split=cell.split,
            seed=cell.seed,
            identity=cell.identity,
            evaluation=cell.evaluation,
            state=cell.state,
            reason=f"trained as {', '.join(cell.earlier)} before",
        )
        for cell in sweep_status(results, name).cells
        if cell.state is CellState.STALE
    ]
