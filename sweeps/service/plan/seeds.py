"""The seeds that the rows of a table need if their results decide, see `SeedRule`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mucon.errors import InputError, Problem
from mucon.metrics.catalogue import SCALES
from sweeps.service.plan.cells import Cell, split_mean
from sweeps.service.plan.plan import Part
from sweeps.service.spec.columns import Column
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.seeds import SeedRule
from sweeps.service.stats.sequential import Decision, RowSeeds, SeedOutcomes, row_seeds
from sweeps.service.stats.significance import LEVEL
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State

ENDED = (State.FINISHED, State.FAILED, State.DIVERGED)
"""States of cells that have a value, or will have none."""


def check_tables(experiments: Iterable[Experiment]) -> None:
    """Checks that each table has a default row, another row, and a column by which they are compared.

    Raises:
        InputError: one problem per table that has none.
    """
    problems = []
    for table in experiments:
        if table.default_row is None:
            message = f"{table.name} has no default row with which its rows could be compared"
        elif len(table.variants) < 2:
            message = f"{table.name} has one row, which nothing is compared with"
        elif compared_column(table) is None:
            message = f"{table.name} has no column by which rows are compared"
        else:
            continue
        hint = "use a fixed number of seeds"
        problems.append(Problem(rule="missing", place="--seeds", value=table.name, message=message, hint=hint))
    if problems:
        raise InputError(problems)


def seeds_by_row(
    experiment: Experiment,
    cells: Iterable[Cell],
    rule: SeedRule,
    results: Mapping[str, CellResult],
    waits: Callable[[str], bool] | None = None,
) -> dict[tuple[str, ...], RowSeeds]:
    """What the seeds that have ended say about each row besides the default row, and how many it needs; by its labels.

    The value of a seed is its mean over the splits in the first column that is tested. With 95 % probability, the
    intervals of all rows contain the true differences.

    Args:
        experiment: the table; nothing is known of one that `check_tables` refuses.
        cells: its cells.
        rule: the rule.
        results: states and scores by key; a cell without one has not ended.
        waits: returns whether the cell with a key has yet to end; by default as its state says.
    """
    column = compared_column(experiment)
    default = next((row.labels for row in experiment.variants if row.name == experiment.default_row), None)
    if column is None or default is None:
        return {}
    waits = waits or (lambda key: results[key].state not in ENDED)
    groups: dict[tuple[str, ...], dict[int, list[Cell]]] = {row.labels: {} for row in experiment.variants}
    for cell in cells:
        groups[cell.variant.labels].setdefault(cell.seed, []).append(cell)
    outcomes: dict[tuple[str, ...], SeedOutcomes] = {
        labels: {
            seed: split_mean(group, results, column)
            for seed, group in seeds.items()
            if all(cell.key in results and not waits(cell.key) for cell in group)
        }
        for labels, seeds in groups.items()
    }
    return {
        labels: row_seeds(
            row,
            outcomes[default],
            least=rule.least,
            most=rule.most,
            margin=rule.until / SCALES[column.shown_unit],
            level=LEVEL / (len(outcomes) - 1),
            higher_is_better=column.higher_is_better,
        )
        for labels, row in outcomes.items()
        if labels != default
    }


def needed(
    part: Part,
    rule: SeedRule,
    results: Mapping[str, CellResult],
    waits: Callable[[str], bool],
    *,
    at_most: bool = False,
) -> Part:
    """A table with the cells that its rows need; the default row needs as many seeds as the row that needs most.

    Args:
        part: the table with all seeds of the rule.
        rule: the rule.
        results: see `seeds_by_row`.
        waits: see `seeds_by_row`.
        at_most: all cells that they can need, whatever the results are.
    """
    found = seeds_by_row(part.experiment, part.cells, rule, results, waits)
    counts = {
        labels: rule.most if at_most and one.decision is Decision.OPEN else one.needed for labels, one in found.items()
    }
    most = max(counts.values())
    return replace(part, cells=tuple(cell for cell in part.cells if cell.seed <= counts.get(cell.variant.labels, most)))


def compared_column(experiment: Experiment) -> Column | None:
    """The column by which a rule compares rows: the first one that is tested."""
    return next((column for column in experiment.columns if column.is_tested), None)
