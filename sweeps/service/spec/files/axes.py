"""The axes of a sweep file and the rows that follow from them, with every problem at the place of its key."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mucon.config import TrainConfig, field_types, flatten, setting_text
from mucon.errors import Problem
from mucon.inference import PREDICTIONS, TASKS
from sweeps.service.spec.problems import unknown

VARIANT_KEYS = ("name", "set", "prediction", "task")
MAX_ROWS = 1000
"""Largest number of rows of a table; more are considered a mistake."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of a setting, and its place in the file."""

    value: object
    place: str


Settings = dict[str, Setting]
"""Configuration path -> value and place."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of an axis: labels, settings, and what a variant contains besides."""

    labels: tuple[str, ...]
    settings: Settings
    prediction: Any = None
    task: Any = "segmentation"


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that is combined with the other ones: titles of its labels, and its choices."""

    titles: tuple[str, ...]
    choices: tuple[Choice, ...]


def check_keys(problems: list[Problem], place: str, mapping: Mapping[Any, Any], known: Sequence[str]) -> None:
    """Adds a problem for each unknown key.

    Args:
        problems: is appended to.
        place: prefix of the keys' places.
        mapping: the keys to check.
        known: the valid keys.
    """
    for key in mapping:
        if key not in known:
            problems.append(unknown(f"{place}{key}", "key", key, known))


def text_of(problems: list[Problem], mapping: Mapping[str, Any], key: str, default: str, place: str = "") -> str:
    """The text of a key; numbers are taken as they are written.

    Args:
        problems: is appended to if the value is not a text.
        mapping: contains the key or not.
        key: the key.
        default: is returned if the key is absent or its value wrong.
        place: prefix of the key's place.
    """
    text = mapping.get(key, default)
    if isinstance(text, int | float) and not isinstance(text, bool):
        return str(text)
    if not isinstance(text, str):
        hint = "quote it" if isinstance(text, bool) else ""
        problems.append(Problem(rule="type", place=f"{place}{key}", value=text, expected="a text", hint=hint))
        return default
    return text


def settings_of(problems: list[Problem], mapping: object, place: str) -> Settings:
    """The settings of a mapping, nested or with dotted keys; unknown ones are problems.

    Args:
        problems: is appended to.
        mapping: path -> value.
        place: key of the mapping.
    """
    if mapping is None:
        return {}
    if not isinstance(mapping, Mapping):
        expected = "settings with values, such as {loss.smoothing: 0.1}"
        problems.append(Problem(rule="type", place=place, value=mapping, expected=expected))
        return {}
    known = field_types(TrainConfig)
    settings = {}
    for path, value in flatten(dict(mapping)).items():
        where = f"{place}.{path}"
        if path == "seed":
            message, hint = "a sweep sets the seed of each trial", "write `seeds: 3`"
            problems.append(Problem(rule="conflict", place=where, value=value, message=message, hint=hint))
        elif path not in known:
            hint = "`mucon recipes` lists all settings"
            problems.append(replace(unknown(where, "setting", path, known), hint=hint))
        else:
            settings[path] = Setting(value, where)
    return settings


def axes_of(problems: list[Problem], content: Mapping[str, Any]) -> Iterator[Axis]:
    """The axes of a file's `variants`, `zip` and `grid`, without their wrong parts.

    Args:
        problems: is appended to.
        content: the file's content.
    """
    variants, zipped, grid = (content.get(key) for key in ("variants", "zip", "grid"))
    if variants is not None:
        yield _variants(problems, variants)
    zip_lists = _lists(problems, zipped, "zip")
    lengths = {path: len(settings) for path, settings in zip_lists.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{path} has {length}" for path, length in lengths.items())
        message = f"expected equally many values of each setting ({counts})"
        problems.append(Problem(rule="shape", place="zip", value=lengths, message=message))
    elif zip_lists:
        together = zip(*([(path, one) for one in settings] for path, settings in zip_lists.items()), strict=True)
        yield Axis(tuple(zip_lists), tuple(_choice(dict(settings)) for settings in together))
    grid_lists = _lists(problems, grid, "grid")
    for path in grid_lists.keys() & zip_lists.keys():
        del grid_lists[path]
        message = "duplicate setting: also in zip"
        problems.append(Problem(rule="duplicate", place=f"grid.{path}", value=path, message=message))
    for path, settings in grid_lists.items():
        yield Axis((path,), tuple(_choice({path: setting}) for setting in settings))


def _choice(settings: Settings) -> Choice:
    return Choice(tuple(setting_text(setting.value) for setting in settings.values()), settings)


def _lists(problems: list[Problem], mapping: object, place: str) -> dict[str, list[Setting]]:
    """Path -> values with their places."""
    lists = {}
    for path, setting in settings_of(problems, mapping, place).items():
        values, where = setting.value, setting.place
        if not isinstance(values, list):
            expected = f"a list of values, such as [{setting_text(values)}]"
            problems.append(Problem(rule="type", place=where, value=values, expected=expected))
        elif not values:
            problems.append(Problem(rule="missing", place=where, value=values, expected="at least one value"))
        else:
            lists[path] = [Setting(one, f"{where}[{i}]") for i, one in enumerate(values)]
    return lists


def _variants(problems: list[Problem], variants: object) -> Axis:
    if not isinstance(variants, list) or not variants:
        expected = "a list of rows, such as - {name: default}"
        problems.append(Problem(rule="type", place="variants", value=variants, expected=expected))
        return Axis(("Variant",), ())
    choices = []
    names: set[str] = set()
    for i, variant in enumerate(variants):
        place = f"variants[{i}]"
        if not isinstance(variant, Mapping):
            expected = "a mapping with a name, such as {name: default}"
            problems.append(Problem(rule="type", place=place, value=variant, expected=expected))
            continue
        check_keys(problems, f"{place}.", variant, VARIANT_KEYS)
        name = text_of(problems, variant, "name", "", f"{place}.")
        if "name" not in variant:
            problems.append(Problem(rule="missing", place=f"{place}.name", expected="a name"))
        elif name in names:
            message = f"duplicate variant {name!r}"
            problems.append(Problem(rule="duplicate", place=f"{place}.name", value=name, message=message))
        names.add(name)
        for key, known in (("prediction", PREDICTIONS), ("task", TASKS)):
            if variant.get(key) is not None and variant[key] not in known:
                problems.append(unknown(f"{place}.{key}", key, variant[key], known))
        settings = settings_of(problems, variant.get("set"), f"{place}.set")
        choices.append(Choice((name,), settings, variant.get("prediction"), variant.get("task") or "segmentation"))
    return Axis(("Variant",), tuple(choices))


def rows_of(problems: list[Problem], axes: Sequence[Axis]) -> Iterator[Choice]:
    """Every combination of the axes' choices; a combination that sets a setting twice is a problem."""
    count = math.prod(len(axis.choices) for axis in axes)
    if count > MAX_ROWS:
        message = f"{count} rows, expected at most {MAX_ROWS}"
        problems.append(Problem(rule="range", value=count, message=message))
        return
    for choices in itertools.product(*(axis.choices for axis in axes)) if axes else ():
        settings: Settings = {}
        for choice in choices:
            for path in choice.settings.keys() & settings.keys():
                message = f"duplicate setting: also in {settings[path].place}"
                place = choice.settings[path].place
                problems.append(Problem(rule="duplicate", place=place, value=path, message=message))
            settings.update(choice.settings)
        first = choices[0]
        labels = tuple(label for choice in choices for label in choice.labels)
        yield Choice(labels, settings, first.prediction, first.task)
