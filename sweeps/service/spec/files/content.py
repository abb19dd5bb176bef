"""A sweep of one's own, from plain values: checked whole, every problem told at once with its place.

See `FORMAT` for what it says. The rows are every combination of its variants, its zipped settings and its grid.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from mucon.config import TrainConfig
from mucon.errors import InputError, nearest
from mucon.recipes import RECIPES, breakfast, demo
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.spec.files.axes import Choice, Problems, axes_of, rows_of, settings_of, shown, text_of
from sweeps.service.spec.files.metrics import columns_of

KEYS = ("title", "name", "recipe", "set", "variants", "zip", "grid", "seeds", "splits", "metrics", "default", "figure")


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
    axes = list(axes_of(problems, value))
    if not axes and not problems.lines:
        problems.add("", "a sweep varies something, this one has no row: give variants, zip or grid")
    rows = list(rows_of(problems, axes))
    _check_values(problems, RECIPES[recipe or "breakfast"](), common, rows)
    columns = columns_of(value.get("metrics"), problems.add)
    title = text_of(problems, value, "title", name)
    seeds = _seeds(problems, value)
    splits = _splits(problems, value)
    default = text_of(problems, value, "default", "")
    figure = _figure(problems, value.get("figure"))
    if problems.lines:
        raise InputError(problems.lines)
    told: dict[str, Any] = {"columns": columns} if columns else {}
    told |= {"seeds": seeds, "demo_seeds": seeds} if seeds else {}
    told |= {"figure": figure} if figure else {}
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
            **told,
        )
    except InputError as error:
        raise InputError(error.under(file)) from None


def _check_values(
    problems: Problems, base: TrainConfig, common: Mapping[str, tuple[object, str]], rows: Sequence[Choice]
) -> None:
    """Makes each row's configuration; what is wrong is told at the value's place, or the row's where that is not one.

    Rows that would be the same trials are told too.
    """
    made: dict[tuple[TrainConfig, Any, Any], str] = {}
    for row in rows or [Choice((), {})]:
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


def _figure(problems: Problems, value: object) -> Figure | None:
    """What it shows is checked with the table, of whose columns it speaks."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        problems.add("figure", f"it has a kind and columns, not {shown(value)!r}: write as {{kind: bars}}")
        return None
    known = tuple(f.name for f in fields(Figure))
    problems.unknown("figure.", value, known)
    n, recordings = value.get("n_recordings", 1), value.get("recordings", [])
    for key in ("kind", "y", "x", "x_title"):
        text_of(problems, value, key, "", "figure.")
    if not isinstance(n, int) or isinstance(n, bool):
        problems.add("figure.n_recordings", f"it is how many, not {shown(n)!r}: write as 3")
    if not isinstance(recordings, list) or not all(isinstance(one, str) for one in recordings):
        problems.add("figure.recordings", f"they are a list of ids, not {shown(recordings)!r}: write as [one, two]")
    if problems.lines:
        return None
    facts: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in value.items()}
    return Figure(**facts)


def _recipe(problems: Problems, value: Mapping[str, Any]) -> str | None:
    name = value.get("recipe")
    if name is not None and name not in RECIPES:
        likely = nearest(str(name), list(RECIPES))
        problems.add("recipe", f"it is one of {', '.join(RECIPES)}, not {shown(name)!r}{likely}: correct it")
        return None
    return name


def _name(problems: Problems, value: Mapping[str, Any], stem: str, taken: Collection[str]) -> str:
    name = text_of(problems, value, "name", stem)
    if not name or not all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name):
        problems.add("name", f"a sweep's name has letters, digits, _ and - only, not {name!r}: rename it")
    elif name in taken:
        problems.add("name", f"{name!r} is the name of a sweep of this package: take another")
    return name


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
