"""An argument parser that raises problems as values and suggests the nearest names for typos."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from mucon import NUMERICS
from mucon.errors import InputError, Problem, nearest

Command = Callable[[argparse.Namespace], int]
"""Runs a command and returns the exit status."""
NUMBERS: dict[object, str] = {int: "a whole number", float: "a number"}

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks and wraps long lines of prose, which begin with a capital; commands to copy stay whole."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap  # as argparse does, for a quick start

        lines = super()._fill_text(text, width, indent).splitlines()
        return "\n".join(textwrap.fill(line, width) if line[:1].isupper() else line for line in lines)


class Parser(argparse.ArgumentParser):
    """Raises `InputError` where `argparse` prints the usage and exits; `--help` still prints and exits.

    Subparsers are of the same class.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter} | options, exit_on_error=False)

    def parse(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        """Parses a whole command line.

        Args:
            arguments: default: those of the process.

        Raises:
            InputError: unknown, missing or malformed arguments.
        """
        parsed: argparse.Namespace
        parsed, rest = self.parse_known_args(arguments)
        if rest:
            raise InputError(
                Problem(rule="unknown", place=word, value=word, message="unexpected argument") for word in rest
            )
        return parsed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Checks the options' names before anything else, then parses.

        Raises:
            InputError: unknown options, missing or malformed arguments.
        """
        words = list(sys.argv[1:] if args is None else args)
        self._check_options(words)
        try:
            return super().parse_known_args(words, namespace)
        except argparse.ArgumentError as error:
            if error.argument_name is None:
                self.error(error.message)
            raise InputError(Problem(rule="type", place=error.argument_name, message=error.message)) from None

    def error(self, message: str) -> NoReturn:
        """Called by `argparse` where required arguments are missing.

        Raises:
            InputError: always.
        """
        raise InputError(Problem(rule="missing", message=message, hint=f"see `{self.prog} --help`"))

    def _check_options(self, words: Sequence[str]) -> None:
        """Raises a problem per unknown or incomplete option; without it a missing argument hides a misspelt option."""
        if self._subparsers is not None:
            words = list(itertools.takewhile(lambda word: word.startswith("-"), words))
        options = list(self._option_string_actions)
        if any(action.nargs == argparse.REMAINDER for action in self._actions):
            return  # the rest belongs to another parser
        problems = []
        for word in itertools.takewhile(lambda word: word != "--", words):
            name = word.partition("=")[0]
            matches = [option for option in options if option.startswith(name)]
            if not name.startswith("--") or " " in word or name in options:
                continue
            if len(matches) == 1 and self.allow_abbrev:
                continue
            message = (
                f"incomplete option: {' or '.join(matches)}" if matches else f"unknown option{nearest(name, options)}"
            )
            hint = f"see `{self.prog} --help`"
            problems.append(Problem(rule="unknown", place=name, value=name, message=message, hint=hint))
        if problems:
            raise InputError(problems)

    def _match_arguments_partial(self, actions: Sequence[argparse.Action], arg_strings_pattern: str) -> list[int]:
        """Leaves a list of any length for later if it would be empty and options follow, as its words may too."""
        counts: list[int] = super()._match_arguments_partial(actions, arg_strings_pattern)
        while "O" in arg_strings_pattern and counts and not counts[-1] and actions[len(counts) - 1].nargs == "*":
            counts.pop()
        return counts

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Replaces `argparse`'s message for a value that is not among the choices, commands included."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        message = f"expected one of {', '.join(choices)}, got {value!r}{nearest(str(value), choices)}"
        raise InputError(Problem(rule="unknown", place=_place(action), value=value, message=message))

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Replaces `argparse`'s message for a text that is no number."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in NUMBERS:
                raise
            expected = NUMBERS[action.type]
            raise InputError(Problem(rule="type", place=_place(action), value=arg_string, expected=expected)) from None


def _place(action: argparse.Action) -> str:
    return "/".join(action.option_strings) or str(action.metavar or action.dest)


def add_version(parser: Parser) -> None:
    """Adds --version."""
    parser.add_argument("--version", action=Version, nargs=0, help="print the version of mucon and of its numerics")


class Version(argparse.Action):
    """Prints the version of the package and of the numerics, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Imports `importlib.metadata` here because it takes longer than the rest of the start."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            release = version("mucon")
        except PackageNotFoundError:
            release = "(not installed)"
        print(f"{parser.prog} {release}, numerics {NUMERICS}")
        parser.exit()
