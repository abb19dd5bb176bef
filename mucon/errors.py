"""What the library says when its input is wrong, and the exit statuses of the command lines."""

from __future__ import annotations

from collections.abc import Iterable

EXIT_OK = 0
EXIT_FAULT = 1
"""Our fault: a traceback follows."""
EXIT_INPUT = 2
"""The input is wrong: one line for each problem."""
EXIT_PARTIAL = 3
"""Part of the work failed; the rest is done."""
EXIT_INTERRUPTED = 130
"""Ctrl-C or SIGTERM; what was done is kept."""


class InputError(ValueError):
    """One or more problems of an input, each a line: the rule, the value, the place and what to do.

    Attributes:
        problems: the lines, in the order in which they were found.
    """

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


class DataWarning(UserWarning):
    """The data can be used, but perhaps not as their owner thinks."""


class Interrupted(Exception):
    """Training was asked to stop and has written a checkpoint from which the same bits go on."""


class Diverged(ArithmeticError):
    """Training met NaN or infinite values; the message names the epoch and what became so."""
