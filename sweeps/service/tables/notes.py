"""The notes under a table: its data, baselines, significance tests and missing values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mucon.videos import ScoredPart
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.imported import ImportedRow, Source
from sweeps.service.plan.recordings import SplitData, validation_lines
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.quoted import Quoted
from sweeps.service.stats.comparisons import Bold, Comparison, SeedValues, common_seeds
from sweeps.service.stats.ranking import ranking
from sweeps.service.stats.significance import LEVEL, SEEDS_NOTE, WELCH
from sweeps.service.tables.baselines import ExtraRow
from sweeps.service.triage.failures import without_names
from sweeps.service.trials.cell_results import CellResult

SHOWN_CELLS = 3
"""Number of cells without a value that a note names."""
_DIRECTIONS = {1: "better", -1: "worse", 0: "different"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The notes under a table, by kind.

    Attributes:
        data: size and most frequent action of each split, and the scored videos that a column excludes.
        methods: how the methods are trained and what marks mean, in a table that compares methods.
        imported: where rows with results from elsewhere, and quoted rows, come from.
        baselines: rows that are not better than a feature-free baseline.
        statistics: meaning of bold, rows that the seeds cannot separate, and the scope of the tests.
        seeds: whether the seeds are enough for the two best rows, and which seeds collapsed.
        ranking: mean ranks over several splits.
        differences: rows that differ significantly from the default row; long, so the terminal omits them.
        missing: cells without a value, by state and reason.
        n_missing: number of cells without a value.
    """

    data: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()
    ranking: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    n_missing: int = 0

    @property
    def about(self) -> tuple[str, ...]:
        """The notes about the table as a whole: all but differences and missing values."""
        before = (*self.data, *self.methods, *self.imported)
        return (*before, *self.baselines, *self.statistics, *self.seeds, *self.ranking)

    def __iter__(self) -> Iterator[str]:
        return iter((*self.about, *self.differences, *self.missing))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The values of a column and the results of its tests.

    Attributes:
        column: the column.
        values: for each row the values of its complete seeds, by split and seed.
        bold: the best rows.
        against_default: for each row the tests against the default row; None without such tests.
    """

    column: Column
    values: tuple[SeedValues, ...]
    bold: Bold
    against_default: tuple[Comparison | None, ...]

    @property
    def is_compared(self) -> bool:
        """Whether its rows were compared."""
        return self.bold.best is not None


def data_notes(splits: Mapping[str, SplitData], part: ScoredPart) -> Iterator[str]:
    """Size and most frequent action of each split, and which recordings its validation part has if that is scored."""
    for name, split in splits.items():
        known = split.n_test_with_lengths
        lengths = "" if known is None else f", {known or 'none'} of them with true lengths"
        frequent = ""
        if split.commonest_share is not None:
            share = f"{100 * split.commonest_share:.1f} % of the {part} frames"
            frequent = f"; most frequent action {split.commonest!r} has {share}"
        yield f"split {name}: {split.n_train} training and {split.n_test} {part} videos{lengths}{frequent}"
    yield from validation_lines(splits)


def undefined_notes(
    columns: Sequence[Column],
    variants: Sequence[Variant],
    by_row: Sequence[Sequence[CellResult]],
    part: ScoredPart,
) -> Iterator[str]:
    """The largest number of scored videos in which a column is undefined, by row; equal columns share a note.

    Args:
        columns: all columns of the table.
        variants: the rows.
        by_row: the results of each row.
        part: the scored part.
    """
    titles: dict[str, list[str]] = {}
    for column in columns:
        rows: dict[str, list[str]] = {}
        for variant, results in zip(variants, by_row, strict=True):
            counts = [result.n_undefined(*column.of(variant)) for result in results if result.is_finished]
            undefined, videos = max(counts, default=(0, 0))
            if undefined:
                rows.setdefault(f"{undefined} of {videos}", []).append(variant.name)
        counted = "; ".join(f"{count} in {some_rows(names)}" for count, names in rows.items())
        if counted:
            titles.setdefault(counted, []).append(column.title)
    for counted, names in titles.items():
        yield f"{part} videos that are undefined and excluded from {', '.join(names)}: {counted}"


def imported_notes(rows: Sequence[ImportedRow]) -> Iterator[str]:
    """The source of each imported row; rows of one source share a note."""
    names: dict[Source, list[str]] = {}
    for row in rows:
        names.setdefault(row.source, []).append(row.name)
    for source, of_source in names.items():
        place = f"{source.name} ({source.kind}, sha256 {source.sha256[:12]}, {source.date})"
        scale = f", shares stated as {source.scale}" if source.scale else ""
        yield f"imported from {place}{scale}: {', '.join(map(repr, of_source))}"
    if rows:
        yield "imported rows may have other recordings, seeds and software: no test and no bold compares them"


def quoted_notes(rows: Sequence[Quoted]) -> Iterator[str]:
    """Source and convention of each quoted row; rows that share both share a note."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        names.setdefault((row.data, row.source, row.convention), []).append(row.name)
    for (data, source, convention), of_source in names.items():
        yield f"reported for {data}, not run here: {', '.join(map(repr, of_source))}: {source}; {convention}"


def absent_notes(
    columns: Sequence[Column], variants: Sequence[Variant], by_row: Sequence[Sequence[CellResult]]
) -> Iterator[str]:
    """The columns whose metric did not exist yet when results were made, with the rows of those results.

    Args:
        columns: all columns of the table.
        variants: the rows.
        by_row: the results of each row.
    """
    titles: dict[tuple[str, ...], list[str]] = {}
    for column in columns:
        rows = [
            variant.name
            for variant, results in zip(variants, by_row, strict=True)
            if column.is_tested and any(result.lacks(*column.of(variant)) for result in results)
        ]
        if rows:
            titles.setdefault(tuple(rows), []).append(column.title)
    for names, lacking in titles.items():
        yield (
            f"results of an earlier version lack {', '.join(lacking)}, in {some_rows(names)}: `mucon evaluate` "
            "computes them from the trained models"
        )


def baseline_notes(
    variants: Sequence[Variant],
    columns: Sequence[Column],
    means: Sequence[Sequence[float | None]],
    extra: Sequence[ExtraRow],
) -> Iterator[str]:
    """For each feature-free baseline, the rows of its task that are not better.

    Args:
        variants: the rows.
        columns: all columns of the table.
        means: `[row][column]`.
        extra: baseline and ceiling rows.
    """
    for baseline in extra:
        not_better: dict[str, str] = {}
        for i, (column, value) in enumerate(zip(columns, baseline.values, strict=True)):
            rows = {
                variant.name: mean
                for variant, row in zip(variants, means, strict=True)
                if variant.task == baseline.task and (mean := row[i]) is not None
            }
            names = [name for name, mean in rows.items() if value is not None and not column.better(mean, value)]
            if names:
                not_better[column.title] = "every row" if len(names) == len(rows) > 1 else some_rows(names)
        if not_better:
            everywhere = len(not_better) == len(columns) > 1 and set(not_better.values()) == {"every row"}
            by_column = "; ".join(f"{title}: {names}" for title, names in not_better.items())
            which = "every row in every score" if everywhere else by_column
            yield f"not better than the feature-free baseline {baseline.label!r}: {which}"


def some_rows(names: Sequence[str]) -> str:
    """Up to three names, otherwise their number."""
    return ", ".join(map(repr, names)) if len(names) <= 3 else f"{len(names)} rows"


def missing_notes(cells: Sequence[Cell], results: Mapping[str, CellResult], damage: str = "") -> Iterator[str]:
    """The cells without a value, one note for each state and kind of reason, with some of the cells.

    Args:
        cells: all cells of the table.
        results: state and scores by the cells' keys.
        damage: why imported rows are not shown; empty if they are.
    """
    if damage:
        yield f"imported rows are not shown: {damage}"
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        result = results[cell.key]
        if not result.is_finished:
            groups.setdefault((result.state, without_names(result.reason or "")), []).append(cell)
    for (state, _), group in groups.items():
        reason = results[group[0].key].reason
        said = f"{state} and not averaged{f': {reason}' if reason else ''}"
        if len(group) == 1:
            yield f"{group[0]}: {said} (trials/{group[0].identity})"
        else:
            examples = "; ".join(f"{cell} (trials/{cell.identity})" for cell in group[:SHOWN_CELLS])
            yield f"{len(group)} cells: {said}; {'such as ' if len(group) > SHOWN_CELLS else ''}{examples}"


def statistics_notes(default: str | None, columns: Sequence[Compared]) -> Iterator[str]:
    """What bold means, which rows the seeds cannot tell apart, and the scope of the tests.

    Args:
        default: name of the default row.
        columns: the compared columns.
    """
    if not columns:
        return
    comparisons = len(columns[0].values) - 1
    test = f"{WELCH} over seeds{f', Holm over {comparisons}' if comparisons > 1 else ''}"
    bold = [column for column in columns if column.bold.rows]
    if bold:
        meaning = f"the best row and every row that is not significantly worse (p >= {LEVEL}, {test})"
        yield f"bold in {_titles(bold, columns)}: {meaning}"
    outcomes = [(column, outcome) for column in columns for outcome in column.bold.against_best if outcome is not None]
    level = [column for column in columns if not column.bold.rows]
    tested = [column for column in level if any(o is not None and o.p is not None for o in column.bold.against_best)]
    if tested:
        yield f"no bold in {_titles(tested, columns)}: no row is significantly worse than the best ({test})"
    without: dict[str, list[Compared]] = {}
    for column, outcome in outcomes:
        if outcome.reason is not None:
            without.setdefault(outcome.reason, []).append(column)
    yield from (f"{_titles(chosen, columns)}: {reason}" for reason, chosen in without.items())
    if any(outcome.p is not None for _, outcome in outcomes):
        if default is None:
            yield "no default row, as no row has exactly the base settings: rows are compared with the best row only"
        yield SEEDS_NOTE


def difference_notes(default: str | None, rows: Sequence[str], columns: Sequence[Compared]) -> Iterator[str]:
    """The rows that differ significantly from the default row.

    Args:
        default: name of the default row.
        rows: names of all rows.
        columns: the compared columns.
    """
    tests = [
        (column.column.title, rows[i], pair.seeds)
        for column in columns
        for i, pair in enumerate(column.against_default)
        if pair is not None and pair.seeds.p is not None
    ]
    if not tests:
        return
    significant: dict[str, list[str]] = {}
    for title, row, outcome in tests:
        if outcome.significant:
            text = f"{row!r} {_DIRECTIONS[outcome.direction]} ({outcome.adjusted_p:.2g})"
            significant.setdefault(title, []).append(text)
    differences = "; ".join(f"{title}: {', '.join(texts)}" for title, texts in significant.items())
    first = tests[0][2]
    holm = f", Holm over {first.comparisons}" if first.comparisons > 1 else ""
    counts = " or ".join(dict.fromkeys(outcome.counted for _, _, outcome in tests))
    yield (
        f"against the default row {default!r} ({WELCH} over seeds{holm}; {counts}): significant differences "
        f"(p < {LEVEL}): {differences or 'none'}; the CSV also contains p of the paper's test"
    )


def ranking_notes(rows: Sequence[str], columns: Sequence[Compared]) -> Iterator[str]:
    """Mean ranks of the rows over several splits, in the first compared column.

    Args:
        rows: names of all rows.
        columns: the compared columns.
    """
    for column in columns[:1]:
        names = [name for name, values in zip(rows, column.values, strict=True) if values]
        common = common_seeds([values for values in column.values if values])
        if len(names) < 3 or len(common.splits) < 2 or not common.seeds:
            continue
        means = common.values.mean(axis=2, keepdims=True)
        ranks = ranking(means, higher_is_better=column.column.higher_is_better)
        order = ", ".join(f"{names[i]!r} {ranks.mean_ranks[i]:.2f}" for i in ranks.order)
        if ranks.critical_difference is None:
            groups = f"no test of the differences: {ranks.friedman.reason}"
        else:
            equal = "; ".join(" = ".join(repr(names[i]) for i in group) for group in ranks.groups)
            groups = (
                f"critical difference {ranks.critical_difference:.2f} (Nemenyi), not significantly different: {equal}"
            )
        yield f"mean ranks over {len(common.splits)} splits in {column.column.title}: {order}; {groups}"


def _titles(chosen: Sequence[Compared], columns: Sequence[Compared]) -> str:
    """The titles of some of the compared columns as text."""
    distinct = dict.fromkeys(column.column.title for column in chosen)
    return "every score" if len(distinct) == len(columns) > 1 else ", ".join(distinct)
