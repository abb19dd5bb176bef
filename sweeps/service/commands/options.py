"""Options and values that several commands share."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import sweeps
from mucon.errors import InputError, Problem
from sweeps.service.spec.seeds import UNTIL, SeedRule
from sweeps.service.text import HIDDEN

if TYPE_CHECKING:
    from rich.console import Console

    from sweeps.service.spec.experiment import Collection, Experiment
    from sweeps.service.spec.search import Search
    from sweeps.service.trials.results_folder import ResultsFolder

TRACKING = ("on", "off")
WIDTH = 160
"""Characters per line in a file or a pipe."""


def new_console() -> Console:
    """A console as wide as the terminal, or wide enough for a table if the output is no terminal."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=WIDTH)


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """Returns what reads a whole number of an option.

    Args:
        least: smallest value.
        most: largest value; None without a limit.
    """

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            limit = f"at least {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"expected a whole number, {limit}, got {text!r}")
        return int(text)

    return number


def add_results(parser: argparse._ActionsContainer) -> None:
    """Adds `--results`."""
    parser.add_argument(
        "--results", type=Path, default=Path("results"), metavar="DIR", help="results folder (default: results)"
    )


def add_tracking_uri(parser: argparse._ActionsContainer) -> None:
    """Adds `--tracking-uri`."""
    parser.add_argument(
        "--tracking-uri", metavar="URI", help="MLflow server (default: an SQLite file in the results folder)"
    )


def add_cluster(parser: argparse._ActionsContainer) -> None:
    """Adds `--cluster`."""
    parser.add_argument(
        "--cluster", metavar="URL", help="of the sweeps that were sent with --submit to this dashboard, not of a folder"
    )


def add_budget(parser: argparse._ActionsContainer, default: str = "") -> None:
    """Adds the limits of a sweep, which the environment variables of `CAPS` cap.

    Args:
        parser: parser or group.
        default: the limits without the options; by default none.
    """
    none, everything = default or "none", default or "all"
    option = parser.add_argument
    option("--time-budget", metavar="TIME", help=f"wall time of this command: 90s, 30m, 1.5h or 2d (default: {none})")
    option("--gpu-hours", metavar="H", help=f"GPU-hours of the sweep over all its commands (default: {none})")
    option("--cpu-hours", metavar="H", help=f"core-hours of the sweep over all its commands (default: {none})")
    option("--max-trials", metavar="N", help=f"trainings of the sweep, including finished ones (default: {everything})")


def add_seeds(parser: argparse._ActionsContainer, default: int | SeedRule) -> None:
    """Adds `--seeds` and `--until`, see `read_seeds`.

    Args:
        parser: parser or group.
        default: number of seeds without the option, or the rule for them.
    """
    option, until = parser.add_argument, UNTIL if isinstance(default, int) else default.until
    option(
        "--seeds",
        metavar="N",
        help="seeds 1 to N; or auto:MIN..MAX, such as auto:3..15: each row gets seeds until it is clear whether it "
        f"differs from the default row (default: {default})",
    )
    option(
        "--until",
        metavar="X",
        help="with --seeds auto: a row is also clear once it is shown to differ by at most X points of the first "
        f"compared column, as the table prints them (default: {until:g})",
    )


def tracking_uri(given: str | None, results: ResultsFolder) -> str:
    """Address of the tracking server.

    Args:
        given: value of the option; by default the environment variable, else a file in the results folder.
        results: the results folder.
    """
    return given or os.environ.get("MLFLOW_TRACKING_URI") or results.tracking_uri


def add_tracking(parser: argparse._ActionsContainer) -> None:
    """Adds `--tracking`."""
    parser.add_argument(
        "--tracking",
        choices=TRACKING,
        help="off: train without MLflow; `mucon-sweeps sync` or the same command ships it later "
        "(default: $MUCON_TRACKING or on)",
    )


def is_tracking(given: str | None, uri: str | None = None) -> bool:
    """Whether trials are tracked.

    Args:
        given: value of the option; by default the environment variable, else on.
        uri: value of `--tracking-uri`.

    Raises:
        InputError: another value in the environment variable, or an address without tracking.
    """
    if given == "off" and uri is not None:
        message = "--tracking off uses no server; leave one of the two out"
        raise InputError(Problem(rule="conflict", place="--tracking-uri", value=HIDDEN, message=message))
    value = given or os.environ.get("MUCON_TRACKING") or TRACKING[0]
    if value not in TRACKING:
        raise InputError(Problem(rule="unknown", place="MUCON_TRACKING", value=value, expected=" or ".join(TRACKING)))
    return value == TRACKING[0]


def experiment_names() -> list[str]:
    """The names of the package's experiments: its modules besides `api`; none is imported."""
    modules = (module.name for module in pkgutil.iter_modules(sweeps.__path__) if not module.ispkg)
    return [name for name in modules if name != "api" and not name.startswith("_")]


def experiment_named(name: str) -> Experiment | Collection | Search:
    """An experiment of the package: the value `EXPERIMENT` of its module."""
    experiment: Experiment | Collection | Search = importlib.import_module(f"sweeps.{name}").EXPERIMENT
    return experiment


def experiments() -> dict[str, Experiment | Collection | Search]:
    """All experiments of the package, by name; imports them."""
    return {name: experiment_named(name) for name in experiment_names()}
