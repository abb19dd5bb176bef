"""`mucon-sweeps stop`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from mucon.errors import EXIT_OK, InputError, Problem
from sweeps.service.commands.options import add_cluster, add_results

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "stop",
        help="ask a running sweep to stop",
        description=(
            "Asks a sweep that another process runs, on any machine that shares the results folder, to stop as after "
            "Ctrl-C: every running trial writes a checkpoint. The command of the sweep resumes it. A search is also "
            "stopped in its last step."
        ),
        epilog="example: mucon-sweeps stop ablation_masks",
    )
    parser.add_argument("name", help="name of a running sweep; with --cluster also of its job")
    add_results(parser)
    add_cluster(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Asks the sweep to stop; does not wait for its end."""
    if options.cluster is not None:
        from sweeps.service.run.executor.cluster.views import stop_job

        return stop_job(options.cluster, options.name, as_json=options.json)
    from sweeps.service.search.points import final_name
    from sweeps.service.spec.texts import name_problems
    from sweeps.service.trials import lease
    from sweeps.service.trials.results_folder import STOP_FILE, ResultsFolder
    from sweeps.service.upkeep.trash import disk_errors

    results = ResultsFolder.at(options.results)
    names = [] if any(name_problems("name", options.name)) else [options.name, final_name(options.name)]
    runners = {name: runner for name in names if (runner := lease.holder(results.running(name))) is not None}
    if not runners:
        running = sorted(path.name for path in results.path.glob("running/*") if lease.holder(path) is not None)
        message = f"no process runs the sweep {options.name!r} (running: {', '.join(running) or 'none'})"
        raise InputError(Problem(rule="unknown", place=str(results.path), value=options.name, message=message))
    name, runner = next(iter(runners.items()))
    with disk_errors(results):
        (results.running(name) / STOP_FILE).touch()
    if options.json:
        print(json.dumps({"format_version": FORMAT_VERSION, "sweep": name, "runner": str(runner)}, indent=1))
        return EXIT_OK
    print(f"asked {runner} to stop {name}; its trials write their checkpoints first")
    return EXIT_OK
