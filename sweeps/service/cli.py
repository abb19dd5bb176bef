"""The command line of a sweep's script, and of `mucon-sweeps` over all of them."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

import sweeps
from mucon.config import TrainConfig
from mucon.errors import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_PARTIAL, InputError, nearest
from mucon.recipes import RECIPES
from sweeps.service.driver import Running, run_plan, show
from sweeps.service.plan.plan import Plan, make_plan, read_plan
from sweeps.service.report.report import write_report
from sweeps.service.run.dry_run import dry_run
from sweeps.service.run.placement import place_trials
from sweeps.service.run.reproduction import add_command as add_reproduce
from sweeps.service.run.reproduction import reproduce
from sweeps.service.spec.experiment import Collection, Experiment, SweepInfo
from sweeps.service.spec.files.content import FORMAT
from sweeps.service.spec.files.reading import is_file_name, read_experiment
from sweeps.service.spec.rows import only_rows, renamed
from sweeps.service.tables.best import best_lines

DEMO_STORE = Path("stores/demo")
Sweep = Experiment | Collection
WIDTH = 160
"""Characters of a line in a file or a pipe."""


def main(experiment: Sweep | None = None, arguments: Sequence[str] | None = None) -> int:
    """Runs a command line.

    Args:
        experiment: the one of a script; None for `mucon-sweeps`, which takes commands.
        arguments: instead of the process's own.

    Returns:
        The exit status: 0, 2 (wrong input: one line for each problem), 3 (cells without a value), 130 (interrupted).
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run_script(experiment, words) if experiment is not None else _run_command(words)
    except InputError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return EXIT_INPUT
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the checkpoints", file=sys.stderr)
        return EXIT_INTERRUPTED


def experiments() -> dict[str, Sweep]:
    """The experiments of the package `sweeps`, by name: each module's `EXPERIMENT`."""
    found: dict[str, Sweep] = {}
    for module in pkgutil.iter_modules(sweeps.__path__):
        if not module.ispkg and not module.name.startswith("_"):
            value = getattr(importlib.import_module(f"sweeps.{module.name}"), "EXPERIMENT", None)
            if isinstance(value, Experiment | Collection):
                found[value.name] = value
    return found


def _run_script(experiment: Sweep, words: Sequence[str], program: str | None = None) -> int:
    options = _parser(experiment, program).parse_args(words)
    experiment = only_rows(experiment, options.rows) if options.rows else experiment
    experiment = renamed(experiment, options.name) if options.name else experiment
    console = _console()
    results: Path = options.results
    _check_writable(results)
    demo = options.store is None
    store = _demo_store(console) if demo else options.store

    def base(table: Experiment) -> Callable[[], TrainConfig]:
        return RECIPES[options.recipe] if options.recipe else table.demo_base if demo else table.base

    settings = _settings(options.set, options.epochs)
    seeds = options.seeds or (experiment.demo_seeds if demo else experiment.seeds)
    plan, trials = make_plan(
        experiment,
        store=store,
        base=lambda table: base(table)(),
        settings=settings,
        seeds=range(1, seeds + 1),
        splits=options.split or experiment.splits,
        results=results,
    )
    recipes = ", ".join(dict.fromkeys(base(table).__name__ for table in experiment.experiments))
    _header(plan, recipes, seeds, console)
    if options.dry_run:
        where = place_trials(options.device, options.cpus_per_trial, options.gpus_per_trial)
        return dry_run(plan, trials, where, console)
    command = f"{program or shlex.quote(Path(sys.argv[0]).name)} {shlex.join(words)}".rstrip()
    config = {"recipe": recipes, "seeds": seeds, "splits": list(plan.splits), "store": plan.store, "set": settings}
    info = SweepInfo(name=experiment.name, title=experiment.title, command=command, config=config)
    how = Running(
        device=options.device,
        cpus=options.cpus_per_trial,
        gpus=options.gpus_per_trial,
        tracking_uri=_tracking_uri(options.tracking_uri, plan.results),
        info=info,
    )
    return run_plan(plan, trials, how, console)


def _run_command(words: Sequence[str]) -> int:
    options = _commands().parse_args(words)
    if options.command == "run":
        return _run_script(_find(options.name), options.options, shlex.join(["mucon-sweeps", "run", options.name]))
    console = _console()
    if options.command == "list":
        for name, experiment in experiments().items():
            shown = experiment.experiments
            what = [v.name for v in shown[0].variants] if len(shown) == 1 else [table.name for table in shown]
            _print(console, f"{name}: {experiment.title} ({'; '.join(what)})")
        return EXIT_OK
    if options.command == "reproduce":
        tell = partial(_print, console)
        return reproduce(options.run, options.results, store=options.store, device=options.device, tell=tell)
    if options.command == "sync":
        return _sync(options.results, options.tracking_uri, console)
    plan = read_plan(options.results, options.name)
    known = plan.known()
    made = plan.tables(known)
    plan.write_tables(made, known)
    write_report(plan, made, known)
    for table in made.values():
        show(table, console)
    for line in best_lines(plan, made, known, {}):
        _print(console, line)
    return EXIT_OK


def _commands() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mucon-sweeps", description="The experiments of this package.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="the experiments and what they vary")
    run = commands.add_parser(
        "run",
        help="run one, or a sweep of your own",
        description="Runs a sweep of the package as its script does, or one of your own from its file.",
        epilog=FORMAT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("name", help="of the experiment (`mucon-sweeps list`), or FILE.yaml, or FILE.py")
    run.add_argument("options", nargs=argparse.REMAINDER, help="those of its script; `run NAME --help` lists them")
    report = commands.add_parser("report", help="its tables again, from the trials' folders alone")
    report.add_argument("name", help="of the experiment")
    report.add_argument("--results", type=Path, default=Path("results"), help="folder of the trials (default: results)")
    add_reproduce(commands)
    sync = commands.add_parser("sync", help="make a tracking server show a results folder")
    sync.add_argument("results", type=Path, help="folder of the trials")
    sync.add_argument("--tracking-uri", metavar="URI", help="MLflow server (default: an SQLite file in the folder)")
    return parser


def _sync(results: Path, tracking_uri: str | None, console: Console) -> int:
    from sweeps.service.track.sync import sync

    uri = _tracking_uri(tracking_uri, results.absolute())
    unsent = False
    for name, shipment in sync(results.absolute(), uri).items():
        _print(console, f"{name}: {len(shipment.shipped)} trials")
        for line in shipment.lines(results, uri):
            _print(console, line)
            unsent = True
    return EXIT_PARTIAL if unsent else EXIT_OK


def _tracking_uri(given: str | None, results: Path) -> str:
    return given or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{results / 'mlflow.db'}"


def _console() -> Console:
    """A terminal as wide as it is; where there is none, lines long enough for a table."""
    return Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=WIDTH)


def _print(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _find(name: str) -> Sweep:
    known = experiments()
    if is_file_name(name):
        return read_experiment(Path(name), known)
    if name not in known:
        raise InputError(
            f"{name!r} is not an experiment{nearest(name, list(known))}: `mucon-sweeps list` names them all"
        )
    return known[name]


def _parser(experiment: Sweep, program: str | None) -> argparse.ArgumentParser:
    rows = sum(len(table.variants) for table in experiment.experiments)
    parser = argparse.ArgumentParser(prog=program, description=f"{experiment.title}: {rows} rows.")
    add = parser.add_argument
    add("--store", type=Path, help="feature store with the recordings (default: the built-in demo)")
    add("--split", nargs="+", metavar="NAME", help="splits of the store, or all (default: 1)")
    add("--rows", nargs="+", metavar="ROW", help="these rows alone, as 'box, no' (default: all), TABLE, TABLE: ROW")
    add("--name", help="of the folder that takes tables and figures, and of the run (default: this sweep's)")
    add("--seeds", type=_positive, metavar="N", help=f"seeds 1 to N (default: {experiment.seeds})")
    add("--epochs", type=_positive, metavar="E", help="epochs of each trial (default: the recipe's)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of every trial; wins over the rows'")
    add("--recipe", choices=sorted(RECIPES), help="configuration under the rows")
    add("--results", type=Path, default=Path("results"), metavar="DIR", help="folder of the trials (default: results)")
    add("--tracking-uri", metavar="URI", help="MLflow server (default: an SQLite file in the results folder)")
    add("--cpus-per-trial", default="auto", metavar="N", help="default: 1, or 2 beside a GPU")
    add("--gpus-per-trial", default="auto", metavar="N", help="default: 0.25 where there is a GPU, else 0")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where trials compute (default: auto)")
    add(
        "--dry-run",
        action="store_true",
        help="show the cells, what is known of them and what the rest would take, and start nothing",
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _settings(pairs: Sequence[str], epochs: int | None) -> dict[str, object]:
    settings: dict[str, object] = {} if epochs is None else {"training.epochs": epochs}
    problems = []
    for pair in pairs:
        path, equals, value = pair.partition("=")
        if not equals:
            problems.append(f"--set takes KEY=VALUE, {pair!r} has no '=': write --set mask.shape=bell")
        settings[path.strip()] = value.strip()
    if problems:
        raise InputError(problems)
    return settings


def _check_writable(results: Path) -> None:
    try:
        results.mkdir(parents=True, exist_ok=True)
        probe = results / f".writable.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(
            f"trials are written to the results folder, {results} cannot be written ({error.strerror}): "
            "unlock it, or name another with --results"
        ) from None


def _demo_store(console: Console) -> Path:
    if not (DEMO_STORE / "manifest.json").exists():
        from mucon.stores.made_up import demo_store

        _print(console, f"making the demo's recordings in {DEMO_STORE}")
        DEMO_STORE.parent.mkdir(parents=True, exist_ok=True)
        demo_store(DEMO_STORE)
    return DEMO_STORE


def _header(plan: Plan, recipe: str, seeds: int, console: Console) -> None:
    _print(console, f"{plan.name}: {plan.title}")
    rows = sum(len(part.experiment.variants) for part in plan.parts)
    size = f"recipe {recipe}, {rows} rows, {seeds} seeds"
    _print(console, f"store {plan.store}, split {', '.join(plan.splits)}, {size}")
