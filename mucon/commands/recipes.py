"""`mucon recipes`."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mucon.commands.options import add_method
from mucon.configuration import expected_text, field_texts, field_types, flatten, setting_text
from mucon.errors import EXIT_OK

if TYPE_CHECKING:
    from mucon.commands.parser import Commands
    from mucon.method import Method

DESCRIPTION = """\
Lists the recipes, which are sets of settings, with what each one changes, and
every setting with its default. --explain adds what the settings mean and which
values they take."""
EXAMPLE = """\
examples:
  mucon recipes
  mucon recipes --method ms_tcn --explain"""

INDENT = " " * 8


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "recipes", help="list the recipes and all settings", description=DESCRIPTION, epilog=EXAMPLE
    )
    add_method(parser)
    parser.add_argument("--explain", action="store_true", help="show meaning and values of each setting")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints recipes and settings."""
    from mucon.methods import method_named

    method = method_named(args.method)
    print_recipes(method)
    texts, kinds = field_texts(method.config), field_types(method.config)
    print("\nsettings (--set PATH=VALUE) and their defaults:")
    for path, value in flatten(method.config().to_dict()).items():
        print(f"    {path} = {setting_text(value)}")
        if args.explain:
            for line in (texts[path], f"Values: {expected_text(kinds[path])}."):
                print(textwrap.fill(line, 100, initial_indent=INDENT, subsequent_indent=INDENT))
    return EXIT_OK


def print_recipes(method: Method[Any]) -> None:
    """Prints each recipe with its former names and what it changes."""
    names: dict[Callable[[], Any], list[str]] = {}
    for name, recipe in method.recipes.items():
        names.setdefault(recipe, []).append(name)
    for recipe, (name, *former) in names.items():
        alias = f" (formerly {', '.join(former)})" if former else ""
        print(f"{name}{alias}: {(recipe.__doc__ or '').strip().splitlines()[0]}")
        for path, value in recipe().differences().items():
            print(f"    {path} = {setting_text(value)}")
