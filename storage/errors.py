"""What the store says when a data set, a store or a request is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class StoreError(ValueError):
    """One or more problems, each a line: the rule, the value, the place and what to do.

    Attributes:
        problems: the lines, in the order in which they were found.
    """

    def __init__(self, problems: str | Iterable[str]) -> None:
        lines = (problems,) if isinstance(problems, str) else tuple(problems)
        # Other libraries' messages, which some lines quote, have line ends of their own.
        self.problems: tuple[str, ...] = tuple(" ".join(line.splitlines()) for line in lines)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[StoreError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


def nearest(name: str, known: Sequence[str]) -> str:
    """` (did you mean 'a', 'b'?)` with the known names nearest to `name`, or nothing.

    >>> nearest("pour_mlik", ["pour_milk", "stir"])
    " (did you mean 'pour_milk'?)"
    """
    matches = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f" (did you mean {', '.join(repr(match) for match in matches)}?)" if matches else ""


def some(names: Iterable[object], limit: int = 5) -> str:
    """The first names and how many more there are.

    >>> some(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    listed = [str(name) for name in names]
    rest = len(listed) - limit
    return ", ".join(listed[:limit]) + (f" and {rest} more" if rest > 0 else "")
