"""How many seeds each row of a sweep gets, where its results decide."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from mucon.errors import InputError, Problem

UNTIL = 1.0
"""Points within which a row counts as equivalent, unless the command says otherwise."""
_RANGE = re.compile(r"auto:([0-9]{1,4})\.\.([0-9]{1,4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRule:
    """Seeds row by row, until it is known whether and how the row differs from the default row.

    Attributes:
        least: seeds of every row, at least 2.
        most: seeds of a row that is not known after fewer.
        until: largest difference that does not matter, in the points of the table's first tested column.
    """

    least: int
    most: int
    until: float = UNTIL

    def __str__(self) -> str:
        return f"auto:{self.least}..{self.most}"


class Seeds(NamedTuple):
    """The value of `--seeds`.

    Attributes:
        most: the largest seed, from 1.
        rule: decides which of them each row gets; None: all.

    >>> str(Seeds(5)), str(Seeds(15, SeedRule(least=3, most=15)))
    ('5 seeds', '3 to 15 seeds per row')
    """

    most: int
    rule: SeedRule | None = None

    @property
    def given(self) -> int | str:
        """The value for the record of a sweep."""
        return self.most if self.rule is None else f"{self.rule} until {self.rule.until:g}"

    def __str__(self) -> str:
        return f"{self.most} seeds" if self.rule is None else f"{self.rule.least} to {self.most} seeds per row"


def read_seeds(text: str, until: str | None, *, places: tuple[str, str] = ("--seeds", "--until")) -> Seeds:
    """The values of `--seeds` and `--until`, or of the keys of a file.

    >>> read_seeds("5", None)
    Seeds(most=5, rule=None)
    >>> read_seeds("auto:3..15", "0.5")
    Seeds(most=15, rule=SeedRule(least=3, most=15, until=0.5))

    Args:
        text: the seeds.
        until: the points; None: as many as by default.
        places: names of both for problems.

    Raises:
        InputError: neither a number of seeds nor a range; no number of points, or points without a range.
    """
    problems: list[Problem] = []
    of_seeds, of_until = places
    found = _RANGE.fullmatch(text)
    least, most = map(int, found.groups()) if found else (1, int(text) if text.isdecimal() else 0)
    if not (2 if found else 1) <= least <= most:
        expected = "a whole number, at least 1, or auto:MIN..MAX with 2 <= MIN <= MAX, such as auto:3..15"
        problems.append(Problem(rule="range", place=of_seeds, value=text, expected=expected))
    points = UNTIL
    if until is not None:
        try:
            points = float(until)
        except ValueError:
            points = math.nan
        if not 0 < points < math.inf:
            problems.append(Problem(rule="range", place=of_until, value=until, expected="a number of points above 0"))
        elif text.isdecimal():
            message, hint = f"all rows have {text} seeds", "leave it out, or use --seeds auto:3..15"
            problems.append(Problem(rule="conflict", place=of_until, value=until, message=message, hint=hint))
    if problems:
        raise InputError(problems)
    return Seeds(most, SeedRule(least=least, most=most, until=points) if found else None)
