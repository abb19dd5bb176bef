"""The command line of an experiment's script, and `mucon-sweeps run`."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mucon.commands.options import add_checkpoint_every
from mucon.commands.parser import Parser
from mucon.errors import InputError, Problem, nearest
from storage.remote.addresses import place
from sweeps.service.commands.options import (
    add_budget,
    add_results,
    add_seeds,
    add_tracking,
    add_tracking_uri,
    at_least,
    experiment_named,
    experiment_names,
    new_console,
)
from sweeps.service.spec.files.format import FORMAT, is_file_name
from sweeps.service.spec.seeds import Seeds, read_seeds
from sweeps.service.text import say

if TYPE_CHECKING:
    from rich.console import Console

    from mucon.configuration import Config
    from sweeps.service.plan.plan import Plan
    from sweeps.service.run.budget.limits import Budget
    from sweeps.service.run.seeds.growing import GrowingSeeds
    from sweeps.service.spec.experiment import Collection, Experiment
    from sweeps.service.spec.search import Search
    from sweeps.service.trials.trial import Trial

    Sweep = Experiment | Collection | Search


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "run",
        help="run an experiment or a user-defined sweep",
        description="Runs an experiment of the package, as its script does, or a user-defined sweep from a file.",
        epilog=f"example: mucon-sweeps run ablation_masks --store stores/tug --seeds 3\n\n{FORMAT}",
    )
    parser.add_argument("name", help="an experiment (`mucon-sweeps list`), FILE.yaml or FILE.py")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of its script; `run NAME --help` lists them")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the named sweep with the options of its script."""
    return run_named(options.name, options.options)


def run_named(name: str, words: Sequence[str]) -> int:
    """Runs an experiment of the package, or the sweep in a file, with the words of a command line."""
    return run_script(_find(name), words, shlex.join(["mucon-sweeps", "run", name]), name)


def run_script(sweep: Sweep, words: Sequence[str], program: str | None = None, name: str = "") -> int:
    """Runs a sweep with the words of a command line.

    Args:
        sweep: one table, or several.
        words: options.
        program: how the program was called; by default the name of the script.
        name: name of the experiment, or its file; by default the script.

    Returns:
        The exit status.
    """
    started = time.monotonic()
    options = script_parser(sweep, program).parse(words)
    if options.submit is not None:
        return _send(sweep, options, words, name)
    from sweeps.service.run.executor.cluster.address import use_address
    from sweeps.service.spec.search import Search

    use_address(options.address)
    if isinstance(sweep, Search):
        from sweeps.service.commands.running.search import run_search_here

        return run_search_here(sweep, options, words, program, name, started)
    return _run_here(sweep, options, words, program, name, started)


def _send(sweep: Sweep, options: argparse.Namespace, words: Sequence[str], name: str) -> int:
    """Sends a sweep to a cluster; the arguments are those of `_run_here`."""
    from sweeps.service.commands.running.asked import lasting_name
    from sweeps.service.commands.running.search_options import asked_search
    from sweeps.service.run.executor.cluster.sending import send
    from sweeps.service.run.executor.cluster.submission import submission
    from sweeps.service.spec.rows import renamed
    from sweeps.service.spec.search import Search

    if isinstance(sweep, Search):
        asked_search(sweep, options)
    else:
        asked_seeds(sweep, options)
    if options.address is not None or options.dry_run:
        other = "--dry-run" if options.dry_run else "--address"
        raise InputError(Problem(rule="conflict", place="--submit", value=other, message=f"contradicts {other}"))
    sent = submission(
        (renamed(sweep, options.name) if options.name else sweep).name,
        lasting_name(name),
        words,
        results=options.results,
        store=options.store,
        environment=os.environ,
    )
    return send(sent, options.submit, detach=options.detach, say=partial(say, new_console()))


def _run_here(
    sweep: Experiment | Collection,
    options: argparse.Namespace,
    words: Sequence[str],
    program: str | None,
    name: str,
    started: float,
) -> int:
    """Runs a sweep with parsed options; the other arguments are those of `run_script`, and when it began."""
    from sweeps.service.commands.running.asked import Asked, base_of
    from sweeps.service.driver import run_plan
    from sweeps.service.plan.plan import make_plan
    from sweeps.service.spec.recipe import recipe_name
    from sweeps.service.spec.rows import names_of_rows, only_rows, renamed, with_quoted

    sweep = only_rows(sweep, options.rows) if options.rows else sweep
    sweep = with_quoted(renamed(sweep, options.name) if options.name else sweep, options.quoted)
    priority = names_of_rows(only_rows(sweep, options.priority, "--priority")) if options.priority else frozenset()
    asked = Asked.of(options, words, program, name, started)
    seeds = asked_seeds(sweep, options)
    plan, trials = make_plan(
        sweep,
        store=asked.store,
        base=lambda table, method: _config_of(table, method, options),
        settings=asked.settings,
        seeds=range(1, seeds.most + 1),
        splits=options.split or sweep.splits,
        results=asked.results,
        device=asked.placement.device,
        part=options.part,
    )
    plan, growth = _growing(plan, trials, seeds, priority, asked.budget)
    recipes = ", ".join(dict.fromkeys(recipe_name(base_of(table, options)) for table in sweep.experiments))
    _print_header(plan, recipes, seeds, asked.budget, asked.console)
    if options.dry_run:
        from sweeps.service.run.estimate import dry_run  # imports torch

        return dry_run(plan, trials, asked.placement, asked.budget, priority, asked.price, asked.console, growth)
    data = {"splits": list(plan.splits), "part": plan.part, "store": plan.store}
    config = {"recipe": recipes, "seeds": seeds.given, **data, "set": asked.settings}
    chosen = asked.run_options(sweep.name, sweep.title, config, priority=priority)
    return run_plan(plan, {cell.key: trials[cell.key] for cell in plan.cells}, chosen, asked.console, growth)


def asked_seeds(sweep: Experiment | Collection, options: argparse.Namespace) -> Seeds:
    """The seeds that the options ask for, or those of the sweep."""
    rule, until = sweep.seed_rule, options.until
    given = options.seeds or str(rule or (sweep.demo_seeds if options.store is None else sweep.seeds))
    if rule is not None and until is None and not given.isdecimal():
        until = str(rule.until)
    return read_seeds(given, until)


def _growing(
    plan: Plan, trials: Mapping[str, Trial], seeds: Seeds, priority: frozenset[str], budget: Budget
) -> tuple[Plan, GrowingSeeds | None]:
    """The plan with the seeds that its rows need now, and what adds further ones; a fixed number adds none."""
    if seeds.rule is None:
        return plan, None
    from sweeps.service.run.seeds.growing import GrowingSeeds, in_order

    order = in_order(plan.parts, priority, by_seed=bool(budget.limits))
    growth = GrowingSeeds(seeds.rule, plan.parts, trials, plan.read_results(), folder=plan.results, order=order)
    return replace(plan, parts=growth.needed(), seed_rule=seeds.rule), growth


def _config_of(table: Experiment, method: str, options: argparse.Namespace) -> Config:
    """MuCon's rows build on the table's base, those of another method on its recipe for demo or other data."""
    from mucon.configuration import DEFAULT_METHOD
    from mucon.methods import method_named
    from sweeps.service.commands.running.asked import base_of

    if method == DEFAULT_METHOD:
        return base_of(table, options)()
    recipes = method_named(method).recipes
    config: Config = (recipes["demo"] if options.store is None else next(iter(recipes.values())))()
    return config


def script_parser(sweep: Sweep, program: str | None) -> Parser:
    """The options of a sweep's script, or of a search's."""
    from sweeps.service.commands.running.search_options import add_search
    from sweeps.service.spec.search import Search

    if isinstance(sweep, Search):
        size, demo, example = f"{len(sweep.space)} settings", f"{sweep.demo_trials} points", "--trials 20"
    else:
        size = f"{sum(len(table.variants) for table in sweep.experiments)} rows"
        demo, example = f"{sweep.demo_seeds} seeds", "--seeds 3"
    parser = Parser(
        prog=program,
        usage="%(prog)s [OPTION ...]",
        description=f"{sweep.title}: {size}.",
        epilog=f"example: --store stores/tug {example} --epochs 30  (without --store: the built-in demo, {demo})",
        allow_abbrev=False,  # what is sent, recorded or hidden of a command line goes by the whole names
    )
    recordings = parser.add_argument_group("which recordings")
    _add_recordings(recordings, sweep)
    trained = parser.add_argument_group("what is trained")
    _add_trainings(trained)
    placement = parser.add_argument_group("where and how")
    _add_placement(placement)
    if isinstance(sweep, Search):
        add_search(trained, sweep)
    else:
        recordings.add_argument(
            "--part",
            choices=("test", "validation"),
            default="test",
            help="scored part of each split; validation is held out of the training part, by groups (default: test)",
        )
        _add_rows(trained, sweep)
        placement.add_argument(
            "--priority", nargs="+", metavar="ROW", help="train these rows first (default: all rows seed by seed)"
        )
    _add_cluster(parser.add_argument_group("on a cluster"))
    limits = parser.add_argument_group("limits")
    add_budget(limits)
    limits.add_argument(
        "--stop-after-failures",
        type=at_least(1),
        metavar="K",
        help="stop after K trainings that fail with one cause; running trials write a checkpoint (default: go on)",
    )
    tracking = parser.add_argument_group("tracking and notices")
    add_tracking_uri(tracking)
    add_tracking(tracking)
    tracking.add_argument(
        "--system-metrics", action="store_true", help="record CPU, memory and GPU memory of the trials with each epoch"
    )
    tracking.add_argument(
        "--notify", metavar="URL", help="post a JSON document when something happens (default: $MUCON_NOTIFY)"
    )
    return parser


def _add_rows(group: argparse._ActionsContainer, sweep: Experiment | Collection) -> None:
    from sweeps.service.spec.rows import quoted_data

    group.add_argument(
        "--rows",
        nargs="+",
        metavar="ROW",
        help="only these rows, such as 'box, no', TABLE or 'TABLE: ROW' (default: all)",
    )
    data = ", ".join(sorted(quoted_data(sweep))) or "none here"
    group.add_argument(
        "--quoted", metavar="DATA", help=f"also show the numbers that papers report for these data: {data}"
    )
    add_seeds(group, sweep.seed_rule or sweep.seeds)


def _add_recordings(group: argparse._ActionsContainer, sweep: Sweep) -> None:
    option = group.add_argument
    option(
        "--store",
        type=place,
        help="folder or URI of the store (default: the built-in demo)",
    )
    option(
        "--split", nargs="+", metavar="NAME", help=f"splits of the store, or all (default: {' '.join(sweep.splits)})"
    )


def _add_trainings(group: argparse._ActionsContainer) -> None:
    option = group.add_argument
    option("--name", help="name of the sweep's folder and run (default: the experiment's)")
    option("--epochs", type=at_least(1), metavar="E", help="epochs of each trial (default: the recipe's)")
    option(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="override a setting of every trial whose method has it, such as loss.smoothing=0.2, or of one method, "
        "such as ms_tcn:training.epochs=50 (repeatable)",
    )
    option(
        "--recipe",
        metavar="RECIPE",
        help="base configuration of the rows; `mucon recipes` lists all (default: the experiment's)",
    )
    option("--dry-run", action="store_true", help="list the cells, their states and an estimate; train nothing")
    option("--price", metavar="X", help="in a dry run: print the cost at X per GPU-hour (without GPUs: CPU-hour)")


def _add_cluster(group: argparse._ActionsContainer) -> None:
    option = group.add_argument
    option("--address", help="Ray cluster: HOST:PORT, or auto for that of this machine (default: $RAY_ADDRESS)")
    option(
        "--submit",
        metavar="URL",
        help="run the sweep on the cluster of this dashboard, such as http://head:8265, and print its output; "
        "paths are those of the cluster",
    )
    option("--detach", action="store_true", help="with --submit: do not wait for the sweep")


def _add_placement(group: argparse._ActionsContainer) -> None:
    option = group.add_argument
    add_results(group)
    option("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where trials compute (default: auto)")
    option("--cpus-per-trial", default="auto", metavar="N", help="cores per trial (default: 1, or 2 beside a GPU)")
    option("--gpus-per-trial", default="auto", metavar="N", help="GPUs per trial (default: 0.25 beside a GPU)")
    option(
        "--max-concurrent",
        type=at_least(1),
        metavar="N",
        help="at most N trials at a time (default: as many as fit); MUCON_MAX_CONCURRENT is a limit for all sweeps",
    )
    add_checkpoint_every(group)
    option(
        "--keep",
        type=at_least(1),
        metavar="K",
        help="keep whole checkpoints of the K best trials, and only the weights of the others (default: all whole)",
    )


def _find(name: str) -> Sweep:
    names = experiment_names()
    if is_file_name(name):
        from sweeps.service.spec.files.reading import read_experiment

        return read_experiment(Path(name), names)
    if name not in names:
        message, hint = f"unknown experiment{nearest(name, names)}", "`mucon-sweeps list` lists all experiments"
        raise InputError(Problem(rule="unknown", place=name, value=name, message=message, hint=hint))
    return experiment_named(name)


def _print_header(plan: Plan, recipe: str, seeds: Seeds, budget: Budget, console: Console) -> None:
    from sweeps.service.commands.running.asked import print_notes
    from sweeps.service.plan.recordings import validation_lines

    say(console, f"{plan.name}: {plan.title}")
    rows = sum(len(part.experiment.variants) for part in plan.parts)
    size = f"recipe {recipe}, {rows} rows, {seeds}"
    say(console, f"store {plan.store}, split {', '.join(plan.splits)}, {size}")
    for line in validation_lines(plan.splits):
        say(console, line)
    print_notes(budget, plan.warnings, console)
