"""By how much a search overstates its best points: its scores beside those of fresh seeds on the test part."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mucon.metrics.catalogue import SCALES
from sweeps.service.search.points import SearchHistory
from sweeps.service.search.rules import optimism
from sweeps.service.spec.columns import Column
from sweeps.service.stats.comparisons import Comparison
from sweeps.service.stats.significance import MIN_SEEDS
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.enough import UNITS
from sweeps.service.tables.notes import Notes
from sweeps.service.tables.table import Row, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """A point of the last step.

    Attributes:
        number: its number.
        labels: its number and settings, as in the tables.
        default: whether it is the base configuration.
        search: the first objective over the seeds of the search, on the validation part; None without a score.
        fresh: the same over fresh seeds, on the test part; None without a score.
        against_default: its test against the base configuration, over fresh seeds; None without one.
    """

    number: int
    labels: tuple[str, ...]
    default: bool
    search: Summary | None
    fresh: Summary | None
    against_default: Comparison | None

    def optimism(self, column: Column) -> float | None:
        """By how much the search overstates it; negative if fresh seeds are better."""
        if self.search is None or self.fresh is None:
            return None
        return optimism(column, [self.search.mean], [self.fresh.mean])


def fresh_points(history: SearchHistory, final: Table) -> list[Fresh]:
    """The points of the last step, the best of the search first.

    Args:
        history: the search.
        final: the table of the last step, whose first column is the first objective.
    """
    places = {number: place for place, number in enumerate(history.best)}
    points = []
    for row in (row for row in final.rows if row.kind == "row"):
        record = history.record(int(row.labels[0]))
        points.append(
            Fresh(
                number=record.point.number,
                labels=row.labels,
                default=row.default,
                search=Summary.of([score.objectives[0] for _, score in sorted(record.scores.items())]),
                fresh=row.summaries[0],
                against_default=row.against_default[0],
            )
        )
    return sorted(points, key=lambda one: places.get(one.number, len(places)))


def optimism_table(name: str, title: str, points: Sequence[Fresh], final: Table) -> Table:
    """The table of the optimism, with what follows from it as notes.

    Args:
        name: name of the search.
        title: its caption.
        points: see `fresh_points`.
        final: the table of the last step.
    """
    column = final.columns[0]
    titles = f"{column.title} in the search (validation)", f"{column.title} afresh (test)", "optimism"
    rows = [
        Row(
            labels=point.labels,
            summaries=(point.search, point.fresh, None if (gap := point.optimism(column)) is None else _alone(gap)),
            seeds=None,
            default=point.default,
            bold=(False,) * 3,
            against_default=(None,) * 3,
            against_best=(None,) * 3,
        )
        for point in points
    ]
    return Table(
        name=f"{name}_optimism",
        title=f"{title}: what fresh seeds say of the best points",
        label_titles=final.label_titles,
        columns=tuple(replace(column, title=title) for title in titles),
        rows=tuple(rows),
        notes=Notes(statistics=tuple(sentences(column, points))),
    )


def sentences(column: Column, points: Sequence[Fresh]) -> Iterator[str]:
    """What the table says: which score to trust, by how much the search flatters, and whether there is a difference.

    Args:
        column: the first objective.
        points: those of the last step, the best of the search first.
    """
    scored = [point for point in points if point.fresh is not None]
    if not scored:
        return
    unit = column.shown_unit
    chosen = max(scored, key=lambda point: _mean(point.fresh) if column.higher_is_better else -_mean(point.fresh))
    text = chosen.fresh.text(unit) if chosen.fresh else ""
    yield f"choose by the fresh score: point {chosen.number} has the best one, {column.title} {text}"
    first = next((point for point in scored if not point.default), scored[0])
    if (gap := first.optimism(column)) is not None:
        how = "optimistic" if gap > 0 else "not optimistic"
        yield f"the search's score of point {first.number} is {how}: {_signed(column, gap)} against its fresh score"
    default = next((point for point in scored if point.default), None)
    if default is None:
        return
    if (gap := default.optimism(column)) is not None and default is not first:
        yield (
            f"that of point {default.number}, the base configuration, differs by {_signed(column, gap)}: it was not "
            "chosen by its score, so that this is what the two parts and the size of the training part make"
        )
    if not any(_is_better(point) for point in scored):
        few = min(point.fresh.n for point in scored if point.fresh is not None) < MIN_SEEDS
        why = f"fewer than {MIN_SEEDS} seeds cannot tell rows apart" if few else "the differences may be noise"
        yield f"the fresh seeds do not show that a point is better than the base configuration: {why}"


def comma_separated(points: Sequence[Fresh], final: Table) -> str:
    """The table as CSV, in full precision and in the unit of the result files; see `optimism_table`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    parts = [f"{name}.{part}" for name in ("search", "fresh") for part in ("mean", "std", "n")]
    writer.writerow([*final.label_titles, "default", *parts, "optimism", "p_fresh"])
    for point in points:
        values: list[object] = [*point.labels, int(point.default)]
        for summary in (point.search, point.fresh):
            values += ["", "", 0] if summary is None else [summary.mean, summary.std, summary.n]
        p = None if point.against_default is None else point.against_default.seeds.adjusted_p
        writer.writerow([*values, point.optimism(final.columns[0]), p])
    return text.getvalue()


def _alone(value: float) -> Summary:
    return Summary(value, None, 1)


def _mean(summary: Summary | None) -> float:
    assert summary is not None  # of a point that has a score
    return summary.mean


def _signed(column: Column, value: float) -> str:
    """A difference with its sign, in points for percentages."""
    return f"{SCALES[column.shown_unit] * value:+.3g}{UNITS[column.shown_unit]}"


def _is_better(point: Fresh) -> bool:
    test = None if point.against_default is None else point.against_default.seeds
    return test is not None and test.significant and test.direction > 0
