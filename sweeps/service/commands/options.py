"""What several commands share: consoles, addresses and the experiments of the package."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

import sweeps

if TYPE_CHECKING:
    from sweeps.service.spec.experiment import Collection, Experiment
    from sweeps.service.trials.results_folder import ResultsFolder

WIDTH = 160
"""Characters of a line in a file or a pipe."""


def new_console() -> Console:
    """A console as wide as the terminal; without one, lines are long enough for a table."""
    return Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=WIDTH)


def add_results(parser: argparse.ArgumentParser) -> None:
    """Adds `--results`."""
    parser.add_argument(
        "--results", type=Path, default=Path("results"), metavar="DIR", help="results folder (default: results)"
    )


def add_tracking_uri(parser: argparse.ArgumentParser) -> None:
    """Adds `--tracking-uri`."""
    parser.add_argument(
        "--tracking-uri", metavar="URI", help="MLflow server (default: an SQLite file in the results folder)"
    )


def tracking_uri(given: str | None, results: ResultsFolder) -> str:
    """The address of the tracking server: the given one, MLflow's variable, or a file in the results folder."""
    return given or os.environ.get("MLFLOW_TRACKING_URI") or results.tracking_uri


def experiments() -> dict[str, Experiment | Collection]:
    """The experiments of the package `sweeps`, by name: each module's `EXPERIMENT`."""
    from sweeps.service.spec.experiment import Collection, Experiment

    named: dict[str, Experiment | Collection] = {}
    for module in pkgutil.iter_modules(sweeps.__path__):
        if not module.ispkg and not module.name.startswith("_"):
            value = getattr(importlib.import_module(f"sweeps.{module.name}"), "EXPERIMENT", None)
            if isinstance(value, Experiment | Collection):
                named[value.name] = value
    return named
