"""A part of a sweep: some of its rows, under a name of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mucon.errors import InputError, nearest
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Collection, Experiment

_SHOWN = 12
_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


def only_rows(sweep: Experiment | Collection, names: Sequence[str]) -> Experiment | Collection:
    """The sweep with the named rows alone; a table of a collection that has none of them is left out.

    Args:
        sweep: one table, or several.
        names: of rows as a table's notes write them, labels joined by a comma: `box, no`. Of several tables also
            `TABLE`, all of its rows, and `TABLE: ROW`, where more than one has a row of that name.

    Raises:
        InputError: a name that no table has.
    """
    among = {
        name: None
        for table in sweep.experiments
        for row in table.variants
        for name in (row.name, *(_of_table(table, row) if isinstance(sweep, Collection) else ()))
    }
    unknown = [name for name in names if name not in among]
    if unknown:
        shown = [repr(name) for name in among][:_SHOWN] + ["…"] * (len(among) > _SHOWN)
        raise InputError(
            f"--rows takes rows of {sweep.name}, {name!r} is none{nearest(name, list(among))}: "
            f"name some of {', '.join(shown)}"
            for name in unknown
        )
    kept = {
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
        if (rows := kept[table.name])
    )
    return replace(sweep, experiments=tables) if isinstance(sweep, Collection) else tables[0]


def _of_table(table: Experiment, row: Variant) -> tuple[str, str]:
    return table.name, f"{table.name}: {row.name}"


def renamed(sweep: Experiment | Collection, name: str) -> Experiment | Collection:
    """The same under another name: its tables then lie in a folder of their own.

    Raises:
        InputError: a name that is no folder's.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"a sweep's name is letters, digits, dots, hyphens and underscores, {name!r} is not: take another"
        )
    return replace(sweep, name=name)
