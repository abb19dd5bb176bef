"""A sweep's table as a value: mean±std over seeds, intervals, tests between rows, and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sweeps.service.plan.cells import Cell
from sweeps.service.plan.recordings import SplitData
from sweeps.service.spec.columns import Column
from sweeps.service.spec.experiment import Experiment
from sweeps.service.stats.comparisons import (
    Bold,
    Comparison,
    SeedValues,
    VideoValues,
    best_rows,
    compare_with_default,
    seed_means,
)
from sweeps.service.stats.significance import Outcome
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.baselines import ExtraRow, extra_rows
from sweeps.service.tables.notes import (
    Compared,
    Notes,
    blind_notes,
    data_notes,
    difference_notes,
    missing_notes,
    ranking_notes,
    statistics_notes,
)
from sweeps.service.trials.cell_results import CellResult


class Seeds(NamedTuple):
    """Seeds of a row.

    Attributes:
        whole: seeds that have a value on every split.
        planned: seeds of the sweep.

    >>> str(Seeds(3, 5)), str(Seeds(5, 5)), Seeds(3, 5).are_whole
    ('3 of 5', '5', False)
    """

    whole: int
    planned: int

    @property
    def are_whole(self) -> bool:
        """Whether every planned seed has a value."""
        return self.whole == self.planned

    def __str__(self) -> str:
        return str(self.whole) if self.are_whole else f"{self.whole} of {self.planned}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row.

    Attributes:
        labels: one for each of the table's label titles.
        summaries: for each column; None: no value.
        seeds: number of seeds that have every split, and of planned seeds; None for a row without seeds.
        kind: `row` of the experiment, `baseline` that sees no feature, `ceiling` that no prediction is above.
        task: of the row, or of the rows that a baseline is to be compared with; None for the ceiling.
        prediction: the row's own, in the place of the columns'.
        default: whether the others are compared with it.
        bold: for each column, whether it is best or cannot be told from the best.
        against_default: for each column the tests against the default row; None where there is none.
        against_best: for each column the test against the column's best row; None where there is none.
    """

    labels: tuple[str, ...]
    summaries: tuple[Summary | None, ...]
    seeds: Seeds | None
    kind: Literal["row", "baseline", "ceiling"] = "row"
    task: str | None = None
    prediction: str | None = None
    default: bool = False
    bold: tuple[bool, ...] = ()
    against_default: tuple[Comparison | None, ...] = ()
    against_best: tuple[Outcome | None, ...] = ()

    @property
    def name(self) -> str:
        """The labels as one text."""
        return ", ".join(label for label in self.labels if label)

    @property
    def seeds_text(self) -> str:
        """The seeds as the table shows them."""
        return "" if self.seeds is None else str(self.seeds)

    @property
    def p_values(self) -> tuple[float | None, ...]:
        """For each column p against the default row after Holm's adjustment, of the test that decides."""
        return tuple(None if pair is None else pair.decisive.adjusted_p for pair in self.against_default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as values.

    Attributes:
        name: of the experiment, a word.
        title: the caption.
        label_titles: heads of the label columns.
        columns: the scores.
        rows: the experiment's, then the baselines that see no feature, then the ceiling of `frames`.
        notes: the lines under it.
    """

    name: str
    title: str
    label_titles: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: Notes

    @property
    def heads(self) -> tuple[str, ...]:
        """Of all columns: labels, scores, seeds."""
        return (*self.label_titles, *(column.title for column in self.columns), "seeds")


def make_table(
    experiment: Experiment,
    cells: Sequence[Cell],
    results: Mapping[str, CellResult],
    splits: Mapping[str, SplitData],
    *,
    pooling: int | None = None,
) -> Table:
    """The table of what is results.

    A seed counts in a row when every split of it is finished (its value is the mean over the splits). One that is not
    is left out of the mean, and the row and a note say so.

    Args:
        experiment: the table's shape.
        cells: all that belong to it.
        results: of each cell, by the trial's key.
        splits: of the store, in the order of the cells.
        pooling: frames of a latent frame in the base configuration, for the ceiling of `frames`; None: no ceiling.
    """
    names = [variant.name for variant in experiment.variants]
    default = names.index(experiment.default_row) if experiment.default_row is not None else None
    of_rows = [[cell for cell in cells if cell.variant is variant] for variant in experiment.variants]
    columns = [_compared(experiment, default, column, of_rows, results) for column in experiment.columns]
    rows = [
        Row(
            labels=variant.labels,
            summaries=tuple(_summary(column.values[i]) for column in columns),
            seeds=_seeds(of_rows[i], results),
            task=variant.task,
            prediction=variant.prediction,
            default=i == default,
            bold=tuple(i in column.bold.rows for column in columns),
            against_default=tuple(column.against_default[i] for column in columns),
            against_best=tuple(column.bold.against_best[i] for column in columns),
        )
        for i, variant in enumerate(experiment.variants)
    ]
    extra = list(extra_rows(experiment, splits, pooling))
    means = [[None if summary is None else summary.mean for summary in row.summaries] for row in rows]
    return Table(
        name=experiment.name,
        title=experiment.title,
        label_titles=experiment.label_titles,
        columns=experiment.columns,
        rows=(*rows, *(_extra_row(experiment, one) for one in extra)),
        notes=Notes(
            data=tuple(data_notes(splits)),
            baselines=tuple(blind_notes(experiment.variants, experiment.columns, means, extra)),
            statistics=tuple(statistics_notes(experiment.default_row, columns)),
            ranking=tuple(ranking_notes(names, columns)),
            differences=tuple(difference_notes(experiment.default_row, names, columns)),
            missing=tuple(missing_notes(cells, results)),
        ),
    )


def _compared(
    experiment: Experiment,
    default: int | None,
    column: Column,
    of_rows: Sequence[Sequence[Cell]],
    results: Mapping[str, CellResult],
) -> Compared:
    """A column's values by row, and what tests say of them."""
    n_rows = len(experiment.variants)
    values = [seed_values(cells, results, column) for cells in of_rows]
    nothing = Compared(
        column=column,
        values=tuple(values),
        bold=Bold(best=None, rows=(), against_best=(None,) * n_rows),
        against_default=(None,) * n_rows,
    )
    if not column.is_tested or sum(bool(row) for row in values) < 2:
        return nothing
    by_video = [_video_values(cells, results, column) for cells in of_rows]
    videos = by_video if any(scores for row in by_video for scores in row.values()) else None
    higher = column.higher_is_better
    return Compared(
        column=column,
        values=tuple(values),
        bold=best_rows(values, videos, higher_is_better=higher),
        against_default=nothing.against_default
        if default is None
        else compare_with_default(values, default, videos, higher_is_better=higher),
    )


def seed_values(cells: Sequence[Cell], results: Mapping[str, CellResult], column: Column) -> SeedValues:
    """The values of the seeds that have one on every split of the row, by split and seed."""
    values: dict[tuple[str, int], float] = {}
    for cell in cells:
        value = results[cell.key].value(*column.of(cell.variant))
        if value is not None:
            values[cell.split, cell.seed] = value
    whole = seed_means(values, sorted({cell.split for cell in cells}))
    return {place: value for place, value in values.items() if place[1] in whole}


def _video_values(cells: Sequence[Cell], results: Mapping[str, CellResult], column: Column) -> VideoValues:
    return {
        (cell.split, cell.seed): videos.by_id(*column.of(cell.variant))
        for cell in cells
        if (videos := results[cell.key].videos) is not None
    }


def _summary(values: SeedValues) -> Summary | None:
    return Summary.of(list(seed_means(values, sorted({split for split, _ in values})).values()))


def _seeds(cells: Sequence[Cell], results: Mapping[str, CellResult]) -> Seeds:
    planned = {cell.seed for cell in cells}
    incomplete = {cell.seed for cell in cells if not results[cell.key].is_finished}
    return Seeds(len(planned - incomplete), len(planned))


def _extra_row(experiment: Experiment, extra: ExtraRow) -> Row:
    nothing = (None,) * len(extra.values)
    return Row(
        labels=(extra.label, *("" for _ in experiment.label_titles[1:])),
        summaries=tuple(None if value is None else Summary(value, None, 1) for value in extra.values),
        seeds=None,
        kind=extra.kind,
        task=extra.task,
        bold=(False,) * len(extra.values),
        against_default=nothing,
        against_best=nothing,
    )
