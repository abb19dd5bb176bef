"""Makes an experiment or a search from the content of a sweep file, and reports all its problems at once.

See `sweeps.service.spec.files.format` for the format. The rows are all combinations of variants, zip and grid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from mucon.config import TrainConfig
from mucon.errors import InputError, Problem, Rule
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.spec.files.axes import Choice, Settings, axes_of, check_keys, rows_of, settings_of, text_of
from sweeps.service.spec.files.metrics import columns_of
from sweeps.service.spec.files.search import search_of
from sweeps.service.spec.recipe import Recipe
from sweeps.service.spec.search import Search
from sweeps.service.spec.seeds import SeedRule, read_seeds
from sweeps.service.spec.texts import name_problems

COMMON_KEYS = ("title", "name", "recipe", "set", "seeds", "splits")
KEYS = (*COMMON_KEYS, "until", "variants", "zip", "grid", "metrics", "default", "figure", "search")


def sweep_of(content: object, *, stem: str, taken: Collection[str] = ()) -> Experiment | Search:
    """The experiment or the search that a file's content describes.

    Args:
        content: plain values.
        stem: name of the sweep if the content has none.
        taken: names of other sweeps.

    Raises:
        InputError: one problem per wrong value, at the path of its key.
    """
    if not isinstance(content, Mapping):
        raise InputError(Problem(rule="type", value=content, expected="keys and values, such as grid: {...}"))
    problems: list[Problem] = []
    check_keys(problems, "", content, KEYS)
    recipe = _recipe(problems, content)
    name = _name(problems, content, stem, taken)
    common = settings_of(problems, content.get("set", {}), "set")
    if "search" in content:
        return _search(problems, content, name, recipe, common)
    axes = list(axes_of(problems, content))
    if not axes and not problems:
        problems.append(Problem(rule="missing", message="no rows", hint="add variants, zip or grid"))
    rows = list(rows_of(problems, axes))
    _check_values(problems, Recipe(recipe or "weak")(), common, rows)
    columns = columns_of(problems, content.get("metrics"))
    title = text_of(problems, content, "title", name)
    rule = _seed_rule(problems, content)
    seeds = None if isinstance(content.get("seeds"), str) else _seeds(problems, content)
    splits = _splits(problems, content)
    default = text_of(problems, content, "default", "")
    figure = _figure(problems, content.get("figure"))
    if problems:
        raise InputError(_distinct(problems))
    optional: dict[str, Any] = {"columns": columns} if columns else {}
    optional |= {"seeds": seeds, "demo_seeds": seeds} if seeds else {}
    optional |= {"seed_rule": rule} if rule else {}
    optional |= {"figure": figure} if figure else {}
    return Experiment(
        name=name,
        title=title,
        label_titles=tuple(title for axis in axes for title in axis.titles),
        variants=tuple(
            Variant(labels=row.labels, settings=_values(row.settings), prediction=row.prediction, task=row.task)
            for row in rows
        ),
        base=Recipe(recipe or "weak", _values(common)),
        demo_base=Recipe(recipe or "demo", _values(common)),
        default_row=default or None,
        splits=splits,
        **optional,
    )


def _search(
    problems: list[Problem], content: Mapping[str, Any], name: str, recipe: str | None, common: Settings
) -> Search:
    """The search that a file's content describes; the other arguments are what has been read of it.

    Raises:
        InputError: one problem per wrong value.
    """
    for key in (key for key in content if key in KEYS and key not in (*COMMON_KEYS, "search")):
        message, hint = f"{key} describes rows and their table; a search makes its own", "leave one of the two out"
        problems.append(Problem(rule="conflict", place=key, value=content[key], message=message, hint=hint))
    base, common_problems = _configuration(Recipe(recipe or "weak")(), common)
    problems.extend(_placed(common_problems, common, "set"))
    values = search_of(problems, content["search"], base or Recipe(recipe or "weak")())
    for path in values.get("space", {}).keys() & common.keys():
        message = "the search varies this setting"
        problems.append(Problem(rule="duplicate", place=common[path].place, value=path, message=message))
    title, seeds, splits = (
        text_of(problems, content, "title", name),
        _seeds(problems, content),
        _splits(problems, content),
    )
    if problems:
        raise InputError(_distinct(problems))
    values |= {"seeds": seeds} if seeds else {}
    values |= {"demo_trials": values["trials"]} if "trials" in values else {}
    try:
        return Search(
            name=name,
            title=title,
            base=Recipe(recipe or "weak", _values(common)),
            demo_base=Recipe(recipe or "demo", _values(common)),
            splits=splits,
            **values,
        )
    except InputError as error:
        raise InputError(replace(problem, place=f"search.{problem.place}") for problem in error.problems) from None


def _values(settings: Settings) -> dict[str, object]:
    return {path: setting.value for path, setting in settings.items()}


def _distinct(problems: Sequence[Problem]) -> list[Problem]:
    """The problems without repetitions; values may be unhashable."""
    distinct: list[Problem] = []
    for problem in problems:
        if problem not in distinct:
            distinct.append(problem)
    return distinct


def _check_values(problems: list[Problem], base: TrainConfig, common: Settings, rows: Sequence[Choice]) -> None:
    """Makes the configuration of each row; wrong values and rows with equal configurations are problems."""
    _, common_problems = _configuration(base, common)
    problems.extend(_placed(common_problems, common, "set"))
    names: dict[tuple[TrainConfig, Any, Any], str] = {}
    for row in rows:
        name = ", ".join(row.labels)
        settings = {**common, **row.settings}
        config, row_problems = _configuration(base, settings)
        additional = [problem for problem in row_problems if problem not in common_problems]
        problems.extend(_placed(additional, settings, f"row {name!r}"))
        if config is None:
            continue
        other = names.setdefault((config, row.prediction, row.task), name)
        if other != name:
            message = f"equal rows {other!r} and {name!r}"
            problems.append(Problem(rule="duplicate", value=(other, name), message=message, hint="remove one"))


def _configuration(base: TrainConfig, settings: Settings) -> tuple[TrainConfig | None, tuple[Problem, ...]]:
    """The base with settings on top; None and the problems if they are wrong."""
    try:
        return base.with_values(_values(settings)), ()
    except InputError as error:
        return None, error.problems


def _placed(problems: Iterable[Problem], settings: Settings, place: str) -> Iterator[Problem]:
    """Problems of a configuration at their places in the file.

    Args:
        problems: their places are configuration paths.
        settings: the settings of the configuration that the file contains.
        place: where the others are, such as a layer of the base that contradicts the file's number of layers.
    """
    for problem in problems:
        setting = settings.get(problem.place)
        yield problem.under(place) if setting is None else replace(problem, place=setting.place)


def _figure(problems: list[Problem], value: object) -> Figure | None:
    """The figure; whether the table contains what it shows is checked with the table."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        expected = "a mapping, such as {kind: bars}"
        problems.append(Problem(rule="type", place="figure", value=value, expected=expected))
        return None
    check_keys(problems, "figure.", value, tuple(f.name for f in fields(Figure)))
    n_recordings, recordings = value.get("n_recordings", 1), value.get("recordings", [])
    for key in ("kind", "y", "x", "x_title"):
        text_of(problems, value, key, "", "figure.")
    if not isinstance(n_recordings, int) or isinstance(n_recordings, bool):
        place, expected = "figure.n_recordings", "a whole number"
        problems.append(Problem(rule="type", place=place, value=n_recordings, expected=expected))
    if not isinstance(recordings, list) or not all(isinstance(one, str) for one in recordings):
        expected = "a list of ids, such as [one, two]"
        problems.append(Problem(rule="type", place="figure.recordings", value=recordings, expected=expected))
    if problems:
        return None
    facts: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in value.items()}
    return Figure(**facts)


def _recipe(problems: list[Problem], content: Mapping[str, Any]) -> str | None:
    name = "" if content.get("recipe") is None else text_of(problems, content, "recipe", "")
    if not name:
        return None
    try:
        Recipe(name)()
    except InputError as error:
        problems.extend(error.problems)
        return None
    return name


def _name(problems: list[Problem], content: Mapping[str, Any], stem: str, taken: Collection[str]) -> str:
    name = text_of(problems, content, "name", stem)
    if not name or not all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name):
        problems.append(Problem(rule="range", place="name", value=name, expected="letters, digits, _ and - only"))
    elif too_long := list(name_problems("name", name)):
        problems.extend(too_long)
    elif name in taken:
        problems.append(name_taken(name))
    return name


def name_taken(name: str) -> Problem:
    """The problem of a sweep that is named like an experiment of the package."""
    message = f"{name!r} is the name of an experiment of the package"
    return Problem(rule="duplicate", place="name", value=name, message=message, hint="choose another name")


def _seed_rule(problems: list[Problem], content: Mapping[str, Any]) -> SeedRule | None:
    """The rule for seeds in a file with `seeds: auto:MIN..MAX`; None in one with a number of seeds."""
    seeds, until = content.get("seeds"), content.get("until")
    if not isinstance(seeds, str):
        if until is not None:
            hint = "leave it out, or write seeds: auto:3..15"
            message = "all rows have the same number of seeds"
            problems.append(Problem(rule="conflict", place="until", value=until, message=message, hint=hint))
        return None
    try:
        rule = read_seeds(seeds, None if until is None else str(until), places=("seeds", "until")).rule
    except InputError as error:
        problems.extend(error.problems)
        return None
    if rule is None:
        problems.append(Problem(rule="type", place="seeds", value=seeds, expected="a number without quotes"))
    return rule


def _seeds(problems: list[Problem], content: Mapping[str, Any]) -> int | None:
    seeds = content.get("seeds")
    if seeds is None or (isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1):
        return seeds
    rule: Rule = "range" if type(seeds) is int else "type"
    problems.append(Problem(rule=rule, place="seeds", value=seeds, expected="a number of seeds, at least 1"))
    return None


def _splits(problems: list[Problem], content: Mapping[str, Any]) -> tuple[str, ...]:
    splits = content.get("splits", "1")
    listed = splits if isinstance(splits, list) else [splits]
    if not listed or not all(isinstance(one, str | int) and not isinstance(one, bool) for one in listed):
        expected = "a list of splits or all, such as [1, 2]"
        problems.append(Problem(rule="type", place="splits", value=splits, expected=expected))
    names = tuple(str(one) for one in listed)
    repeated = sorted({name for name in names if names.count(name) > 1})
    problems.extend(
        Problem(rule="duplicate", place="splits", value=name, message=f"duplicate split {name!r}") for name in repeated
    )
    return names
