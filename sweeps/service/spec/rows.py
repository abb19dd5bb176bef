"""Selects rows of a sweep and renames it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from mucon.errors import InputError
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Collection, Experiment
from sweeps.service.spec.problems import unknown
from sweeps.service.spec.search import Search
from sweeps.service.spec.texts import name_problems

Sweep = TypeVar("Sweep", bound=Experiment | Collection | Search)


def only_rows(sweep: Experiment | Collection, names: Sequence[str], option: str = "--rows") -> Experiment | Collection:
    """The sweep reduced to the named rows; tables of a collection without any of them are dropped.

    Args:
        sweep: one table, or several.
        names: names of rows as in a table's notes, labels joined by a comma: `box, no`. For a collection also `TABLE`
            for all its rows, and `TABLE: ROW` for a row of that table alone.
        option: the option that gives the names.

    Raises:
        InputError: unknown names.
    """
    known = {
        name: None
        for table in sweep.experiments
        for row in table.variants
        for name in (row.name, *(_of_table(table, row) if isinstance(sweep, Collection) else ()))
    }
    problems = [unknown(option, "row", name, known) for name in names if name not in known]
    if problems:
        raise InputError(problems)
    selected = {
        table.name: tuple(row for row in table.variants if {row.name, *_of_table(table, row)} & {*names})
        for table in sweep.experiments
    }
    tables = tuple(
        replace(
            table,
            variants=rows,
            default_row=table.default_row if table.default_row in [row.name for row in rows] else None,
        )
        for table in sweep.experiments
        if (rows := selected[table.name])
    )
    return replace(sweep, experiments=tables) if isinstance(sweep, Collection) else tables[0]


def quoted_data(sweep: Experiment | Collection) -> frozenset[str]:
    """The data sets for which a sweep quotes numbers of papers."""
    return frozenset(row.data for table in sweep.experiments for row in table.quoted)


def with_quoted(sweep: Experiment | Collection, data: str | None) -> Experiment | Collection:
    """The sweep with the quoted rows of a data set alone.

    Args:
        sweep: one table, or several.
        data: name of the data set; None: no quoted rows.

    Raises:
        InputError: no row quotes numbers for it.
    """
    if data is not None and data not in quoted_data(sweep):
        raise InputError(unknown("--quoted", "data set", data, sorted(quoted_data(sweep))))
    tables = tuple(
        replace(table, quoted=tuple(row for row in table.quoted if row.data == data)) for table in sweep.experiments
    )
    return replace(sweep, experiments=tables) if isinstance(sweep, Collection) else tables[0]


def _of_table(table: Experiment, row: Variant) -> tuple[str, str]:
    return table.name, f"{table.name}: {row.name}"


def renamed(sweep: Sweep, name: str) -> Sweep:
    """The sweep under another name, which is also the name of its folder.

    Raises:
        InputError: characters that a folder's name must not contain, or too many.
    """
    problems = list(name_problems("--name", name))
    if problems:
        raise InputError(problems)
    return replace(sweep, name=name)


def names_of_rows(sweep: Experiment | Collection) -> frozenset[str]:
    """The rows of a sweep as `TABLE: ROW`."""
    return frozenset(_of_table(table, row)[1] for table in sweep.experiments for row in table.variants)
