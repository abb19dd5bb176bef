"""A search as data: which settings it varies, what it optimises, and how much it may train."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

from mucon.errors import InputError, Problem
from sweeps.service.spec.columns import MOF, Column
from sweeps.service.spec.problems import unknown
from sweeps.service.spec.recipe import DEMO, WEAK
from sweeps.service.spec.texts import name_problems, text_problems

if TYPE_CHECKING:
    from mucon.configuration import Config
    from sweeps.service.spec.recipe import Base

Sampler = Literal["tpe", "random", "grid", "cmaes", "nsga2"]
PARTS = ("validation",)
"""The parts of a split that a search may look at."""
When = Mapping[str, tuple[object, ...]]
"""Path of a choice of the same space -> the options with which a setting has an effect."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Numbers from `low` to `high`, all equally likely.

    Attributes:
        low: smallest value.
        high: largest value.
        step: distance of two neighbours, from `low`; None: any number.
        when: the other settings with which this one has an effect; by default it always has.
    """

    low: float
    high: float
    step: float | None = field(default=None, kw_only=True)
    when: When = field(default_factory=dict, kw_only=True, hash=False)


@dataclass(frozen=True, slots=True)
class LogUniform:
    """Numbers from `low` to `high`, above 0, whose logarithms are equally likely; see `Uniform`."""

    low: float
    high: float
    when: When = field(default_factory=dict, kw_only=True, hash=False)


@dataclass(frozen=True, slots=True)
class Integer:
    """Whole numbers from `low` to `high`, both included; see `Uniform`.

    Attributes:
        low: smallest value.
        high: largest value.
        step: distance of two neighbours, from `low`.
        log: whether their logarithms are equally likely; requires `step` 1 and `low` of at least 1.
        when: see `Uniform`.
    """

    low: int
    high: int
    step: int = field(default=1, kw_only=True)
    log: bool = field(default=False, kw_only=True)
    when: When = field(default_factory=dict, kw_only=True, hash=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values without order.

    Attributes:
        options: the values, at least one; None, texts, numbers, or lists of them.
        when: see `Uniform`.
    """

    options: tuple[object, ...]
    when: When = field(default_factory=dict, kw_only=True, hash=False)


Dimension = Uniform | LogUniform | Integer | Choice
Space = Mapping[str, Dimension]
"""Configuration path -> the values that a search tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A limit on a metric that a configuration has to keep.

    Attributes:
        column: the metric.
        at_most: largest allowed value, in the metric's own unit (fractions for percentages).
        at_least: smallest allowed value.

    Raises:
        InputError: no limit, or two.
    """

    column: Column
    at_most: float | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            message = f"expected either at_most or at_least for {self.column.metric}"
            raise InputError(Problem(rule="conflict", place="constraints", message=message))

    def violation(self, value: float) -> float:
        """By how much a value exceeds the limit; at most 0 if it keeps it."""
        if self.at_most is not None:
            return value - self.at_most
        assert self.at_least is not None  # checked in __post_init__
        return self.at_least - value


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search for the best configuration.

    It is judged on a validation part of the training recordings. Afterwards the best points are trained again on all
    training recordings with fresh seeds, and scored once on the test part.

    Attributes:
        name: identifier; names the sweep's folder and its run on the tracking server.
        title: caption.
        space: the settings that vary.
        objectives: the scores to optimise, each in the direction of its metric; several lead to a Pareto front.
        constraints: limits that a point has to keep.
        base: function without arguments that returns the configuration on which the points build; it is the first
            point.
        demo_base: the same for the demo recordings.
        trials: number of points.
        demo_trials: the same for the demo recordings.
        seeds: largest number of seeds per point; a point that is not promising gets fewer.
        sampler: `tpe`, `random`, `grid`, `cmaes`, or `nsga2` for several objectives.
        sampler_seed: seed of the sampler.
        rungs: shares of a training, ascending and below 1, after which points that are not promising stop; each lies
            after the drop of the learning rate.
        best: number of points that are trained again at the end.
        fresh_seeds: number of their seeds.
        splits: the splits of the store; a point's score is its mean over them.
        part: `validation`; the test part is looked at once, after the search.

    Raises:
        InputError: an empty or contradictory space, a wrong number, another part, a name that no file can have, or a
            text that cannot be shown.
    """

    name: str
    title: str
    space: Space
    objectives: tuple[Column, ...] = (MOF,)
    constraints: tuple[Bound, ...] = ()
    base: Base = WEAK
    demo_base: Base = DEMO
    trials: int = 20
    demo_trials: int = 8
    seeds: int = 3
    sampler: Sampler = "tpe"
    sampler_seed: int = 1
    rungs: tuple[float, ...] = ()
    best: int = 3
    fresh_seeds: int = 5
    splits: tuple[str, ...] = ("1",)
    part: str = PARTS[0]

    def __post_init__(self) -> None:
        problems = [*name_problems("name", self.name), *text_problems("title", self.title)]
        problems += [problem for path in self.space for problem in space_problems(self.space, path)]
        for name in ("trials", "demo_trials", "seeds", "best", "fresh_seeds"):
            if getattr(self, name) < 1:
                problems.append(Problem(rule="range", place=name, value=getattr(self, name), expected="at least 1"))
        if not self.space:
            problems.append(Problem(rule="missing", place="space", message=f"{self.name} varies no setting"))
        if not self.objectives:
            problems.append(Problem(rule="missing", place="objectives", message=f"{self.name} has no objective"))
        if self.part not in PARTS:
            problems.append(other_part("part", self.part))
        if self.sampler not in get_args(Sampler):
            problems.append(unknown("sampler", "sampler", self.sampler, get_args(Sampler)))
        if list(self.rungs) != sorted(set(self.rungs)) or not all(0 < rung < 1 for rung in self.rungs):
            expected = "ascending shares between 0 and 1"
            problems.append(Problem(rule="range", place="rungs", value=list(self.rungs), expected=expected))
        if problems:
            raise InputError(problems)


def other_part(place: str, part: object) -> Problem:
    """The problem of a search that is to look at another part than the validation part."""
    message = f"a search is judged on the validation part, not on the part {part!r}"
    hint = "leave it out; the best points are scored on the test part at the end"
    return Problem(rule="conflict", place=place, value=part, message=message, hint=hint)


def space_problems(space: Space, path: str) -> Iterator[Problem]:
    """What is wrong with a dimension of a space.

    Args:
        space: the whole space.
        path: configuration path of the dimension.
    """
    one, place = space[path], f"space.{path}"
    if path == "seed":
        message = "a search sets the seed of each trial"
        yield Problem(rule="conflict", place=place, value=path, message=message, hint="use seeds")
    if isinstance(one, Choice):
        if not one.options:
            yield Problem(rule="missing", place=place, message="no option")
        if len({repr(option) for option in one.options}) < len(one.options):
            yield Problem(rule="duplicate", place=place, value=list(one.options), message="duplicate option")
    elif not (math.isfinite(one.low) and math.isfinite(one.high) and one.low <= one.high):
        yield Problem(rule="range", place=place, value=[one.low, one.high], expected="two numbers, low <= high")
    elif (isinstance(one, LogUniform) or (isinstance(one, Integer) and one.log)) and one.low <= 0:
        yield Problem(rule="range", place=place, value=one.low, expected="above 0, as it varies by its logarithm")
    elif isinstance(one, Uniform | Integer) and one.step is not None and one.step <= 0:
        yield Problem(rule="range", place=f"{place}.step", value=one.step, expected="above 0")
    elif isinstance(one, Integer) and one.log and one.step != 1:
        yield Problem(
            rule="conflict", place=f"{place}.step", value=one.step, expected="1, as it varies by its logarithm"
        )
    yield from _condition_problems(space, path)


def _condition_problems(space: Space, path: str) -> Iterator[Problem]:
    place = f"space.{path}.when"
    for other, options in space[path].when.items():
        condition = space.get(other)
        if other == path or not isinstance(condition, Choice):
            expected = "a choice of the same space"
            yield Problem(rule="unknown", place=place, value=other, expected=expected)
        elif missing := [option for option in options if option not in condition.options]:
            yield Problem(rule="unknown", place=place, value=missing, expected=f"options of {other}")
        elif _needs(space, other, path):
            yield Problem(rule="conflict", place=place, value=other, message=f"{path} and {other} depend on each other")


def _needs(space: Space, path: str, other: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a dimension has an effect only with certain values of another, directly or through others."""
    above = set(space[path].when) - seen if path in space else set()
    return other in above or any(_needs(space, one, other, seen | above) for one in above)


def value_problems(space: Space, path: str, base: Config) -> Iterator[Problem]:
    """What a configuration refuses of a dimension's values; of a range, the ends and the middle are tried.

    Args:
        space: the whole space.
        path: configuration path of the dimension.
        base: configuration on which the points build.
    """
    one = space[path]
    if isinstance(one, Choice):
        values = one.options
    else:
        middle = one.low + (one.high - one.low) / 2
        values = (one.low, one.high, int(middle) if isinstance(one, Integer) else middle)
    for value in values:
        try:
            base.with_values({path: value})
        except InputError as error:
            own = [problem for problem in error.problems if problem.place == path]
            yield from (replace(problem, place=f"space.{path}") for problem in own[:1])
            if own:
                return


def active_paths(space: Space, settings: Mapping[str, object]) -> tuple[str, ...]:
    """The dimensions that have an effect with some settings, in the order of the space.

    >>> space = {"a": Choice(("x", "y")), "b": Uniform(0, 1, when={"a": ("x",)})}
    >>> active_paths(space, {"a": "x"}), active_paths(space, {"a": "y", "b": 0.5})
    (('a', 'b'), ('a',))
    """

    def is_active(path: str) -> bool:
        return all(is_active(other) and settings.get(other) in options for other, options in space[path].when.items())

    return tuple(path for path in space if is_active(path))
