"""The lines under a table: what it is measured on, which tests were made and what they say, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweeps.service.plan.cells import Cell
from sweeps.service.plan.recordings import SplitData
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.stats.comparisons import Bold, Comparison, SeedValues, common_seeds
from sweeps.service.stats.ranking import ranking
from sweeps.service.stats.significance import FRIEDMAN, LEVEL, REPLICATES_NOTE, VIDEOS_NOTE, WILCOXON, Outcome
from sweeps.service.tables.baselines import ExtraRow
from sweeps.service.trials.cell_results import CellResult

_WHAT = {
    FRIEDMAN: f"{FRIEDMAN} (splits are blocks, seeds replicates)",
    WILCOXON: f"{WILCOXON} over test videos (means over seeds)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The lines under a table, by kind.

    Attributes:
        data: what each split contains.
        baselines: rows that are not better than a baseline without features.
        statistics: what bold means, which tests could not decide and what the others compare.
        ranking: mean ranks over several splits.
        differences: which rows differ from the default row; long, so that the terminal leaves them out.
        missing: cells without a value, with their reason.
    """

    data: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    ranking: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def about(self) -> tuple[str, ...]:
        """The lines about the table as a whole: data, baselines, statistics and ranking."""
        return (*self.data, *self.baselines, *self.statistics, *self.ranking)

    def __iter__(self) -> Iterator[str]:
        return iter((*self.about, *self.differences, *self.missing))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A column's values and what tests say of them.

    Attributes:
        column: which.
        values: of each row those of its whole seeds, by split and seed.
        bold: the best rows.
        against_default: for each row the tests against the default row; None where there is none.
    """

    column: Column
    values: tuple[SeedValues, ...]
    bold: Bold
    against_default: tuple[Comparison | None, ...]


def data_notes(splits: Mapping[str, SplitData]) -> Iterator[str]:
    """Size and most frequent action of each split."""
    for name, split in splits.items():
        yield (
            f"split {name}: {split.n_train} training and {split.n_test} test videos; most frequent action "
            f"{split.commonest!r} has {100 * split.commonest_share:.1f} % of the test frames"
        )


def blind_notes(
    variants: Sequence[Variant],
    columns: Sequence[Column],
    means: Sequence[Sequence[float | None]],
    extra: Sequence[ExtraRow],
) -> Iterator[str]:
    """For each baseline that sees no feature, the rows of its task whose means are no better than its value.

    Args:
        variants: the rows.
        columns: of the table.
        means: of each row, by column.
        extra: baseline and ceiling rows.
    """
    for baseline in extra:
        found: dict[str, str] = {}
        for i, (column, blind) in enumerate(zip(columns, baseline.values, strict=True)):
            there = {
                variant.name: mean
                for variant, of_row in zip(variants, means, strict=True)
                if variant.task == baseline.task and (mean := of_row[i]) is not None
            }
            no_better = [name for name, mean in there.items() if blind is not None and not column.better(mean, blind)]
            if no_better:
                found[column.title] = "every row" if len(no_better) == len(there) > 1 else some_rows(no_better)
        if found:
            everywhere = len(found) == len(columns) > 1 and set(found.values()) == {"every row"}
            told = "; ".join(f"{title}: {which}" for title, which in found.items())
            which = "every row in every score" if everywhere else told
            yield f"not better than the feature-free baseline {baseline.label!r}: {which}"


def some_rows(names: Sequence[str]) -> str:
    """Up to three names, otherwise their number."""
    return ", ".join(map(repr, names)) if len(names) <= 3 else f"{len(names)} rows"


def missing_notes(cells: Sequence[Cell], results: Mapping[str, CellResult]) -> Iterator[str]:
    """Every cell without a value, with its reason."""
    for cell in cells:
        result = results[cell.key]
        if not result.is_finished:
            reason = f": {result.reason}" if result.reason else ""
            yield f"{cell} is {result.state} and not averaged{reason} (trials/{cell.identity})"


def statistics_notes(default: str | None, columns: Sequence[Compared]) -> Iterator[str]:
    """What bold means, which tests can say nothing, and what the others speak of.

    Args:
        default: name of the default row.
        columns: of the table; those of which no test was made are passed over.
    """
    tested = _tested(columns)
    if not tested:
        return
    yield from _bold_notes(tested)
    if default is None:
        yield "no row has the settings of the base alone: rows are compared with the best one only"
    for test in _WHAT:
        unable = _titles_by(
            (str(outcome.reason), column)
            for column in tested
            for outcome in _against_default(column, test)
            if outcome is not None and outcome.p is None
        )
        for reason, titles in unable.items():
            yield f"against the default row {default!r}, {_WHAT[test]}, {_listed(titles, tested)}: {reason}"
    meanings = {FRIEDMAN: REPLICATES_NOTE, WILCOXON: VIDEOS_NOTE}
    made = {outcome.test for column in tested for outcome in _outcomes(column) if outcome.p is not None}
    yield from (meaning for test, meaning in meanings.items() if test in made)


def difference_notes(default: str | None, rows: Sequence[str], columns: Sequence[Compared]) -> Iterator[str]:
    """For each test its smallest attainable p, and which rows it tells from the default row.

    Args:
        default: name of the default row.
        rows: names of all.
        columns: of the table; those of which no test was made are passed over.
    """
    for test, what in _WHAT.items():
        able: dict[str, Outcome] = {}
        found: dict[str, list[str]] = {}
        for column in _tested(columns):
            for name, outcome in zip(rows, _against_default(column, test), strict=True):
                if outcome is not None and outcome.p is not None:
                    able.setdefault(outcome.counted, outcome)
                    if outcome.significant:
                        way = {1: "better", -1: "worse", 0: "different"}[outcome.direction]
                        found.setdefault(column.column.title, []).append(f"{name!r} {way} ({outcome.adjusted_p:.2g})")
        if able:
            first = next(iter(able.values()))
            counted = f"{' or '.join(able)}; " if test == FRIEDMAN else ""  # how many videos differ varies by pair
            before = "" if first.comparisons == 1 else f" before Holm over {first.comparisons}"
            differ = "; ".join(f"{title}: {', '.join(which)}" for title, which in found.items())
            yield (
                f"against the default row {default!r}, {what}; {counted}smallest attainable p {first.smallest_p:.2g}"
                f"{before}; p < {LEVEL} in brackets: {differ or 'no row differs'}"
            )


def ranking_notes(rows: Sequence[str], columns: Sequence[Compared]) -> Iterator[str]:
    """The rows in the order of their mean ranks over several splits, in the first score of which tests were made.

    Args:
        rows: names of all.
        columns: of the table.
    """
    for column in _tested(columns)[:1]:
        there = [i for i, values in enumerate(column.values) if values]
        common = common_seeds([column.values[i] for i in there])
        if len(there) < 3 or len(common.splits) < 2 or not common.seeds:
            continue
        means = common.values.mean(axis=2, keepdims=True)
        found = ranking(means, higher_is_better=column.column.higher_is_better)
        order = ", ".join(f"{rows[there[i]]!r} {found.mean_ranks[i]:.2f}" for i in found.order)
        if found.critical_difference is None:
            apart = f"which differ is not known: {found.friedman.reason}"
        else:
            groups = "; ".join(" = ".join(repr(rows[there[i]]) for i in group) for group in found.groups)
            apart = f"critical difference {found.critical_difference:.2f} (Nemenyi), not told apart: {groups}"
        yield f"mean ranks over {len(common.splits)} splits in {column.column.title}: {order}; {apart}"


def _tested(columns: Sequence[Compared]) -> list[Compared]:
    return [column for column in columns if column.bold.best is not None]


def _bold_notes(columns: Sequence[Compared]) -> Iterator[str]:
    deciding = _titles_by((o.test, column) for column in columns for o in _against_best(column) if o.p is not None)
    comparisons = len(columns[0].values) - 1
    holm = f" after Holm over {comparisons}" if comparisons > 1 else ""
    if deciding:
        by = "; ".join(f"in {_listed(titles, columns)} by {_WHAT[test]}" for test, titles in deciding.items())
        yield f"bold: the best row and every row that cannot be told from it (p >= {LEVEL}{holm}), {by}"
    unable = _titles_by((str(o.reason), column) for column in columns for o in _against_best(column) if o.p is None)
    for reason, titles in unable.items():
        shown = _listed(titles, columns)
        yield f"bold in {shown}: only the best mean, no claim over rows that no test can judge: {reason}"


def _titles_by(found: Iterable[tuple[str, Compared]]) -> dict[str, list[str]]:
    """Key -> titles of its columns, each once."""
    titles: dict[str, dict[str, None]] = {}
    for key, column in found:
        titles.setdefault(key, {})[column.column.title] = None
    return {key: list(of_key) for key, of_key in titles.items()}


def _listed(titles: Sequence[str], columns: Sequence[Compared]) -> str:
    return "every score" if len(titles) == len(columns) > 1 else ", ".join(titles)


def _against_best(column: Compared) -> Iterator[Outcome]:
    return (outcome for outcome in column.bold.against_best if outcome is not None)


def _against_default(column: Compared, test: str) -> list[Outcome | None]:
    return [
        None if pair is None else pair.seeds if test == FRIEDMAN else pair.videos for pair in column.against_default
    ]


def _outcomes(column: Compared) -> Iterator[Outcome]:
    yield from _against_best(column)
    for test in _WHAT:
        yield from (outcome for outcome in _against_default(column, test) if outcome is not None)
