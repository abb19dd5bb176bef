"""A sweep of one's own, from plain values: checked whole, every problem told at once with its place.

See `FORMAT` for what it says. The rows are every combination of its variants, its zipped settings and its grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mucon.config import TrainConfig, field_types, flatten
from mucon.errors import InputError
from mucon.inference import PREDICTIONS, TASKS
from mucon.recipes import RECIPES, breakfast, demo
from mucon.vocabulary import nearest
from sweeps.service.experiment import Experiment, Variant
from sweeps.service.own_columns import columns_of

FORMAT = """\
A file says what is varied; everything but an axis (variants, zip, grid) may be left out:

  title: More or less smoothing       # over the table (default: the name)
  name: smoothing                     # of the sweep and its folder (default: the file's)
  recipe: breakfast                   # under the rows; `mucon recipes` lists them (default: as the other sweeps)
  set: {training.epochs: 30}          # settings of all rows
  variants:                           # rows with names; prediction and task may be told too
    - {name: default}
    - {name: no length loss, set: {loss.length: 0}, prediction: frames}
  zip:                                # settings that change together
    training.epochs: [30, 60]
    training.lr_drop_epoch: [20, 40]
  grid:                               # settings of which every combination is a row
    loss.smoothing: [0.05, 0.1, 0.2]
    mask.shape: [box, bell]
  seeds: 3                            # seeds 1 to 3 (default: 5, of the demo 2)
  splits: [1, 2]                      # or all (default: 1)
  metrics: [mof, frames.mof, f1_at_50]
  default: default, 30, 20, 0.1, box  # the row with which the others are compared: its labels

The rows are the combinations of variants, zip and grid. FILE.py instead holds a value EXPERIMENT, as each of the
package's own does (see sweeps/ablation_masks.py)."""
KEYS = ("title", "name", "recipe", "set", "variants", "zip", "grid", "seeds", "splits", "metrics", "default")
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
class _Choice:
    """One value of an axis: labels, settings as path -> (value, place), and what a variant says besides."""

    labels: tuple[str, ...]
    settings: Mapping[str, tuple[object, str]]
    prediction: Any = None
    task: Any = "segmentation"


@dataclass(frozen=True, slots=True)
class _Axis:
    """What is combined with the other axes: titles of its labels and its choices."""

    titles: tuple[str, ...]
    choices: tuple[_Choice, ...]


def experiment_of(value: object, *, file: str, stem: str, taken: Collection[str] = ()) -> Experiment:
    """The experiment that a file's content describes.

    Args:
        value: the content, as plain values.
        file: the file's name, for messages.
        stem: the sweep's name where the content has none.
        taken: names that other sweeps have.

    Raises:
        InputError: whatever is wrong, one line each with the file's name and the key's path.
    """
    problems = Problems(file)
    if not isinstance(value, Mapping):
        problems.add("", f"a sweep's file holds keys and values, not {shown(value)}: write as `grid: {{...}}`")
        raise InputError(problems.lines)
    problems.unknown("", value, KEYS)
    recipe = _recipe(problems, value)
    name = _name(problems, value, stem, taken)
    common = settings_of(problems, value.get("set", {}), "set")
    axes = list(_axes(problems, value))
    rows = list(_rows(problems, axes))
    _check_values(problems, RECIPES[recipe or "breakfast"](), common, rows)
    columns = columns_of(value.get("metrics"), problems.add)
    title = _text(problems, value, "title", name)
    seeds = _seeds(problems, value)
    splits = _splits(problems, value)
    default = _text(problems, value, "default", "")
    if problems.lines:
        raise InputError(problems.lines)
    plain = {path: setting for path, (setting, _) in common.items()}
    variants = tuple(
        Variant(
            labels=row.labels,
            settings={**plain, **{path: setting for path, (setting, _) in row.settings.items()}},
            prediction=row.prediction,
            task=row.task,
        )
        for row in rows
    )
    try:
        return Experiment(
            name=name,
            title=title,
            label_titles=tuple(title for axis in axes for title in axis.titles),
            variants=variants,
            base=RECIPES[recipe or breakfast.__name__],
            demo_base=RECIPES[recipe or demo.__name__],
            default_row=default or _default_row(RECIPES[recipe or breakfast.__name__](), plain, variants),
            splits=splits,
            **({"columns": columns} if columns else {}),
            **({"seeds": seeds, "demo_seeds": seeds} if seeds else {}),
        )
    except InputError as error:
        raise InputError(f"{file}: {problem}" for problem in error.problems) from None


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


def _axes(problems: Problems, value: Mapping[str, Any]) -> Iterator[_Axis]:
    before = len(problems.lines) - sum(key not in KEYS for key in value)
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
        yield _Axis(tuple(lists), tuple(_choice(settings) for settings in together))
    grids = _lists(problems, grid, "grid")
    for path in grids.keys() & lists.keys():
        del grids[path]
        problems.add(f"grid.{path}", "a setting stands on one axis, it is under zip too: leave it out of one")
    for path, values in grids.items():
        yield _Axis((path,), tuple(_choice(((path, *one),)) for one in values))
    if len(problems.lines) == before and variants is None and not lists and not grids:
        problems.add("", "a sweep varies something, this one has no row: give variants, zip or grid")


def _choice(settings: Sequence[tuple[str, object, str]]) -> _Choice:
    return _Choice(
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


def _variants(problems: Problems, value: object) -> _Axis:
    if not isinstance(value, list) or not value:
        problems.add("variants", f"variants are a list of rows, not {shown(value)!r}: write as - {{name: default}}")
        return _Axis(("Variant",), ())
    found = []
    names: set[str] = set()
    for i, one in enumerate(value):
        place = f"variants[{i}]"
        if not isinstance(one, Mapping):
            problems.add(place, f"a variant has a name and settings, not {shown(one)!r}: write as {{name: default}}")
            continue
        problems.unknown(f"{place}.", one, VARIANT_KEYS)
        name = _text(problems, one, "name", "", f"{place}.")
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
        found.append(_Choice((name,), settings, one.get("prediction"), one.get("task") or "segmentation"))
    return _Axis(("Variant",), tuple(found))


def _rows(problems: Problems, axes: Sequence[_Axis]) -> Iterator[_Choice]:
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
        yield _Choice(labels, settings, first.prediction, first.task)


def _check_values(
    problems: Problems, base: TrainConfig, common: Mapping[str, tuple[object, str]], rows: Sequence[_Choice]
) -> None:
    """Makes each row's configuration; what is wrong is told at the value's place, or the row's where that is not one.

    Rows that would be the same trials are told too.
    """
    made: dict[tuple[TrainConfig, Any, Any], str] = {}
    for row in rows or [_Choice((), {})]:
        name = ", ".join(row.labels)
        placed = {**common, **row.settings}
        try:
            config = base.with_values({path: value for path, (value, _) in placed.items()})
        except InputError as error:
            alone = False
            for path, (value, place) in placed.items():
                for problem in _alone(base, path, value):
                    alone = True
                    problems.add(place, problem)
            for problem in () if alone else error.problems:
                problems.add(f"row {name!r}" if name else "set", problem)
            continue
        other = made.setdefault((config, row.prediction, row.task), name)
        if other != name:
            problems.add("", f"rows differ from each other, {other!r} and {name!r} are the same: leave one out")


def _alone(base: TrainConfig, path: str, value: object) -> tuple[str, ...]:
    try:
        base.with_values({path: value})
    except InputError as error:
        return error.problems
    return ()


def _default_row(base: TrainConfig, common: Mapping[str, object], rows: Sequence[Variant]) -> str | None:
    """The row that changes nothing of recipe and common settings, if there is one; of several that about `full`."""
    alone = base.with_values(dict(common))
    equal = [row for row in rows if base.with_values(dict(row.settings)) == alone]
    return next((row.name for row in sorted(equal, key=lambda row: row.prediction not in (None, "full"))), None)


def _recipe(problems: Problems, value: Mapping[str, Any]) -> str | None:
    name = value.get("recipe")
    if name is not None and name not in RECIPES:
        likely = nearest(str(name), list(RECIPES))
        problems.add("recipe", f"it is one of {', '.join(RECIPES)}, not {shown(name)!r}{likely}: correct it")
        return None
    return name


def _name(problems: Problems, value: Mapping[str, Any], stem: str, taken: Collection[str]) -> str:
    name = _text(problems, value, "name", stem)
    if not name or not all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name):
        problems.add("name", f"a sweep's name has letters, digits, _ and - only, not {name!r}: rename it")
    elif name in taken:
        problems.add("name", f"{name!r} is the name of a sweep of this package: take another")
    return name


def _text(problems: Problems, value: Mapping[str, Any], key: str, default: str, place: str = "") -> str:
    text = value.get(key, default)
    if isinstance(text, int | float) and not isinstance(text, bool):
        return str(text)
    if not isinstance(text, str):
        problems.add(f"{place}{key}", f"it is a text, not {shown(text)!r}: put it in quotes")
        return default
    return text


def _seeds(problems: Problems, value: Mapping[str, Any]) -> int | None:
    seeds = value.get("seeds")
    if seeds is None or (isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1):
        return seeds
    problems.add("seeds", f"it is how many, at least 1, not {shown(seeds)!r}: write as 3 for the seeds 1 to 3")
    return None


def _splits(problems: Problems, value: Mapping[str, Any]) -> tuple[str, ...]:
    splits = value.get("splits", "1")
    found = splits if isinstance(splits, list) else [splits]
    if not found or not all(isinstance(one, str | int) and not isinstance(one, bool) for one in found):
        problems.add("splits", f"they are names of splits, or all, not {shown(splits)!r}: write as [1, 2]")
    names = tuple(str(one) for one in found)
    if len(set(names)) < len(names):
        problems.add("splits", f"each split stands once, not {shown(splits)!r}: leave out the second")
    return names
