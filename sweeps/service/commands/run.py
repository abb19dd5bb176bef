"""The command line of an experiment's script, and `mucon-sweeps run`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sweeps
from mucon.commands.options import add_checkpoint_every
from mucon.commands.outputs import check_folder
from mucon.commands.parser import Parser
from mucon.errors import InputError, Problem, nearest
from sweeps.service.commands.options import (
    add_budget,
    add_results,
    add_seeds,
    add_tracking,
    add_tracking_uri,
    experiment_named,
    experiment_names,
    is_tracking,
    new_console,
    tracking_uri,
)
from sweeps.service.spec.files.format import FORMAT, is_file_name
from sweeps.service.spec.seeds import Seeds, read_seeds
from sweeps.service.text import HIDDEN, redacted, say

if TYPE_CHECKING:
    from rich.console import Console

    from mucon.configuration import Config
    from sweeps.service.plan.plan import Plan
    from sweeps.service.plan.sweep_folder import SweepInfo
    from sweeps.service.run.budget.limits import Budget
    from sweeps.service.run.budget.price import Price
    from sweeps.service.run.seeds.growing import GrowingSeeds
    from sweeps.service.spec.experiment import Collection, Experiment
    from sweeps.service.spec.recipe import Base
    from sweeps.service.trials.results_folder import ResultsFolder
    from sweeps.service.trials.trial import Trial

    Sweep = Experiment | Collection

DEMO_STORE = Path("stores/demo")


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

    use_address(options.address)
    return _run_here(sweep, options, words, program, name, started)


def _send(sweep: Sweep, options: argparse.Namespace, words: Sequence[str], name: str) -> int:
    """Sends a sweep to a cluster; the arguments are those of `_run_here`."""
    from sweeps.service.run.executor.cluster.sending import send
    from sweeps.service.run.executor.cluster.submission import submission
    from sweeps.service.spec.rows import renamed

    read_seeds(options.seeds or "1", options.until)
    if options.address is not None or options.dry_run:
        other = "--dry-run" if options.dry_run else "--address"
        raise InputError(Problem(rule="conflict", place="--submit", value=other, message=f"contradicts {other}"))
    sent = submission(
        (renamed(sweep, options.name) if options.name else sweep).name,
        _lasting(name),
        words,
        results=options.results,
        store=options.store,
        environment=os.environ,
    )
    return send(sent, options.submit, detach=options.detach, say=partial(say, new_console()))


def _run_here(
    sweep: Sweep, options: argparse.Namespace, words: Sequence[str], program: str | None, name: str, started: float
) -> int:
    """Runs a sweep with parsed options; the other arguments are those of `run_script`, and when it began."""
    from mucon.configuration import parse_settings
    from sweeps.service.driver import Options, run_plan
    from sweeps.service.run.budget.limits import CAPS, read_budget
    from sweeps.service.run.notice import VARIABLE, notify_address
    from sweeps.service.run.resources import place_trials
    from sweeps.service.spec.recipe import recipe_name
    from sweeps.service.spec.rows import names_of_rows, only_rows, renamed
    from sweeps.service.trials.results_folder import ResultsFolder

    sweep = only_rows(sweep, options.rows) if options.rows else sweep
    sweep = renamed(sweep, options.name) if options.name else sweep
    priority = names_of_rows(only_rows(sweep, options.priority, "--priority")) if options.priority else frozenset()
    notify = notify_address(options.notify, os.environ.get(VARIABLE))
    budget = read_budget({name: getattr(options, name[2:].replace("-", "_")) for name in CAPS}, os.environ)
    price, demo, tracked = _price(options), options.store is None, is_tracking(options.tracking, options.tracking_uri)
    seeds = read_seeds(options.seeds or str(sweep.demo_seeds if demo else sweep.seeds), options.until)
    each = options.device, options.cpus_per_trial, options.gpus_per_trial
    placement = place_trials(*each).limited(options.max_concurrent)
    check_folder(options.results.expanduser(), "--results")
    console, results = new_console(), ResultsFolder.at(options.results)
    store = _demo_store(console) if demo else options.store
    settings = ({} if options.epochs is None else {"training.epochs": options.epochs}) | parse_settings(options.set)
    plan, trials = _planned(sweep, options, store, settings, range(1, seeds.most + 1), results, placement.device)
    plan, growth = _growing(plan, trials, seeds, priority, budget)
    recipes = ", ".join(dict.fromkeys(recipe_name(_base(table, options)) for table in sweep.experiments))
    _print_header(plan, recipes, seeds, budget, console)
    if options.dry_run:
        from sweeps.service.run.estimate import dry_run  # imports torch

        return dry_run(plan, trials, placement, budget, priority, price, console, growth)
    shown = [redacted(word.replace(notify, HIDDEN) if notify else word) for word in words]
    data = {"splits": list(plan.splits), "part": plan.part, "store": plan.store}
    config = {"recipe": recipes, "seeds": seeds.given, **data, "set": settings}
    chosen = Options(
        device=options.device,
        cpus=options.cpus_per_trial,
        gpus=options.gpus_per_trial,
        checkpoint_seconds=options.checkpoint_every,
        tracking_uri=tracking_uri(options.tracking_uri, results) if tracked else None,
        info=_info(sweep, shown, program, name, config, options.keep),
        max_concurrent=options.max_concurrent,
        priority=priority,
        budget=budget,
        started=started,
        notify=notify,
        stop_after_failures=options.stop_after_failures,
    )
    return run_plan(plan, {cell.key: trials[cell.key] for cell in plan.cells}, chosen, console, growth)


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


def _planned(
    sweep: Sweep,
    options: argparse.Namespace,
    store: Path,
    settings: Mapping[str, object],
    seeds: Sequence[int],
    results: ResultsFolder,
    device: str,
) -> tuple[Plan, dict[str, Trial]]:
    """The plan of a sweep, and each of its trials by key."""
    from sweeps.service.plan.plan import make_plan

    return make_plan(
        sweep,
        store=store,
        base=lambda table, method: _config_of(table, method, options),
        settings=settings,
        seeds=seeds,
        splits=options.split or sweep.splits,
        results=results,
        device=device,
        part=options.part,
    )


def _price(options: argparse.Namespace) -> Price | None:
    """The price at which a dry run prints a cost."""
    from sweeps.service.run.budget.price import read_price

    return read_price(options.price, is_dry_run=options.dry_run)


def _base(table: Experiment, options: argparse.Namespace) -> Base:
    """The configuration on which MuCon's rows build."""
    from sweeps.service.spec.recipe import with_recipe

    own = table.demo_base if options.store is None else table.base
    return own if options.recipe is None else with_recipe(own, options.recipe)


def _config_of(table: Experiment, method: str, options: argparse.Namespace) -> Config:
    """MuCon's rows build on the table's base, those of another method on its recipe for demo or other data."""
    from mucon.configuration import DEFAULT_METHOD
    from mucon.methods import method_named

    if method == DEFAULT_METHOD:
        return _base(table, options)()
    recipes = method_named(method).recipes
    config: Config = (recipes["demo"] if options.store is None else next(iter(recipes.values())))()
    return config


def script_parser(sweep: Sweep, program: str | None) -> Parser:
    """The options of a sweep's script."""
    rows = sum(len(table.variants) for table in sweep.experiments)
    parser = Parser(
        prog=program,
        usage="%(prog)s [OPTION ...]",
        description=f"{sweep.title}: {rows} rows.",
        epilog=f"example: --store stores/tug --seeds 3 --epochs 30  (without --store: the built-in demo, "
        f"{sweep.demo_seeds} seeds)",
        allow_abbrev=False,  # what is sent, recorded or hidden of a command line goes by the whole names
    )
    _add_recordings(parser.add_argument_group("which recordings"), sweep)
    _add_trainings(parser.add_argument_group("what is trained"), sweep)
    _add_placement(parser.add_argument_group("where and how"))
    _add_cluster(parser.add_argument_group("on a cluster"))
    limits = parser.add_argument_group("limits")
    add_budget(limits)
    limits.add_argument(
        "--stop-after-failures",
        type=_positive,
        metavar="K",
        help="stop after K trainings that fail with one cause; running trials write a checkpoint (default: go on)",
    )
    tracking = parser.add_argument_group("tracking and notices")
    add_tracking_uri(tracking)
    add_tracking(tracking)
    tracking.add_argument(
        "--notify", metavar="URL", help="post a JSON document when something happens (default: $MUCON_NOTIFY)"
    )
    return parser


def _add_recordings(group: argparse._ActionsContainer, sweep: Sweep) -> None:
    option = group.add_argument
    option("--store", type=Path, help="feature store with the recordings (default: the built-in demo)")
    option(
        "--split", nargs="+", metavar="NAME", help=f"splits of the store, or all (default: {' '.join(sweep.splits)})"
    )
    option(
        "--part",
        choices=("test", "validation"),
        default="test",
        help="scored part of each split; validation is held out of the training part, by groups (default: test)",
    )


def _add_trainings(group: argparse._ActionsContainer, sweep: Sweep) -> None:
    option = group.add_argument
    option(
        "--rows",
        nargs="+",
        metavar="ROW",
        help="only these rows, such as 'box, no', TABLE or 'TABLE: ROW' (default: all)",
    )
    option("--name", help="name of the sweep's folder and run (default: the experiment's)")
    add_seeds(group, sweep.seeds)
    option("--epochs", type=_positive, metavar="E", help="epochs of each trial (default: the recipe's)")
    option(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="override a setting of every trial, such as loss.smoothing=0.2 (repeatable)",
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
        type=_positive,
        metavar="N",
        help="at most N trials at a time (default: as many as fit); MUCON_MAX_CONCURRENT is a limit for all sweeps",
    )
    option("--priority", nargs="+", metavar="ROW", help="train these rows first (default: all rows seed by seed)")
    add_checkpoint_every(group)
    option(
        "--keep",
        type=_positive,
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


def _info(
    sweep: Sweep,
    shown: Sequence[str],
    program: str | None,
    name: str,
    config: Mapping[str, object],
    keep: int | None,
) -> SweepInfo:
    """The record of a run; `program` and `name` are those of `run_script`, and `shown` its words without secrets."""
    from sweeps.service.plan.sweep_folder import Rerun, SweepInfo

    command = f"{program or shlex.quote(Path(sys.argv[0]).name)} {shlex.join(shown)}".rstrip()
    rerun = Rerun(sweep=_lasting(name), words=tuple(shown), folder=str(Path.cwd()))
    return SweepInfo(name=sweep.name, title=sweep.title, command=command, config=config, keep=keep, rerun=rerun)


def _lasting(name: str) -> str:
    """The name of an experiment, or the absolute path of a file; by default of the script."""
    path = Path(name or sys.argv[0]).absolute()
    if path.resolve().parent == Path(sweeps.__path__[0]).resolve():
        return path.stem
    return str(path) if not name or is_file_name(name) else name


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 1, got {text!r}")
    return int(text)


def _demo_store(console: Console) -> Path:
    if not (DEMO_STORE / "manifest.json").exists():
        from mucon.stores.made_up import demo_store

        say(console, f"making the demo recordings in {DEMO_STORE}")
        DEMO_STORE.parent.mkdir(parents=True, exist_ok=True)
        demo_store(DEMO_STORE)
    return DEMO_STORE


def _print_header(plan: Plan, recipe: str, seeds: Seeds, budget: Budget, console: Console) -> None:
    from sweeps.service.plan.recordings import validation_lines
    from sweeps.service.run.executor.cluster.submission import sender_lines

    say(console, f"{plan.name}: {plan.title}")
    rows = sum(len(part.experiment.variants) for part in plan.parts)
    size = f"recipe {recipe}, {rows} rows, {seeds}"
    say(console, f"store {plan.store}, split {', '.join(plan.splits)}, {size}")
    for line in (*validation_lines(plan.splits), *budget.lines()):
        say(console, line)
    for line in (*(f"warning: {problem}" for problem in plan.warnings), *sender_lines(os.environ)):
        say(console, line)
