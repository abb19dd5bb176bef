"""A sweep's table as a value: mean and deviation over seeds, intervals, tests between rows, and notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, NamedTuple

from mucon.videos import ScoredPart
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.imported import Imported
from sweeps.service.plan.recordings import SplitData
from sweeps.service.plan.seeds import seeds_by_row
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.seeds import SeedRule
from sweeps.service.spec.texts import row_name
from sweeps.service.stats.comparisons import (
    Comparison,
)
from sweeps.service.stats.sequential import Decision
from sweeps.service.stats.significance import Outcome
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.baselines import ExtraRow, extra_rows
from sweeps.service.tables.enough import Cells, seeds_notes
from sweeps.service.tables.methods import NOT_BETTER, Facts, method_notes, rows_not_better, shown_facts
from sweeps.service.tables.notes import (
    Compared,
    Notes,
    absent_notes,
    baseline_notes,
    data_notes,
    difference_notes,
    imported_notes,
    missing_notes,
    quoted_notes,
    ranking_notes,
    statistics_notes,
    undefined_notes,
)
from sweeps.service.tables.sequence import sequence_notes
from sweeps.service.tables.values import cells_by_row, collapsed, compared_column, summary_of
from sweeps.service.trials.cell_results import CellResult

NOTHING_IMPORTED = Imported()
NO_FACTS: Facts = MappingProxyType({})
Kind = Literal["row", "imported", "quoted", "baseline", "ceiling"]
_MARKS = {"imported": "(imported)", "quoted": "(reported)"}


class Seeds(NamedTuple):
    """Numbers of seeds of a row.

    Attributes:
        whole: finished on every split.
        planned: of the sweep.

    >>> str(Seeds(3, 5)), str(Seeds(5, 5)), Seeds(3, 5).are_whole
    ('3 of 5', '5', False)
    """

    whole: int
    planned: int

    @property
    def are_whole(self) -> bool:
        """Whether every planned seed is finished."""
        return self.whole == self.planned

    def __str__(self) -> str:
        return str(self.whole) if self.are_whole else f"{self.whole} of {self.planned}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a table.

    Attributes:
        labels: one for each of the table's label titles.
        summaries: one per column; None without a value.
        seeds: finished and planned seeds; None for baseline and ceiling rows.
        kind: `row` of the experiment; `imported` from elsewhere; `quoted` from a paper; feature-free `baseline`; or
            `ceiling`, which no prediction can exceed.
        task: task of the row, or of the rows to which a baseline applies; None for the ceiling.
        prediction: prediction that replaces the columns' predictions; None to keep those.
        default: whether the other rows are compared with it.
        bold: for each column, whether it is the best or not significantly worse, where other rows are (`best_rows`).
        against_default: for each column the tests against the default row; None without such tests.
        against_best: for each column the test against the column's best row; None without such a test.
        decision: about the row against the default row, in a table with a rule for seeds; None for the default row.
        collapsed: split and seed of the trainings that collapsed (`collapsed_cells`), by the first tested column with
            values; all means and tests contain them.
        supervision: what the method is trained from, in a table that compares methods; empty for other rows of that
            table, None in other tables.
        is_main: whether such a table shows the name in bold, see `RowFacts.is_main`.
        is_not_better: whether such a table marks it as no better than the feature-free baseline.
    """

    labels: tuple[str, ...]
    summaries: tuple[Summary | None, ...]
    seeds: Seeds | None
    kind: Kind = "row"
    task: str | None = None
    prediction: str | None = None
    default: bool = False
    bold: tuple[bool, ...] = ()
    against_default: tuple[Comparison | None, ...] = ()
    against_best: tuple[Outcome | None, ...] = ()
    decision: Decision | None = None
    collapsed: Cells = ()
    supervision: str | None = None
    is_main: bool = False
    is_not_better: bool = False

    @property
    def name(self) -> str:
        """The non-empty labels as one text."""
        return row_name(self.labels)

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether its values were not computed here; tables show its labels in italics."""
        return self.kind in ("imported", "quoted")

    @property
    def marked_labels(self) -> tuple[str, ...]:
        """The label columns as tables show them: labels, some with a mark, and the supervision."""
        mark = _MARKS.get(self.kind, NOT_BETTER if self.is_not_better else "")
        name = f"{self.labels[0]} {mark}".strip() if mark else self.labels[0]
        return (name, *self.labels[1:], *self.extra_labels)

    @property
    def extra_labels(self) -> tuple[str, ...]:
        """The supervision, in a table that shows it."""
        return () if self.supervision is None else (self.supervision,)

    @property
    def marked_name(self) -> str:
        """The non-empty labels with their mark, as one text."""
        return row_name(self.marked_labels[: len(self.labels)])

    @property
    def seeds_text(self) -> str:
        """The seeds as text, with the number of those that collapsed; empty without seeds."""
        lost = f" ({len(self.collapsed_seeds)} collapsed)" if self.collapsed else ""
        return "" if self.seeds is None else f"{self.seeds}{lost}"

    @property
    def collapsed_seeds(self) -> frozenset[int]:
        """The seeds that collapsed on any split."""
        return frozenset(seed for _, seed in self.collapsed)

    @property
    def p_values(self) -> tuple[float | None, ...]:
        """For each column the adjusted p of the test over seeds against the default row."""
        return tuple(None if pair is None else pair.seeds.adjusted_p for pair in self.against_default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as values.

    Attributes:
        name: name of the experiment.
        title: caption.
        label_titles: heads of the label columns.
        columns: the scores.
        rows: rows of the experiment, imported and quoted rows, feature-free baselines, then the ceiling of `frames`.
        notes: notes under the table.
        part: the part of each split that is scored.
    """

    name: str
    title: str
    label_titles: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: Notes
    part: ScoredPart = "test"

    @property
    def label_heads(self) -> tuple[str, ...]:
        """Heads of the label columns, with that of the supervision in a table that shows it."""
        has_supervision = any(row.supervision is not None for row in self.rows)
        return (*self.label_titles, *(["supervision"] if has_supervision else []))

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of all columns: labels, scores, seeds."""
        return (*self.label_heads, *(column.title for column in self.columns), "seeds")

    @property
    def collapsed(self) -> frozenset[tuple[tuple[str, ...], str, int]]:
        """Labels, split and seed of the trainings that collapsed."""
        return frozenset((row.labels, *place) for row in self.rows for place in row.collapsed)


def make_table(
    experiment: Experiment,
    cells: Sequence[Cell],
    results: Mapping[str, CellResult],
    splits: Mapping[str, SplitData],
    *,
    pooling: int | None = None,
    imported: Imported = NOTHING_IMPORTED,
    part: ScoredPart = "test",
    rule: SeedRule | None = None,
    facts: Facts = NO_FACTS,
) -> Table:
    """Makes the table of an experiment from the results so far.

    A seed counts in a row if it is finished on every split; its value is the mean over the splits. Other seeds are left
    out of the mean, and the row and a note report them.

    Args:
        experiment: the table's shape.
        cells: all cells of the table.
        results: state and scores by the cells' keys.
        splits: facts of each split by name.
        pooling: frames per latent frame in the base configuration, for the ceiling of `frames`; None: no ceiling.
        imported: rows with results from elsewhere, which are neither tested nor bold.
        part: the part of each split that is scored.
        rule: how the results decided which seeds each row has. There are no bold rows, p values and intervals of means
            then, which need a number of seeds that the results do not decide; the notes contain the rule's decisions.
        facts: how the rows are trained, shown in a table that compares methods.
    """
    names = [variant.name for variant in experiment.variants]
    default = names.index(experiment.default_row) if experiment.default_row is not None else None
    by_row = list(cells_by_row(experiment, cells).values())
    found = [[results[cell.key] for cell in row] for row in by_row]
    columns = [
        compared_column(default, column, by_row, results, is_tested=rule is None) for column in experiment.columns
    ]
    compared = [column for column in columns if column.is_compared]
    seeds = seeds_by_row(experiment, cells, rule, results) if rule else {}
    decisive = next((column for column in columns if column.column.is_tested and any(column.values)), None)
    extra = list(extra_rows(experiment, splits, pooling))
    facts = shown_facts(experiment.variants, facts)
    rows = [
        replace(
            _row(variant, i, columns, has_interval=rule is None),
            seeds=_seeds(by_row[i], results),
            default=i == default,
            decision=None if (one := seeds.get(variant.labels)) is None else one.decision,
            collapsed=() if decisive is None else collapsed(decisive.column, variant, by_row[i], results, splits),
        )
        for i, variant in enumerate(experiment.variants)
    ]
    means = [[None if summary is None else summary.mean for summary in row.summaries] for row in rows]
    not_better = rows_not_better(experiment.variants, experiment.columns, means, extra)
    lacking = absent_notes(experiment.columns, experiment.variants, found)
    tests = statistics_notes(experiment.default_row, compared)
    others = (*_imported_rows(experiment, imported), *_quoted_rows(experiment), *_extra_rows(experiment, extra))
    return Table(
        name=experiment.name,
        title=experiment.title,
        label_titles=experiment.label_titles,
        columns=experiment.columns,
        rows=tuple(_with_methods([*rows, *others], facts, not_better)),
        notes=Notes(
            data=(*data_notes(splits, part), *undefined_notes(experiment.columns, experiment.variants, found, part)),
            methods=tuple(method_notes(experiment.variants, facts, not_better)),
            imported=(*imported_notes(imported.of(experiment.name)), *quoted_notes(experiment.quoted)),
            baselines=tuple(baseline_notes(experiment.variants, experiment.columns, means, extra)),
            statistics=tuple(sequence_notes(experiment, rule, seeds) if rule else tests),
            seeds=tuple(seeds_notes(names, decisive, [row.collapsed for row in rows], has_power=rule is None)),
            ranking=tuple(ranking_notes(names, compared)),
            differences=tuple(difference_notes(experiment.default_row, names, compared)),
            missing=(*lacking, *missing_notes(cells, results, imported.damage)),
            n_missing=sum(not results[cell.key].is_finished for cell in cells),
        ),
        part=part,
    )


def _row(variant: Variant, place: int, columns: Sequence[Compared], *, has_interval: bool) -> Row:
    """A row of the experiment with its values and tests."""
    return Row(
        labels=variant.labels,
        summaries=tuple(summary_of(column.values[place], has_interval=has_interval) for column in columns),
        seeds=None,
        task=variant.task,
        prediction=variant.prediction,
        bold=tuple(place in column.bold.rows for column in columns),
        against_default=tuple(column.against_default[place] for column in columns),
        against_best=tuple(column.bold.against_best[place] for column in columns),
    )


def _with_methods(rows: Sequence[Row], facts: Facts, not_better: Collection[int]) -> Iterator[Row]:
    """The rows with what a table of several methods says of them; as they are without facts."""
    for place, row in enumerate(rows):
        if not facts:
            yield replace(row, supervision=None)
        elif row.kind != "row":
            yield replace(row, supervision=row.supervision or "")
        else:
            one = facts[row.labels]
            is_not_better = place in not_better
            yield replace(row, supervision=one.supervision, is_main=one.is_main, is_not_better=is_not_better)


def _seeds(cells: Sequence[Cell], results: Mapping[str, CellResult]) -> Seeds:
    planned = {cell.seed for cell in cells}
    incomplete = {cell.seed for cell in cells if not results[cell.key].is_finished}
    return Seeds(len(planned - incomplete), len(planned))


def _quoted_rows(experiment: Experiment) -> Iterator[Row]:
    for row in experiment.quoted:
        values = [row.numbers(one.metric) if one.prediction == "full" else None for one in experiment.columns]
        summaries = [None if value is None else Summary(*value, 1) for value in values]
        yield replace(_other_row("quoted", row.labels, summaries), supervision=row.supervision)


def _imported_rows(experiment: Experiment, imported: Imported) -> Iterator[Row]:
    for row in imported.of(experiment.name):
        n = len(row.seeds)
        labels = row.labels if len(row.labels) == len(experiment.label_titles) else (row.name,)
        labels = (*labels, *("" for _ in experiment.label_titles[len(labels) :]))
        summaries = [summary_of(row.seed_values(one.prediction, one.metric)) for one in experiment.columns]
        yield replace(_other_row("imported", labels, summaries), seeds=Seeds(n, n) if n else None)


def _extra_rows(experiment: Experiment, extra: Iterable[ExtraRow]) -> Iterator[Row]:
    for one in extra:
        labels = (one.label, *("" for _ in experiment.label_titles[1:]))
        summaries = [None if value is None else Summary(value, None, 1) for value in one.values]
        yield replace(_other_row(one.kind, labels, summaries), task=one.task)


def _other_row(kind: Kind, labels: tuple[str, ...], summaries: Sequence[Summary | None]) -> Row:
    """A row that is not of the experiment: neither bold nor tested."""
    nothing = (None,) * len(summaries)
    return Row(
        labels=labels,
        summaries=tuple(summaries),
        seeds=None,
        kind=kind,
        bold=(False,) * len(summaries),
        against_default=nothing,
        against_best=nothing,
    )
