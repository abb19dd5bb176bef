"""The options that only a search has."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import Any, get_args

from mucon.errors import InputError
from sweeps.service.commands.options import at_least
from sweeps.service.spec.search import PARTS, Sampler, Search, other_part

STORAGE = "MUCON_STUDY_STORAGE"
"""Variable with the address of the database for studies, which may contain a password."""
SEED_LIMIT = 2**32 - 1
"""Largest seed of a sampler."""


def add_search(group: argparse._ActionsContainer, search: Search) -> None:
    """Adds the options of a search's script.

    Args:
        group: parser or group.
        search: the search, whose values are the defaults.
    """
    option = group.add_argument
    rungs = " ".join(f"{rung:g}" for rung in search.rungs) or "none"
    option("--trials", type=at_least(1), metavar="N", help=f"number of points (default: {search.trials})")
    option(
        "--seeds",
        type=at_least(1),
        metavar="N",
        help=f"largest number of seeds per point; a point that is not promising gets fewer (default: {search.seeds})",
    )
    option("--sampler", choices=get_args(Sampler), help=f"chooses the points (default: {search.sampler})")
    option(
        "--sampler-seed",
        type=at_least(0, SEED_LIMIT),
        metavar="N",
        help=f"seed of the sampler (default: {search.sampler_seed})",
    )
    option(
        "--rungs",
        nargs="*",
        type=float,
        metavar="SHARE",
        help="shares of a training after which points that are not promising stop; none without a value "
        f"(default: {rungs})",
    )
    option(
        "--best",
        type=at_least(1),
        metavar="K",
        help=f"points that are trained again at the end, on the whole training part (default: {search.best})",
    )
    option(
        "--fresh-seeds",
        type=at_least(1),
        metavar="N",
        help=f"seeds of these trainings, which no point has used (default: {search.fresh_seeds})",
    )
    option(
        "--warm-start",
        nargs="+",
        default=[],
        metavar="NAME",
        help="sweeps or searches of the results folder whose scores on the validation part the search starts from",
    )
    option(
        "--study-storage",
        metavar="URL",
        help="database for the study of Optuna, such as postgresql+psycopg2://USER@HOST/NAME "
        f"(default: ${STORAGE}, else a file in the folder of the search)",
    )
    option("--part", default=search.part, help=argparse.SUPPRESS)


def study_storage(options: argparse.Namespace) -> str | None:
    """The address of the database for the study; None: a file. It may contain a secret."""
    return options.study_storage or os.environ.get(STORAGE) or None


def asked_search(search: Search, options: argparse.Namespace) -> Search:
    """The search with the values that the options give; without a store, the numbers of the demo.

    Raises:
        InputError: a wrong value, or another part than the validation part.
    """
    if options.part not in PARTS:
        raise InputError(other_part("--part", options.part))
    names = ("seeds", "sampler", "sampler_seed", "best", "fresh_seeds", "name")
    values: dict[str, Any] = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    values["trials"] = options.trials or (search.demo_trials if options.store is None else search.trials)
    if options.rungs is not None:
        values["rungs"] = tuple(options.rungs)
    return replace(search, **values)
