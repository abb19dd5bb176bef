"""`mucon train`."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import shlex
import signal
import sys
import types
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mucon.commands.options import (
    FORMER_RECIPES,
    RECIPES,
    add_checkpoint_every,
    add_data,
    add_device,
    add_method,
    add_settings,
)
from mucon.commands.outputs import check_file, check_run_folder
from mucon.configuration import DEFAULT_METHOD, field_types, parse_settings
from mucon.errors import EXIT_OK, DataWarning, InputError, Problem

if TYPE_CHECKING:
    from mucon.commands.parser import Commands
    from mucon.configuration import Config
    from mucon.training import EpochReport
    from storage import Store

DESCRIPTION = """\
Trains a model on the training part of a split. A recipe is a set of settings
(see `mucon recipes`). Press Ctrl-C to save a checkpoint and stop; run the same
command again to resume. The run folder also contains the numbers of each epoch
(history.jsonl) and the environment (environment.jsonl)."""
EXAMPLE = """\
example:
  mucon train weak --store stores/tug --out runs/tug --epochs 30 --set loss.smoothing=0.2"""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser("train", help="train a model on a store", description=DESCRIPTION, epilog=EXAMPLE)
    parser.add_argument("recipe", metavar="RECIPE", help=f"{', '.join(RECIPES)}; or one of the method's own recipes")
    add_method(parser)
    add_data(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="RUN", help="output directory; resumes if it already contains a run"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N",
        help="random seed for initialization, shuffling and dropout (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--epochs", type=int, metavar="N", help="number of epochs (default: the recipe's); the schedule scales with it"
    )
    add_settings(
        parser, "override a setting, such as loss.smoothing=0.2 (repeatable; `mucon recipes` lists all settings)"
    )
    parser.add_argument(
        "--hold-out-validation", action="store_true",
        help="leave the validation part of the split out, for `mucon evaluate --part validation`",
    )  # fmt: skip
    add_checkpoint_every(parser)
    add_device(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Trains, with progress on standard error."""
    if args.method == DEFAULT_METHOD and args.recipe not in RECIPES:  # refused before torch is imported
        raise InputError(_unknown_recipe(args, list(RECIPES)))
    from mucon.commands.context import backbones_of, context_lines
    from mucon.commands.history import HISTORY, STARTS, History
    from mucon.commands.printing import EpochPrinter
    from mucon.device import choose_device, training_line
    from mucon.method import training_of
    from mucon.methods import method_named
    from mucon.training.feed import residence_lines
    from mucon.videos import source_of, training_videos_of, vocabulary_of, warn_of_shared_groups
    from storage import open_store

    config = config_of(args)
    _check_folder(args.out, HISTORY, STARTS)
    store, device = open_store(args.store), choose_device(args.device)
    warn_of_shared_groups(store, args.split)
    scored = "validation" if args.hold_out_validation else "test"
    warn_of_models(config, store, args.split, scored, args.out)
    videos, vocabulary = training_videos_of(store, args.split, scored), vocabulary_of(store)
    method = method_named(args.method)
    config = method.for_videos(config, len(videos), _given(args))
    training = training_of(config)
    visited, history = method.visited(config, videos), History(args.out, device)
    residence = residence_lines(visited, device, training)
    with StopOnSignal() as stop, EpochPrinter(training.last_epoch, len(visited)) as printer:

        @functools.cache
        def start() -> None:
            n_parameters = method.n_parameters(config, videos, vocabulary)
            line = training_line(device, training.precision, n_videos=len(visited), n_parameters=n_parameters)
            context = context_lines(backbones_of([config]), videos, store.manifest.fps)
            print(line, *residence, *context, sep="\n", flush=True)
            history.start()

        def before_step() -> bool:
            start()  # once, when the training has checked its input
            printer.advance()
            return stop.requested()

        def after_epoch(report: EpochReport) -> None:
            printer.epoch(report)
            history.epoch(report)

        try:
            method.train(
                config,
                videos,
                vocabulary,
                folder=args.out,
                device=str(device),
                report=after_epoch,
                should_stop=before_step,
                source=source_of(store, args.split),
                checkpoint_seconds=args.checkpoint_every,
            )
        except InputError as error:
            raise InputError(with_way_out(problem, config, args.out) for problem in error.problems) from error
    _print_end(args)
    return EXIT_OK


def _check_folder(folder: Path, *files: str) -> None:
    """Checks that a run folder, and these files in it if they exist, may be written to."""
    check_run_folder(folder, "--out")
    for path in (folder / name for name in files):
        if path.exists():
            check_file(path, "--out")


def _print_end(args: argparse.Namespace) -> None:
    """Prints the shares of the background, if the run has them, its checkpoint, and the command that evaluates it."""
    from mucon.inference.background_shares import background_shares

    if (shares := background_shares(args.out)) is not None:
        print(shares)
        if (gap := shares.problem()) is not None:
            warnings.warn(DataWarning(gap), stacklevel=2)
    print(f"trained: {args.out / 'checkpoint'}")
    part = " --part validation" if args.hold_out_validation else ""
    print(f"next:    mucon evaluate {args.out} --store {shlex.quote(str(args.store))} --split {args.split}{part}")


def with_way_out(problem: Problem, config: Config, run: Path) -> Problem:
    """The problem of a finished run that is asked for other epochs, with a hint how to train further."""
    if (problem.rule, problem.value) != ("conflict", ("training.epochs",)):
        return problem
    if "training.warm_start" not in field_types(type(config)):
        return problem
    hint = f"to train further, start a run from its weights: --set training.warm_start={run} --out another folder"
    return dataclasses.replace(problem, hint=hint)


def warn_of_models(config: Config, store: Store, split: str, scored: str, run: Path) -> None:
    """Warns if a new run uses a model that has seen recordings of the part of the split that is scored."""
    from mucon.checkpoint_files import exists, of_run, trained_on
    from mucon.identity.trained_on import warn_if_seen
    from mucon.method import models_of
    from mucon.videos import videos_of

    if exists(run / "checkpoint") or (scored == "test" and f"{split}:test" not in store.parts):
        return
    for setting, folder in models_of(config).items():
        data = trained_on(of_run(Path(folder)))
        if data is not None:
            warn_if_seen(data, videos_of(store, split, scored), place=f"{setting}: {folder}")


def config_of(args: argparse.Namespace) -> Config:
    """The method's recipe, overridden by --seed, --epochs and --set, in this order.

    Raises:
        InputError: a recipe that the method does not have, unknown settings or wrong values.
    """
    from mucon.methods import method_named

    recipes = method_named(args.method).recipes
    if args.recipe not in recipes:
        raise InputError(_unknown_recipe(args, [name for name in recipes if name not in FORMER_RECIPES]))
    config: Config = recipes[args.recipe]().with_values(_given(args))
    return config


def _given(args: argparse.Namespace) -> dict[str, object]:
    """The settings of the command line by path."""
    epochs = {} if args.epochs is None else {"training.epochs": args.epochs}
    return {"seed": args.seed, **epochs, **parse_settings(args.settings)}


def _unknown_recipe(args: argparse.Namespace, names: Sequence[str]) -> Problem:
    expected = f"a recipe of {args.method}: {', '.join(names)}"
    return Problem(rule="unknown", place="RECIPE", value=args.recipe, expected=expected)


class StopOnSignal:
    """Context manager that turns the first SIGINT or SIGTERM into a request to stop; the second stops immediately."""

    def __init__(self) -> None:
        self._stopping = False

    def __enter__(self) -> Self:
        self._handlers = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        if self._stopping:
            raise KeyboardInterrupt
        self._stopping = True
        print("saving a checkpoint after this step; interrupt again to stop immediately", file=sys.stderr)

    def requested(self) -> bool:
        """Whether a signal was received."""
        return self._stopping
