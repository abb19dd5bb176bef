"""Range checks of configurations."""

from __future__ import annotations

from collections.abc import Iterable

from mucon.errors import InputError, Problem


def check_ranges(prefix: str, rules: Iterable[tuple[str, object, str, bool]]) -> None:
    """Raises an error with one problem per value outside its range.

    Args:
        prefix: precedes each name in the problem's place, such as `training.`.
        rules: name, value, the allowed range in words, and whether the value is in it.

    Raises:
        InputError: at least one value is outside its range.

    >>> check_ranges("mask.", [("overlap", 2, "at least 0 and below 1", False)])
    Traceback (most recent call last):
    ...
    storage.errors.InputError: mask.overlap: expected at least 0 and below 1, got 2
    """
    problems = [
        Problem(rule="range", place=f"{prefix}{name}", value=value, expected=expected)
        for name, value, expected, valid in rules
        if not valid
    ]
    if problems:
        raise InputError(problems)
