"""The axes of a sweep's file and the rows that they make, with every problem at its key's place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mucon.config import TrainConfig, field_types, flatten
from mucon.errors import nearest
from mucon.inference import PREDICTIONS, TASKS

VARIANT_KEYS = ("name", "set", "prediction", "task")
MAX_ROWS = 1000
"""More rows than that are a mistake, and no table."""


@dataclass(slots=True)
class Problems:
    """What is wrong with a file, as lines.

    Attributes:
        file: its name.
        lines: so far.
    """

    file: str
    lines: list[str] = field(default_factory=list)

    def add(self, place: str, text: str) -> None:
        """Tells of a problem at a key's path; the same one at the same place once."""
        line = f"{self.file}: {place}: {text}" if place else f"{self.file}: {text}"
        if line not in self.lines:
            self.lines.append(line)

    def unknown(self, place: str, found: Mapping[Any, Any], known: Sequence[str]) -> None:
        """Tells of keys that are none of those known."""
        for key in found:
            if key not in known:
                self.add(
                    f"{place}{key}", f"there is no such key{nearest(str(key), known)}: it is one of {', '.join(known)}"
                )


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of an axis: labels, settings as path -> (value, place), and what a variant says besides."""

    labels: tuple[str, ...]
    settings: Mapping[str, tuple[object, str]]
    prediction: Any = None
    task: Any = "segmentation"


@dataclass(frozen=True, slots=True)
class Axis:
    """What is combined with the other axes: titles of its labels and its choices."""

    titles: tuple[str, ...]
    choices: tuple[Choice, ...]


def shown(value: object) -> str:
    """A value as a message and a label show it.

    >>> shown([1, 2]), shown(None), shown(True), shown("box"), shown(0.1)
    ('1,2', 'none', 'true', 'box', '0.1')
    """
    if isinstance(value, list | tuple):
        return ",".join(map(shown, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def settings_of(problems: Problems, value: object, place: str) -> dict[str, tuple[object, str]]:
    """Path -> (value, place) of a mapping of settings, nested or with dotted keys; unknown ones are told."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.add(place, f"settings are keys with values, not {shown(value)!r}: write as {{loss.smoothing: 0.1}}")
        return {}
    known = field_types(TrainConfig)
    found = {}
    for path, setting in flatten(dict(value)).items():
        where = f"{place}.{path}"
        if path == "seed":
            problems.add(where, "a sweep gives each trial its seed, no setting does: write `seeds: 3`")
        elif path not in known:
            problems.add(where, f"there is no such setting{nearest(path, list(known))}: `mucon recipes` lists them all")
        else:
            found[path] = (setting, where)
    return found


def axes_of(problems: Problems, value: Mapping[str, Any]) -> Iterator[Axis]:
    """What a file's `variants`, `zip` and `grid` say; wrong parts are told and left out."""
    variants, zipped, grid = (value.get(key) for key in ("variants", "zip", "grid"))
    if variants is not None:
        yield _variants(problems, variants)
    lists = _lists(problems, zipped, "zip")
    lengths = {path: len(values) for path, values in lists.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{path} has {length}" for path, length in lengths.items())
        problems.add("zip", f"zipped settings have equally many values, {told}: add or leave out some")
    elif lists:
        together = zip(*([(path, *one) for one in values] for path, values in lists.items()), strict=True)
        yield Axis(tuple(lists), tuple(_choice(settings) for settings in together))
    grids = _lists(problems, grid, "grid")
    for path in grids.keys() & lists.keys():
        del grids[path]
        problems.add(f"grid.{path}", "a setting stands on one axis, it is under zip too: leave it out of one")
    for path, values in grids.items():
        yield Axis((path,), tuple(_choice(((path, *one),)) for one in values))


def _choice(settings: Sequence[tuple[str, object, str]]) -> Choice:
    return Choice(
        tuple(shown(value) for _, value, _ in settings), {path: (value, where) for path, value, where in settings}
    )


def _lists(problems: Problems, value: object, place: str) -> dict[str, list[tuple[object, str]]]:
    """Path -> values with their places."""
    found = {}
    for path, (values, where) in settings_of(problems, value, place).items():
        if not isinstance(values, list):
            problems.add(where, f"an axis is a list of values, not {shown(values)!r}: write as [{shown(values)}]")
        elif not values:
            problems.add(where, "an axis has at least one value, this list is empty: add some, or leave it out")
        else:
            found[path] = [(one, f"{where}[{i}]") for i, one in enumerate(values)]
    return found


def _variants(problems: Problems, value: object) -> Axis:
    if not isinstance(value, list) or not value:
        problems.add("variants", f"variants are a list of rows, not {shown(value)!r}: write as - {{name: default}}")
        return Axis(("Variant",), ())
    found = []
    names: set[str] = set()
    for i, one in enumerate(value):
        place = f"variants[{i}]"
        if not isinstance(one, Mapping):
            problems.add(place, f"a variant has a name and settings, not {shown(one)!r}: write as {{name: default}}")
            continue
        problems.unknown(f"{place}.", one, VARIANT_KEYS)
        name = text_of(problems, one, "name", "", f"{place}.")
        if "name" not in one:
            problems.add(f"{place}.name", "a variant has a name, this one has none: add one")
        elif name in names:
            problems.add(f"{place}.name", f"variants have distinct names, {name!r} stands twice: rename one")
        names.add(name)
        for key, known in (("prediction", PREDICTIONS), ("task", TASKS)):
            if one.get(key) is not None and one[key] not in known:
                likely = nearest(str(one[key]), known)
                text = f"it is one of {', '.join(known)}, not {shown(one[key])!r}{likely}: correct it"
                problems.add(f"{place}.{key}", text)
        settings = settings_of(problems, one.get("set"), f"{place}.set")
        found.append(Choice((name,), settings, one.get("prediction"), one.get("task") or "segmentation"))
    return Axis(("Variant",), tuple(found))


def rows_of(problems: Problems, axes: Sequence[Axis]) -> Iterator[Choice]:
    """Every combination of the axes' choices; none where a combination sets a setting twice."""
    count = math.prod(len(axis.choices) for axis in axes)
    if count > MAX_ROWS:
        problems.add("", f"a table has at most {MAX_ROWS} rows, these axes make {count}: shorten one")
        return
    for choices in itertools.product(*(axis.choices for axis in axes)) if axes else ():
        settings: dict[str, tuple[object, str]] = {}
        for choice in choices:
            for path in choice.settings.keys() & settings.keys():
                other = settings[path][1]
                problems.add(choice.settings[path][1], f"a row has a setting once, {other} sets it too: remove one")
            settings.update(choice.settings)
        first = choices[0]
        labels = tuple(label for choice in choices for label in choice.labels)
        yield Choice(labels, settings, first.prediction, first.task)


def text_of(problems: Problems, value: Mapping[str, Any], key: str, default: str, place: str = "") -> str:
    """The text under a key, numbers as they are written; anything else is told."""
    text = value.get(key, default)
    if isinstance(text, int | float) and not isinstance(text, bool):
        return str(text)
    if not isinstance(text, str):
        problems.add(f"{place}{key}", f"it is a text, not {shown(text)!r}: put it in quotes")
        return default
    return text
