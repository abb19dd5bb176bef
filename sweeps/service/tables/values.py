"""The values of the rows of a table: over seeds, compared, and collapsed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sweeps.service.plan.cells import Cell
from sweeps.service.plan.recordings import SplitData
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.stats.collapse import collapsed_cells
from sweeps.service.stats.comparisons import Bold, SeedValues, best_rows, compare_with_default, seed_means
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.baselines import blind_scores
from sweeps.service.tables.enough import Cells
from sweeps.service.tables.notes import Compared
from sweeps.service.trials.cell_results import CellResult


def cells_by_row(experiment: Experiment, cells: Iterable[Cell]) -> dict[tuple[str, ...], list[Cell]]:
    """Labels of each row, which differ between the rows -> its cells."""
    by_row: dict[tuple[str, ...], list[Cell]] = {variant.labels: [] for variant in experiment.variants}
    for cell in cells:
        by_row[cell.variant.labels].append(cell)
    return by_row


def compared_column(
    default: int | None,
    column: Column,
    by_row: Sequence[Sequence[Cell]],
    results: Mapping[str, CellResult],
    *,
    is_tested: bool,
) -> Compared:
    """The values of a column and, if it is tested and at least two rows have any, their tests."""
    nothing = (None,) * len(by_row)
    values = tuple(seed_values(cells, results, column) for cells in by_row)
    if not is_tested or not column.is_tested or sum(bool(row) for row in values) < 2:
        bold = Bold(best=None, rows=(), against_best=nothing)
        return Compared(column=column, values=values, bold=bold, against_default=nothing)
    higher = column.higher_is_better
    return Compared(
        column=column,
        values=values,
        bold=best_rows(values, higher_is_better=higher),
        against_default=nothing if default is None else compare_with_default(values, default, higher_is_better=higher),
    )


def seed_values(cells: Sequence[Cell], results: Mapping[str, CellResult], column: Column) -> SeedValues:
    """The values of the seeds that have a value on every split of the row, by split and seed."""
    values = _cell_values(cells, results, column)
    whole = seed_means(values, sorted({cell.split for cell in cells}))
    return {place: value for place, value in values.items() if place[1] in whole}


def _cell_values(cells: Sequence[Cell], results: Mapping[str, CellResult], column: Column) -> SeedValues:
    """The values of a row by split and seed, also those of seeds that lack a split."""
    found = {(cell.split, cell.seed): results[cell.key].value(*column.of(cell.variant)) for cell in cells}
    return {place: value for place, value in found.items() if value is not None}


def collapsed(
    column: Column,
    row: Variant,
    cells: Sequence[Cell],
    results: Mapping[str, CellResult],
    splits: Mapping[str, SplitData],
) -> Cells:
    """The collapsed trainings of a row, see `collapsed_cells`."""
    blind = {name: blind_scores(split, row.task).get(column.metric) for name, split in splits.items()}
    baselines = {name: value for name, value in blind.items() if value is not None}
    values = _cell_values(cells, results, column)
    return collapsed_cells(values, baselines, higher_is_better=column.higher_is_better)


def summary_of(values: SeedValues, *, has_interval: bool = True) -> Summary | None:
    """Mean and deviation over the seeds of values by split and seed; None without values."""
    summary = Summary.of(list(seed_means(values, sorted({split for split, _ in values})).values()))
    return summary if has_interval or summary is None else replace(summary, interval=None)
