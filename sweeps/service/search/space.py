"""A space of settings: its values, its combinations, and which configurations lie inside; needs no optuna."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from mucon.errors import Problem
from sweeps.service.spec.search import Choice, Dimension, Integer, LogUniform, Search, Space, Uniform, active_paths

Settings = dict[str, object]
MAX_COMBINATIONS = 10_000
"""Number of combinations up to which a finite space is written out."""
_DIGITS = 6
"""Significant digits of a suggested number of a wide range, so that tables show what was trained."""


def ordered(space: Space) -> tuple[str, ...]:
    """The paths of a space, each after those on which it depends, otherwise in their order.

    >>> ordered({"b": Uniform(0, 1, when={"a": ("x",)}), "a": Choice(("x", "y"))})
    ('a', 'b')
    """
    paths: list[str] = []
    while len(paths) < len(space):
        paths += [path for path in space if path not in paths and set(space[path].when) <= set(paths)][:1]
    return tuple(paths)


def labels(choice: Choice) -> list[str]:
    """The options of a choice as distinct texts, in their order."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in choice.options]
    return texts if len(set(texts)) == len(texts) else [json.dumps(one) for one in choice.options]


def label(choice: Choice, option: object) -> str:
    """An option as a text that no other option of the choice has."""
    return next(text for text, one in zip(labels(choice), choice.options, strict=True) if _is(one, option))


def high(dimension: Uniform | LogUniform | Integer) -> float:
    """The largest value of a dimension that its step reaches.

    >>> high(Integer(1, 8, step=3)), high(Uniform(0, 1, step=0.3))
    (7, 0.9)
    """
    step = None if isinstance(dimension, LogUniform) else dimension.step
    if step is None or (isinstance(dimension, Integer) and dimension.log):
        return dimension.high
    count = math.floor((dimension.high - dimension.low) / step + 1e-9)
    return _tidy(dimension, dimension.low + count * step)


def value_of(dimension: Dimension, drawn: Any) -> object:
    """The setting that a parameter of the study stands for: the option of a label, or a number as it is."""
    return dimension.options[labels(dimension).index(drawn)] if isinstance(dimension, Choice) else drawn


def suggested_value(dimension: Dimension, drawn: Any) -> object:
    """The setting for what a sampler has drawn: like `value_of`, with few digits."""
    return value_of(dimension, drawn) if isinstance(dimension, Choice) else _tidy(dimension, drawn)


def _tidy(dimension: Uniform | LogUniform | Integer, number: float) -> float:
    if isinstance(dimension, Integer):
        return round(number)
    if isinstance(dimension, Uniform) and dimension.step is not None:
        count = round((number - dimension.low) / dimension.step)
        return float(f"{dimension.low + count * dimension.step:.12g}")
    if dimension.high - dimension.low < 1e-3 * abs(dimension.high):
        return float(number)
    return min(max(float(f"{number:.{_DIGITS}g}"), float(dimension.low)), float(dimension.high))


def values(dimension: Dimension) -> tuple[object, ...] | None:
    """All values of a dimension, up to `MAX_COMBINATIONS`; None if there are more.

    >>> values(Integer(2, 8, step=3)), values(Uniform(0, 1, step=0.5)), values(LogUniform(1, 10))
    ((2, 5, 8), (0.0, 0.5, 1.0), None)
    """
    if isinstance(dimension, Choice):
        return dimension.options
    if dimension.low == dimension.high:
        return (_tidy(dimension, dimension.low),)
    if isinstance(dimension, LogUniform) or dimension.step is None:
        return None
    count = math.floor((dimension.high - dimension.low) / dimension.step + 1e-9) + 1
    if count > MAX_COMBINATIONS:
        return None
    return tuple(_tidy(dimension, dimension.low + i * dimension.step) for i in range(count))


def combinations(space: Space) -> list[Settings] | None:
    """All different settings of a space, without dimensions that have no effect; None if there are too many."""
    found: list[Settings] = [{}]
    for path in ordered(space):
        options = values(space[path])
        if options is None:
            return None
        longer: list[Settings] = []
        for settings in found:
            active = path in active_paths(space, settings)
            longer += [{**settings, path: option} for option in options] if active else [settings]
        found = longer
        if len(found) > MAX_COMBINATIONS:
            return None
    return found


def inside(space: Space, configuration: Mapping[str, object]) -> Settings | None:
    """The settings of a configuration that have an effect in a space; None if one is missing or outside of its values.

    Args:
        space: the space.
        configuration: path -> value, at least of the dimensions that have an effect.
    """
    settings: Settings = {}
    for path in ordered(space):
        if path not in active_paths(space, settings):
            continue
        found = _nearest(space[path], configuration[path]) if path in configuration else []
        if not found:
            return None
        settings[path] = found[0]
    return settings


def _nearest(dimension: Dimension, value: object) -> list[object]:
    """The value as the dimension has it, or nothing."""
    if isinstance(dimension, Choice):
        return [option for option in dimension.options if _is(option, value)]
    if isinstance(value, bool) or not isinstance(value, int | float) or not dimension.low <= value <= high(dimension):
        return []
    if isinstance(dimension, LogUniform) or dimension.step is None:
        return [float(value)]
    tidy = _tidy(dimension, dimension.low + round((value - dimension.low) / dimension.step) * dimension.step)
    return [tidy] if math.isclose(tidy, value, rel_tol=1e-9, abs_tol=1e-12) else []


def _is(option: object, value: object) -> bool:
    """Whether two plain values are the same, as 1 and 1.0 are, or a list and a tuple; True is no number."""
    if isinstance(option, int | float) and isinstance(value, int | float):
        return option == value and isinstance(option, bool) == isinstance(value, bool)
    return json.dumps(option) == json.dumps(value)


def always_numbers(space: Space) -> list[str]:
    """The paths of the numbers that vary and always have an effect, in alphabetical order."""
    numbers = {path: one for path, one in space.items() if not isinstance(one, Choice) and not one.when}
    return sorted(path for path, one in numbers.items() if one.low < high(one))


def sampler_problems(search: Search) -> Iterator[Problem]:
    """What a search's sampler cannot do with its space and objectives."""
    if search.sampler == "grid":
        for path, dimension in search.space.items():
            if values(dimension) is None:
                expected = "a step, or a choice: a grid tries all values"
                yield Problem(rule="conflict", place=f"space.{path}", value=search.sampler, expected=expected)
        if all(values(one) for one in search.space.values()) and combinations(search.space) is None:
            expected = f"at most {MAX_COMBINATIONS} combinations in a grid"
            yield Problem(rule="range", place="space", value=search.sampler, expected=expected)
    if search.sampler == "cmaes":
        if find_spec("cmaes") is None:
            message, hint = "cmaes requires the package cmaes", "pip install 'mucon[search]'"
            yield Problem(rule="missing", place="sampler", value=search.sampler, message=message, hint=hint)
        if not always_numbers(search.space):
            expected = "a number that always has an effect, which is what cmaes varies"
            yield Problem(rule="conflict", place="space", value=search.sampler, expected=expected)
        if len(search.objectives) > 1:
            expected = "one objective with cmaes; tpe and nsga2 take several"
            yield Problem(rule="conflict", place="objectives", value=search.sampler, expected=expected)


def description(search: Search, trials: int) -> dict[str, Any]:
    """A search as plain values, see `SearchHistory.search`."""
    columns = {
        one: {"metric": one.metric, "prediction": one.prediction, "title": one.title, "unit": one.shown_unit}
        | {"higher_is_better": one.higher_is_better}
        for one in (*search.objectives, *(bound.column for bound in search.constraints))
    }
    described = {
        "name": search.name,
        "title": search.title,
        "space": {path: _described(one) for path, one in search.space.items()},
        "objectives": [columns[one] for one in search.objectives],
        "constraints": [
            columns[bound.column] | {"at_most": bound.at_most, "at_least": bound.at_least}
            for bound in search.constraints
        ],
        "trials": trials,
        "seeds": search.seeds,
        "sampler": search.sampler,
        "sampler_seed": search.sampler_seed,
        "rungs": list(search.rungs),
        "splits": list(search.splits),
    }
    plain: dict[str, Any] = json.loads(json.dumps(described))
    return plain


def _described(dimension: Dimension) -> dict[str, object]:
    kind = {Uniform: "uniform", LogUniform: "log uniform", Integer: "integer", Choice: "choice"}[type(dimension)]
    fields = (name for name in dimension.__dataclass_fields__ if name != "when")
    when = {path: list(options) for path, options in dimension.when.items()}
    return {"kind": kind, **{name: getattr(dimension, name) for name in fields}, **({"when": when} if when else {})}
