"""Problems of an input as values, the errors that carry them, and the exit statuses of the command lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

EXIT_OK = 0
EXIT_FAULT = 1
"""Internal error; a traceback is printed."""
EXIT_INPUT = 2
"""Invalid input; one line per problem is printed."""
EXIT_PARTIAL = 3
"""Part of the work failed; the rest is done."""
EXIT_INTERRUPTED = 130
"""Ctrl-C or SIGTERM; finished work is kept."""

Rule = Literal[
    "missing",  # something required is absent
    "unknown",  # a name that does not exist; `hint` lists the nearest ones
    "duplicate",  # something that must be unique occurs more than once
    "type",  # a value of another type
    "range",  # a value outside its range
    "shape",  # an array or list of another shape or length
    "mismatch",  # two parts of an input contradict each other
    "conflict",  # two choices exclude each other
    "unreadable",  # a file that cannot be opened or parsed
    "unwritable",  # a file or folder that cannot be written
    "damaged",  # a file of this project whose content is incomplete or fails its checksum
    "version",  # a file of another format version
    "exists",  # a target that exists and would be overwritten
    "busy",  # a resource that another process holds
    "unreachable",  # a server that does not answer
    "unsupported",  # a valid request that this machine or format cannot serve
    "state",  # an operation that the current state does not allow
]
"""The rule that an input breaks. Programs and tests read it; people read the sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error in an input.

    `str()` returns the sentence `PLACE: MESSAGE; HINT`. The default message is `expected EXPECTED, got VALUE`.

    Attributes:
        rule: broken rule.
        place: file with its line, setting, option, video or array.
        value: value at that place; None for a missing one.
        expected: allowed values.
        message: replaces the default message.
        hint: how to solve the problem, if that is not obvious.

    >>> str(Problem(rule="range", place="training.epochs", value=0, expected="at least 1"))
    'training.epochs: expected at least 1, got 0'
    >>> print(Problem(rule="duplicate", place="map.txt:3", value="x", message="duplicate action 'x'", hint="rename it"))
    map.txt:3: duplicate action 'x'; rename it
    """

    rule: Rule
    place: str = ""
    value: object = None
    expected: str = ""
    message: str = ""
    hint: str = ""

    @property
    def body(self) -> str:
        """The sentence without place and hint."""
        got = f"got {self.value!r}" if self.value is not None else "got nothing"
        return self.message or f"expected {self.expected}, {got}"

    def __str__(self) -> str:
        line = f"{f'{self.place}: ' if self.place else ''}{self.body}{f'; {self.hint}' if self.hint else ''}"
        return " ".join(line.split("\n"))  # messages of other libraries contain line breaks

    def under(self, place: object) -> Problem:
        """Returns the problem with an outer place in front of its own, such as the file of a key.

        >>> Problem(rule="unknown", place="seeds", value="x").under("mine.yaml").place
        'mine.yaml: seeds'
        """
        return replace(self, place=f"{place}: {self.place}" if self.place else str(place))


class InputError(ValueError):
    """An input is invalid.

    Attributes:
        problems: all problems, in the order of their detection; at least one.
    """

    def __init__(self, problems: Problem | str | Iterable[Problem | str]) -> None:
        items = (problems,) if isinstance(problems, Problem | str) else tuple(problems)
        self.problems: tuple[Problem, ...] = tuple(
            Problem(rule="state", message=item) if isinstance(item, str) else item for item in items
        )
        super().__init__("\n".join(map(str, self.problems)))

    @property
    def line(self) -> str:
        """All problems as one line of text."""
        return "; ".join(map(str, self.problems))

    def under(self, place: object) -> list[Problem]:
        """Returns the problems with an outer place, see `Problem.under`."""
        return [problem.under(place) for problem in self.problems]

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class StoreError(InputError):
    """A dataset, a store or a request to a store is invalid."""


RangeRule = tuple[str, object, str, bool]
"""Name of a setting, its value, the allowed range in words, and whether the value is in it."""


def check_ranges(prefix: str, rules: Iterable[RangeRule]) -> None:
    """Raises an error with one problem per value outside its range.

    Args:
        prefix: precedes each name in the problem's place, such as `training.`.
        rules: one for each setting.

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


def condensed(problems: Iterable[Problem], most: int = 3) -> list[Problem]:
    """Replaces more than `most` problems of one kind by one, which gives their number and the first `most` places.

    Problems of one kind have the same rule and the same hint. The order of the first ones is kept.

    >>> lines = [Problem(rule="type", place=f"map.txt:{n}", value="x", message="no id") for n in range(1, 49)]
    >>> print(*condensed(lines))
    map.txt:1: no id (and 47 more: map.txt:2 'x', map.txt:3 'x', ...)
    """
    found = list(problems)
    kinds: dict[tuple[str, str], list[Problem]] = {}
    for problem in found:
        kinds.setdefault((problem.rule, problem.hint), []).append(problem)
    kept = []
    for problem in found:
        first, *others = kinds[problem.rule, problem.hint]
        if len(others) < most:
            kept.append(problem)
        elif problem is first:
            examples = [
                f"{other.place} {other.value!r}" if isinstance(other.value, str) else other.place
                for other in others[: most - 1]
            ]
            message = f"{first.body} (and {len(others)} more: {', '.join(examples)}, ...)"
            kept.append(replace(first, message=message))
    return kept


def nearest(name: str, names: Sequence[str]) -> str:
    """Returns ` (did you mean 'a', 'b'?)` with up to three similar names, or an empty string.

    >>> nearest("pour_mlik", ["pour_milk", "stir"]), nearest("sil", ["stir", "SIL"])
    (" (did you mean 'pour_milk'?)", " (did you mean 'SIL'?)")
    """
    import difflib

    same = [other for other in names if other.casefold() == name.casefold()]
    matches = same or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f" (did you mean {', '.join(repr(match) for match in matches)}?)" if matches else ""


def some(names: Iterable[object], limit: int = 5) -> str:
    """Returns the first names, separated by commas, and the number of the others.

    >>> some(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    listed = [str(name) for name in names]
    rest = len(listed) - limit
    return ", ".join(listed[:limit]) + (f" and {rest} more" if rest > 0 else "")


def counted(number: int, singular: str, plural: str = "") -> str:
    """Returns a number with its noun; the default plural ends in s.

    >>> counted(1, "file"), counted(3, "file"), counted(0, "activity", "activities")
    ('1 file', '3 files', '0 activities')
    """
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"
