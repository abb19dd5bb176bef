"""`mucon import-weights`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.commands.options import RECIPES, add_settings
from mucon.commands.outputs import check_run_folder
from mucon.configuration import parse_settings
from mucon.errors import EXIT_OK, InputError, Problem

if TYPE_CHECKING:
    from mucon.commands.parser import Commands

DESCRIPTION = """\
Converts the authors' published weights to a run for `mucon evaluate` and
`mucon predict`. Nothing in the file is executed. The published program pools
after the layers 1, 2, 4, 8 (Hollywood Extended: 1, 2, 4, --recipe short_videos)."""
EXAMPLE = """\
example:
  mucon import-weights breakfast.trc runs/authors --mapping mapping.txt"""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "import-weights", help="import the authors' published weights", description=DESCRIPTION, epilog=EXAMPLE
    )
    parser.add_argument("file", type=Path, metavar="FILE.trc", help="weights saved by the authors' program")
    parser.add_argument("out", type=Path, metavar="RUN", help="output directory, new")
    parser.add_argument(
        "--recipe", choices=RECIPES, default="published_program", metavar="RECIPE",
        help="configuration of the run (default: published_program)",
    )  # fmt: skip
    parser.add_argument(
        "--mapping",
        type=Path,
        metavar="FILE",
        help="lines `id name` with the names of the actions (default: action_0, action_1, ...)",
    )
    add_settings(parser, "set what the file does not contain, such as backbone.pool_after=1,2,4 (repeatable)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Converts a published checkpoint to a run."""
    from mucon import checkpoint
    from mucon.methods.published_weights import import_published
    from mucon.recipes import RECIPES
    from storage.layouts.mapping import read_mapping

    check_run_folder(args.out, "RUN")
    if checkpoint.exists(args.out / "checkpoint"):
        hint = "choose another directory or remove it"
        raise InputError(Problem(rule="exists", place=str(args.out), message="already contains a run", hint=hint))
    config = RECIPES[args.recipe]().with_values(parse_settings(args.settings))
    actions = None if args.mapping is None else tuple(read_mapping(args.mapping).values())
    imported = import_published(args.file, config, actions)
    checkpoint.save(args.out / "checkpoint", imported)
    size = imported.model.size
    print(f"imported: {args.out / 'checkpoint'} ({size.dim} features, {size.n_actions} actions)")
    return EXIT_OK
