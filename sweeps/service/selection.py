"""A part of a sweep: some of its rows, under a name of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mucon.errors import InputError
from mucon.vocabulary import nearest
from sweeps.service.experiment import Collection, Experiment

_NAME = re.compile(r"\w[\w.-]*")


def only_rows(sweep: Experiment | Collection, names: Sequence[str]) -> Experiment | Collection:
    """The sweep with the named rows alone; a table of a collection that has none of them is left out.

    Args:
        sweep: one table, or several.
        names: of rows as a table's notes write them, labels joined by a comma: `box, no`.

    Raises:
        InputError: a name that no table has.
    """
    rows = dict.fromkeys(row.name for table in sweep.experiments for row in table.variants)
    unknown = [name for name in names if name not in rows]
    if unknown:
        raise InputError(
            f"--rows takes rows of {sweep.name}, {name!r} is none{nearest(name, list(rows))}: "
            f"name some of {', '.join(map(repr, rows))}"
            for name in unknown
        )
    tables = tuple(
        replace(
            table,
            variants=tuple(row for row in table.variants if row.name in names),
            default_row=table.default_row if table.default_row in names else None,
        )
        for table in sweep.experiments
        if any(row.name in names for row in table.variants)
    )
    return replace(sweep, experiments=tables) if isinstance(sweep, Collection) else tables[0]


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
