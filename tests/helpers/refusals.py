"""What a test says of a refused input: the rule that is broken, where, and by which value; never the sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mucon.errors import InputError, Problem

ANY: Any = object()


class Refusal:
    """The problems of a refused input, filled when the `with` block of `refused` ends."""

    problems: tuple[Problem, ...] = ()

    @property
    def rules(self) -> list[str]:
        """The broken rules, in order."""
        return [problem.rule for problem in self.problems]

    @property
    def places(self) -> list[str]:
        """Where each problem is."""
        return [problem.place for problem in self.problems]

    @property
    def values(self) -> list[object]:
        """What was found at each place."""
        return [problem.value for problem in self.problems]


def matching(problems: Iterable[Problem], rule: str, place: str = "", value: object = ANY) -> list[Problem]:
    """The problems of a rule whose place contains a text and whose value is the given one."""
    return [
        problem
        for problem in problems
        if problem.rule == rule and place in problem.place and (value is ANY or problem.value == value)
    ]


@contextmanager
def refused(
    rule: str, place: str = "", value: object = ANY, *, n: int | None = None, error: type[InputError] = InputError
) -> Iterator[Refusal]:
    """The block raises an `InputError` with such a problem.

    Args:
        rule: the broken rule.
        place: part of the problem's place.
        value: what was found there.
        n: number of all problems.
        error: the class that is raised.
    """
    refusal = Refusal()
    with pytest.raises(error) as raised:
        yield refusal
    refusal.problems = raised.value.problems
    assert matching(refusal.problems, rule, place, value), refusal.problems
    if n is not None:
        assert len(refusal.problems) == n, refusal.problems
    for problem in refusal.problems:
        assert problem.message or problem.expected, problem
