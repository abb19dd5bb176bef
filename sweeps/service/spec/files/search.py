"""The key `search` of a sweep file: space and numbers of a search, with every problem at the place of its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args

from mucon.config import TrainConfig, field_types
from mucon.errors import Problem, Rule
from sweeps.service.spec.files.axes import check_keys, text_of
from sweeps.service.spec.files.metrics import columns_of
from sweeps.service.spec.problems import unknown
from sweeps.service.spec.search import (
    PARTS,
    Bound,
    Choice,
    Dimension,
    Integer,
    LogUniform,
    Sampler,
    Uniform,
    other_part,
    space_problems,
    value_problems,
)

NUMBERS = ("trials", "sampler_seed", "best", "fresh_seeds")
KEYS = ("space", "objectives", "constraints", "sampler", "rungs", "part", *NUMBERS)
RANGES = {"uniform": ("step", "when"), "loguniform": ("when",), "int": ("step", "log", "when")}
"""Key of a range -> the keys that it may have beside it."""
LIMITS = ("at_most", "at_least")


def search_of(problems: list[Problem], content: object, base: TrainConfig) -> dict[str, Any]:
    """The values of `Search` that the key contains, by their names there; meaningless if there are problems.

    Args:
        problems: is appended to.
        content: plain values.
        base: configuration on which the points build.
    """
    if not isinstance(content, Mapping):
        expected = "a mapping with a space, such as {space: {loss.smoothing: {uniform: [0, 1]}}}"
        problems.append(Problem(rule="type", place="search", value=content, expected=expected))
        return {}
    check_keys(problems, "search.", content, KEYS)
    values: dict[str, Any] = {"space": _space(problems, content.get("space"), base)}
    for name in NUMBERS:
        if name in content:
            values[name] = _whole(problems, content[name], f"search.{name}", least=0 if name == "sampler_seed" else 1)
    if "sampler" in content:
        values["sampler"] = text_of(problems, content, "sampler", "tpe", "search.")
        if values["sampler"] not in get_args(Sampler):
            problems.append(unknown("search.sampler", "sampler", values["sampler"], get_args(Sampler)))
    if content.get("part", PARTS[0]) not in PARTS:
        problems.append(other_part("search.part", content["part"]))
    if "rungs" in content:
        values["rungs"] = _rungs(problems, content["rungs"])
    if "objectives" in content:
        values["objectives"] = columns_of(problems, content["objectives"], "search.objectives")
    if "constraints" in content:
        values["constraints"] = tuple(_constraints(problems, content["constraints"]))
    return values


def _space(problems: list[Problem], content: object, base: TrainConfig) -> dict[str, Dimension]:
    if not isinstance(content, Mapping) or not content:
        expected = "settings with their values, such as {loss.smoothing: {uniform: [0, 1]}}"
        rule: Rule = "missing" if content is None or content == {} else "type"
        problems.append(Problem(rule=rule, place="search.space", value=content, expected=expected))
        return {}
    before = len(problems)
    known = field_types(TrainConfig)
    space = {}
    for path, one in content.items():
        if path not in known:
            hint = "`mucon recipes` lists all settings"
            problems.append(replace(unknown(f"search.space.{path}", "setting", path, known), hint=hint))
        elif dimension := _dimension(problems, one, f"search.space.{path}"):
            space[str(path)] = dimension
    if len(problems) == before:
        problems += [
            replace(problem, place=f"search.{problem.place}")
            for path in space
            for problem in list(space_problems(space, path)) or value_problems(space, path, base)
        ]
    return space


def _dimension(problems: list[Problem], content: object, place: str) -> Dimension | None:
    """The dimension that a list of options or a mapping describes; None if it is wrong."""
    before = len(problems)
    if isinstance(content, list):
        return Choice(tuple(content))
    kinds = [key for key in (*RANGES, "choice") if isinstance(content, Mapping) and key in content]
    if not isinstance(content, Mapping) or len(kinds) != 1:
        expected = "a list of options, or one of uniform, loguniform, int and choice, such as {uniform: [0, 1]}"
        problems.append(Problem(rule="type", place=place, value=content, expected=expected))
        return None
    (kind,) = kinds
    check_keys(problems, f"{place}.", content, (kind, *RANGES.get(kind, ("when",))))
    when = _when(problems, content.get("when"), f"{place}.when")
    values = content[kind]
    if kind == "choice":
        if not isinstance(values, list):
            expected = "a list of options, such as [box, bell]"
            problems.append(Problem(rule="type", place=f"{place}.choice", value=values, expected=expected))
            return None
        return Choice(tuple(values), when=when)
    numbers: tuple[type, ...] = (int,) if kind == "int" else (int, float)
    what = "whole numbers" if kind == "int" else "numbers"
    if not isinstance(values, list) or len(values) != 2 or not all(_is(value, numbers) for value in values):
        expected = f"two {what}, the smallest and the largest, such as [1, 8]"
        problems.append(Problem(rule="type", place=f"{place}.{kind}", value=values, expected=expected))
    if "step" in content and not _is(content["step"], numbers):
        problems.append(Problem(rule="type", place=f"{place}.step", value=content["step"], expected=what))
    if not isinstance(content.get("log", False), bool):
        problems.append(Problem(rule="type", place=f"{place}.log", value=content["log"], expected="true or false"))
    if len(problems) > before:
        return None
    more = {key: content[key] for key in ("step", "log") if key in content}
    made: dict[str, type[Uniform | LogUniform | Integer]] = {
        **{"uniform": Uniform, "loguniform": LogUniform, "int": Integer}
    }
    return made[kind](values[0], values[1], when=when, **more)


def _is(value: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _when(problems: list[Problem], content: object, place: str) -> dict[str, tuple[object, ...]]:
    if content is None:
        return {}
    if not isinstance(content, Mapping) or not content:
        expected = "the options of other settings, such as {mask.shape: [bell]}"
        problems.append(Problem(rule="type", place=place, value=content, expected=expected))
        return {}
    return {path: tuple(one) if isinstance(one, list) else (one,) for path, one in content.items()}


def _whole(problems: list[Problem], value: object, place: str, *, least: int) -> object:
    if not _is(value, (int,)) or (isinstance(value, int) and value < least):
        rule: Rule = "range" if _is(value, (int,)) else "type"
        expected = f"a whole number, at least {least}"
        problems.append(Problem(rule=rule, place=place, value=value, expected=expected))
    return value


def _rungs(problems: list[Problem], content: object) -> tuple[float, ...]:
    if not isinstance(content, list) or not all(_is(one, (int, float)) for one in content):
        expected = "a list of shares of a training, such as [0.7]"
        problems.append(Problem(rule="type", place="search.rungs", value=content, expected=expected))
        return ()
    return tuple(content)


def _constraints(problems: list[Problem], content: object) -> Iterator[Bound]:
    if not isinstance(content, list):
        expected = "a list of limits, such as [{metric: inference_seconds, at_most: 10}]"
        problems.append(Problem(rule="type", place="search.constraints", value=content, expected=expected))
        return
    for i, one in enumerate(content):
        place = f"search.constraints[{i}]"
        if not isinstance(one, Mapping):
            expected = "a metric with its limit, such as {metric: inference_seconds, at_most: 10}"
            problems.append(Problem(rule="type", place=place, value=one, expected=expected))
            continue
        limits = {name: one[name] for name in LIMITS if name in one}
        before = len(problems)
        problems += [
            Problem(rule="type", place=f"{place}.{name}", value=limit, expected="a number")
            for name, limit in limits.items()
            if not _is(limit, (int, float))
        ]
        columns = columns_of(problems, [{key: value for key, value in one.items() if key not in LIMITS}], place)
        if len(limits) != 1:
            expected = "either at_most or at_least"
            problems.append(Problem(rule="conflict", place=place, value=sorted(limits), expected=expected))
        if len(problems) == before:
            yield Bound(column=columns[0], **limits)
