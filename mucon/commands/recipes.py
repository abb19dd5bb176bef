"""`mucon recipes`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mucon.commands.options import add_method
from mucon.configuration import flatten, setting_text
from mucon.errors import EXIT_OK

if TYPE_CHECKING:
    from mucon.commands.parser import Commands

DESCRIPTION = "Lists what each recipe changes, and every setting with its default."
EXAMPLE = """\
example:
  mucon recipes"""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "recipes", help="list the recipes and all settings", description=DESCRIPTION, epilog=EXAMPLE
    )
    add_method(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints recipes and settings."""
    from mucon.methods import method_named

    method = method_named(args.method)
    for name, recipe in method.recipes.items():
        summary = (recipe.__doc__ or "").strip().splitlines()[0]
        print(f"{name}: {summary}")
        for path, value in recipe().differences().items():
            print(f"    {path} = {setting_text(value)}")
    print("\nsettings (--set PATH=VALUE) and their defaults:")
    for path, value in flatten(method.config().to_dict()).items():
        print(f"    {path} = {setting_text(value)}")
    return EXIT_OK
