"""The lines under a table: what it is measured on, which tests were made and what they say, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweeps.service.comparisons import Bold, Comparison, SeedValues
from sweeps.service.experiment import Cell, Column
from sweeps.service.known import Known
from sweeps.service.recordings import SplitData
from sweeps.service.significance import FRIEDMAN, LEVEL, REPLICATES_NOTE, VIDEOS_NOTE, WILCOXON, Outcome

_OVER_VIDEOS = f"{WILCOXON} over the test videos"
_WHAT = {
    FRIEDMAN: f"{FRIEDMAN}, splits as blocks and seeds as replicates",
    WILCOXON: f"{_OVER_VIDEOS}, each with its mean over seeds",
}


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
    """What each split is."""
    for name, split in splits.items():
        yield (
            f"split {name}: {split.n_train} training and {split.n_test} test videos; commonest action "
            f"{split.commonest!r} has {100 * split.commonest_share:.1f} % of the test frames"
        )


def missing_notes(cells: Sequence[Cell], known: Mapping[str, Known]) -> Iterator[str]:
    """Every cell that has no value, and why."""
    for cell in cells:
        there = known[cell.key]
        if there.scores is None:
            reason = f": {there.reason}" if there.reason else ""
            yield f"{cell} is {there.state} and not averaged{reason} (trials/{cell.identity})"


def statistics_notes(default: str | None, rows: Sequence[str], columns: Sequence[Compared]) -> Iterator[str]:
    """What bold means, what each row is against the default row, and what such tests can say.

    Args:
        default: name of the default row.
        rows: names of all.
        columns: of the table; those of which no test was made are passed over.
    """
    tested = [column for column in columns if column.bold.best is not None]
    if not tested:
        return
    yield from _bold_notes(tested)
    if default is None:
        yield "no row has the settings of the base alone: rows are compared with the best one only"
    else:
        yield from _default_notes(default, rows, tested)
    outcomes = list(_outcomes(tested))
    if any(outcome.test == FRIEDMAN and outcome.p is not None for outcome in outcomes):
        yield f"seeds inside a split are pseudo-replicates: {REPLICATES_NOTE}"
    if any(outcome.test == WILCOXON and outcome.p is not None for outcome in outcomes):
        yield VIDEOS_NOTE


def _bold_notes(columns: Sequence[Compared]) -> Iterator[str]:
    deciding: dict[str, list[str]] = {}
    reasons: dict[str, list[str]] = {}
    for column in columns:
        against = [outcome for outcome in column.bold.against_best if outcome is not None]
        for test in dict.fromkeys(outcome.test for outcome in against if outcome.p is not None):
            deciding.setdefault(test, []).append(column.column.title)
        for reason in dict.fromkeys(str(outcome.reason) for outcome in against if outcome.p is None):
            reasons.setdefault(reason, []).append(column.column.title)
    if deciding:
        by = "; ".join(f"{_WHAT[test]}, for {_listed(titles)}" for test, titles in deciding.items())
        yield (
            f"bold: the best row and every row that cannot be told from it (p >= {LEVEL} after Holm over "
            f"{len(columns[0].values) - 1}), by {by}"
        )
    for reason, titles in reasons.items():
        yield f"bold: only the best mean, no claim over rows that no test can judge, in {_listed(titles)}: {reason}"


def _default_notes(default: str, rows: Sequence[str], columns: Sequence[Compared]) -> Iterator[str]:
    """One line for each test: what it is, its smallest p, and which rows differ; in words where it can say nothing."""
    for test in (FRIEDMAN, WILCOXON):
        found: dict[str, list[str]] = {}
        able: dict[str, Outcome] = {}
        unable: dict[str, list[str]] = {}
        for column in columns:
            for name, outcome in zip(rows, _of_test(column, test), strict=True):
                if outcome is None:
                    continue
                if outcome.p is None:
                    titles = unable.setdefault(str(outcome.reason), [])
                    titles += [column.column.title] if column.column.title not in titles else []
                    continue
                able.setdefault(outcome.counted.replace(" differ", ""), outcome)
                if outcome.significant:
                    way = {1: "better", -1: "worse", 0: "different"}[outcome.direction]
                    found.setdefault(column.column.title, []).append(f"{name} {way} (p = {outcome.adjusted_p:.2g})")
        beginning = f"each row against the default row {default!r} by {_WHAT[test]}"
        if able:
            first = next(iter(able.values()))
            together = "" if first.comparisons == 1 else f", times {first.comparisons} by Holm for the first of as many"
            differ = "; ".join(f"{title}: {', '.join(which)}" for title, which in found.items())
            yield (
                f"{beginning} ({_counts(test, able)}smallest attainable p {first.smallest_p:.2g}{together}): "
                f"{differ or 'no row differs'}"
            )
        for reason, titles in unable.items():
            yield f"{beginning}, {_listed(titles)}: {reason}"


def _counts(test: str, able: Mapping[str, Outcome]) -> str:
    """The seeds and splits of the tests; how many videos differ is another number for each pair."""
    return f"{' or '.join(able)}; " if test == FRIEDMAN else ""


def _of_test(column: Compared, test: str) -> list[Outcome | None]:
    return [
        None if pair is None else pair.seeds if test == FRIEDMAN else pair.videos for pair in column.against_default
    ]


def _outcomes(columns: Sequence[Compared]) -> Iterator[Outcome]:
    for column in columns:
        yield from (outcome for outcome in column.bold.against_best if outcome is not None)
        for test in (FRIEDMAN, WILCOXON):
            yield from (outcome for outcome in _of_test(column, test) if outcome is not None)


def _listed(titles: Sequence[str]) -> str:
    return ", ".join(titles)
