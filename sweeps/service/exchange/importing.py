"""Adds imported rows to a sweep and removes them again, while no process runs the sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mucon.errors import InputError, Problem, nearest, some
from sweeps.service.plan.imported import ImportedRow, read_rows, write_imported
from sweeps.service.plan.sweep_folder import hold
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep.trash import disk_errors


def add_rows(results: ResultsFolder, sweep: str, rows: Sequence[ImportedRow]) -> None:
    """Adds rows to those that a sweep has.

    Raises:
        InputError: a row that has been imported already, a damaged file of imported rows, or the sweep is running.
    """
    with _changing(results, sweep) as earlier:
        known = {(row.table, row.name) for row in earlier}
        problems = [
            Problem(
                rule="exists",
                place=row.source.name,
                value=row.name,
                message=f"row {row.name!r} of {row.table} has been imported already",
                hint=f"mucon-sweeps import-results remove {row.name!r} --sweep {sweep}",
            )
            for row in rows
            if (row.table, row.name) in known
        ]
        if problems:
            raise InputError(problems)
        write_imported(results.sweep(sweep), [*earlier, *rows])


def remove_row(results: ResultsFolder, sweep: str, name: str, table: str) -> None:
    """Removes an imported row.

    Raises:
        InputError: no such row, a damaged file of imported rows, or the sweep is running.
    """
    with _changing(results, sweep) as earlier:
        kept = [row for row in earlier if (row.table, row.name) != (table, name)]
        if len(kept) == len(earlier):
            names = [row.name for row in earlier if row.table == table]
            message = f"no imported row {name!r}{nearest(name, names)} in {table} (imported: {some(names) or 'none'})"
            raise InputError(Problem(rule="unknown", place=sweep, value=name, message=message))
        write_imported(results.sweep(sweep), kept)


@contextmanager
def _changing(results: ResultsFolder, sweep: str) -> Iterator[tuple[ImportedRow, ...]]:
    """The imported rows of a sweep that no other process changes meanwhile."""
    with disk_errors(results), hold(results, sweep):
        yield read_rows(results.sweep(sweep))
