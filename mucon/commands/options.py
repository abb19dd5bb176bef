"""Options that several commands share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.configuration import DEFAULT_METHOD, parse_settings
from mucon.errors import DataWarning, InputError, Problem, some
from mucon.methods import METHODS
from mucon.training_config import CHECKPOINT_SECONDS
from storage.remote.addresses import place

if TYPE_CHECKING:
    from mucon.commands.parser import Parser
    from mucon.decoding.config import DecodingConfig
    from mucon.method import Predictor

FORMER_RECIPES = ("breakfast", "breakfast_full", "hollywood")
"""Aliases in `mucon.recipes.RECIPES`; accepted, but not listed."""


class RecipeNames(tuple[str, ...]):
    """The listed names; `in` accepts the former ones, too."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in FORMER_RECIPES


RECIPES = RecipeNames(("weak", "full", "short_videos", "demo", "published_program", "small", "best"))
"""Names of `mucon.recipes.RECIPES`, which imports torch."""
PREDICTIONS = ("frames", "segments", "full")
"""Equals `mucon.inference.PREDICTIONS`, which imports torch."""
FORMATS = ("txt", "csv", "json", "vtt", "tsv")
"""Files of predictions, see `mucon.outputs.formats`, which imports torch."""
PICTURES = ("png", "svg", "pdf")
"""Equals `mucon.plots.SUFFIXES`, which imports torch."""
TASKS = ("segmentation", "alignment")
"""Equals `mucon.inference.TASKS`, which imports torch."""


def add_method(parser: Parser) -> None:
    """Adds --method."""
    parser.add_argument(
        "--method",
        choices=tuple(METHODS),
        default=DEFAULT_METHOD,
        help=f"{', '.join(METHODS)} (default: {DEFAULT_METHOD})",
    )


def add_run(parser: Parser, name: str = "RUN") -> None:
    """Adds the positional argument RUN, or MODEL."""
    parser.add_argument(
        "run_folder", type=Path, metavar=name,
        help="output directory of `mucon train`, exported folder, trial, or models:/NAME@ALIAS",
    )  # fmt: skip


def check_run(path: Path) -> Path:
    """The folder of a run or an exported model, which is fetched first if the path is the address of a registered one.

    Raises:
        InputError: no checkpoint there, with an explanation of what is there; or an address that cannot be fetched.
    """
    from mucon.checkpoint_files import STATE, exists, of_run
    from mucon.identity.checksums import has_sums
    from mucon.library import place_of
    from storage.constants import MANIFEST, VIDEOS

    path = place_of(path)
    if exists(of_run(path)) or has_sums(path):
        return path
    if not path.exists():
        message, hint = "no such run", "train one first with `mucon train`"
    elif path.is_file():
        near = (path.parent, path.parent.parent)
        message = "a file, expected a run folder"
        hint = next(
            (f"pass {folder}" for folder in near if exists(of_run(folder))), "`mucon import-weights` reads .trc"
        )
    elif (path / MANIFEST).is_file() and (path / VIDEOS).is_file():
        message, hint = "a feature store, expected a run folder", f"pass --store {path}"
    elif (path / "trials").is_dir():
        message, hint = "a results folder, expected a run folder", f"pass one of its trials, {path / 'trials'}/ID"
    else:
        runs = sorted(child for child in path.iterdir() if child.is_dir() and exists(of_run(child)))
        message = f"no checkpoint (neither it nor its folder checkpoint contains {STATE})"
        hint = f"pass one of its runs: {some(runs)}" if runs else "train one first with `mucon train`"
    raise InputError(Problem(rule="missing", place=str(path), value=str(path), message=message, hint=hint))


def add_data(parser: Parser) -> None:
    """Adds --store and --split."""
    parser.add_argument(
        "--store", type=place, required=True, help="folder or URI of a store (see `mucon store import --help`)"
    )
    parser.add_argument("--split", default="1", metavar="NAME", help="split of the store (default: 1)")


def add_device(parser: Parser) -> None:
    """Adds --device."""
    parser.add_argument(
        "--device", default="auto", metavar="NAME", help="cpu, cuda, cuda:N or auto, a GPU if present (default: auto)"
    )


def add_settings(parser: Parser | argparse._ArgumentGroup, text: str) -> None:
    """Adds the repeatable option --set."""
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="PATH=VALUE", help=text)


def add_checkpoint_every(parser: argparse._ActionsContainer) -> None:
    """Adds --checkpoint-every."""
    parser.add_argument(
        "--checkpoint-every", type=_seconds, default=CHECKPOINT_SECONDS, metavar="SECONDS",
        help=f"seconds between two checkpoints of a training (default: {CHECKPOINT_SECONDS:g}; 0: after every epoch)",
    )  # fmt: skip


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, at least 0, got {text!r}")
    return seconds


def add_decoding(parser: Parser) -> None:
    """Adds --set for the settings `decoding.*`."""
    add_settings(parser, "override a decoding setting of the run, such as decoding.beam=10 (repeatable)")


def warn_if_unfinished(run: Path, predictor: Predictor) -> None:
    """Warns about a run whose training has not finished."""
    progress = predictor.progress
    if not progress.finished:
        message = f"training has not finished ({progress.epoch} whole epochs)"
        hint = "run the same `mucon train` command to resume"
        _warn(Problem(rule="state", place=str(run), value=progress.epoch, message=message, hint=hint))


def warn_if_data_unknown(run: Path, predictor: Predictor) -> None:
    """Warns about a run that does not record its training data: scores on them cannot be recognised."""
    if predictor.trained_on is None:
        message = "does not record its training data; they may be among the scored recordings"
        _warn(Problem(rule="missing", place=str(run), message=message))


def _warn(problem: Problem) -> None:
    import warnings

    warnings.warn(DataWarning(problem), stacklevel=3)


def decoding_of(predictor: Predictor, settings: Sequence[str]) -> DecodingConfig | None:
    """Decoding settings of a run, overridden by those of the command line; None for a method that has none.

    Raises:
        InputError: an unknown setting, a wrong value, or a setting outside `decoding.`, which was fixed in training.
    """
    from mucon.methods import method_named

    values = parse_settings(settings)
    problems: list[Problem] = []
    try:
        changed = predictor.config.with_values(values)
    except InputError as error:
        problems += error.problems
    problems += [
        Problem(
            rule="state",
            place=path,
            value=value,
            message="cannot be changed after training",
            hint="train another run with it; --set accepts decoding.* here",
        )
        for path, value in values.items()
        if not path.startswith("decoding.") and path not in [problem.place for problem in problems]
    ]
    if problems:
        raise InputError(problems)
    return method_named(predictor.method).decoding(changed)
