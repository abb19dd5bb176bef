"""Rows that train on the predictions of another row's trial, with the same seed and split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mucon.configuration import Config
from mucon.errors import InputError, Problem
from mucon.method import training_of
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.problems import unknown

SETTING = "training.labels_from"
ROW = "row:"
"""Begins a value of the setting that names a row of the same table rather than a folder."""


def teachers(table: str, rows: Sequence[tuple[Variant, Config]]) -> Mapping[int, int]:
    """Place of each row that trains on the predictions of another one -> place of that row.

    Args:
        table: name of the table.
        rows: rows with their configurations.

    Raises:
        InputError: a row that the table does not have, or rows that need each other.
    """
    places = {row.name: place for place, (row, _) in enumerate(rows)}
    found: dict[int, int] = {}
    problems = []
    for place, (row, config) in enumerate(rows):
        value = getattr(training_of(config), "labels_from", None)
        if value is None or not value.startswith(ROW):
            continue
        name = value.removeprefix(ROW)
        if name in places:
            found[place] = places[name]
        else:
            problems.append(unknown(f"{table}: {row.name}: {SETTING}", "row", name, list(places)))
    for place in found:
        other, seen = place, set[int]()
        while other in found and other not in seen:
            seen.add(other)
            other = found[other]
        if other == place:
            name, message = rows[place][0].name, "the row needs its own predictions"
            problems.append(Problem(rule="conflict", place=f"{table}: {SETTING}", value=name, message=message))
    if problems:
        raise InputError(problems)
    return found


def untrained_problem(table: str, row: str, teacher: str, where: Sequence[tuple[str, int]]) -> Problem:
    """The problem of a row whose teacher has to be trained first.

    Args:
        table: name of the table.
        row: name of the row.
        teacher: name of the row whose predictions it needs.
        where: splits and seeds of the trainings that have not finished.
    """
    (split, seed), others = where[0], len(where) - 1
    more = f" and {others} more" if others else ""
    message = f"needs predictions of row {teacher!r}, whose training has not finished: split {split}, seed {seed}{more}"
    hint = f"run that row first: the same command with --rows {teacher!r}"
    return Problem(rule="missing", place=f"{table}: {row}", value=teacher, message=message, hint=hint)
