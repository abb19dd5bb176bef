"""Errors and warnings of the library, and the exit statuses of the command lines."""

from __future__ import annotations

from storage.errors import (
    EXIT_FAULT,
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PARTIAL,
    InputError,
    Problem,
    RangeRule,
    Rule,
    check_ranges,
    condensed,
    counted,
    nearest,
    some,
)

__all__ = [
    "EXIT_FAULT",
    "EXIT_INPUT",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_PARTIAL",
    "DataWarning",
    "Diverged",
    "InputError",
    "Interrupted",
    "Problem",
    "RangeRule",
    "Rule",
    "check_ranges",
    "condensed",
    "counted",
    "nearest",
    "some",
]


class DataWarning(UserWarning):
    """The data are usable but look suspicious.

    Attributes:
        problem: what looks suspicious.
    """

    def __init__(self, problem: Problem | str) -> None:
        self.problem = Problem(rule="state", message=problem) if isinstance(problem, str) else problem
        super().__init__(str(self.problem))


class Interrupted(Exception):
    """Training was asked to stop and has written a checkpoint from which it resumes with the same bits."""


class Diverged(ArithmeticError):
    """Training produced NaN or infinite values; the message names the epoch and the value."""
