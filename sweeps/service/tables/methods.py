"""What a table of several methods says about them: passes, schedules, and methods that learn nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sweeps.service.plan.row_facts import RowFacts
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.tables.baselines import ExtraRow
from sweeps.service.tables.notes import some_rows

NOT_BETTER = "†"
"""Marks a row that is no better than the feature-free baseline."""
_SCHEDULES = {
    "passes": "the stated passes, by default with Adam on the mean loss of a video, not the released schedule",
    "published": "optimiser, learning rates and iterations of the released program",
}
Facts = Mapping[tuple[str, ...], RowFacts]
"""Labels of each row -> its facts."""


def shown_facts(variants: Sequence[Variant], facts: Facts) -> Facts:
    """The facts of the rows of a table that compares methods; none for another table."""
    return facts if len({variant.method for variant in variants}) > 1 else {}


def rows_not_better(
    variants: Sequence[Variant],
    columns: Sequence[Column],
    means: Sequence[Sequence[float | None]],
    extra: Sequence[ExtraRow],
) -> dict[int, tuple[Column, ExtraRow]]:
    """Place of each row that is no better than the baseline of its task -> the column and the baseline.

    The column is the first one that is tested, in which both the row and the baseline have a value.
    """
    found = {}
    for place, (variant, row) in enumerate(zip(variants, means, strict=True)):
        for baseline in (one for one in extra if one.kind == "baseline" and one.task == variant.task):
            values = zip(columns, row, baseline.values, strict=True)
            pairs = ((c, a, b) for c, a, b in values if c.is_tested and a is not None and b is not None)
            column, mean, value = next(pairs, (None, 0.0, 0.0))
            if column is not None and not column.better(mean, value):
                found[place] = column, baseline
    return found


def method_notes(
    variants: Sequence[Variant], facts: Facts, not_better: Mapping[int, tuple[Column, ExtraRow]]
) -> Iterator[str]:
    """How the methods of a table are trained, what its marks mean, and which methods learn nothing.

    Args:
        variants: the rows.
        facts: the facts of the rows; empty for a table that does not compare methods.
        not_better: rows that are no better than a feature-free baseline.
    """
    if not facts:
        return
    if any(one.is_main for one in facts.values()):
        yield "a bold name: the prediction that the method is known for; other rows of a method are extras"
    passes: dict[int, list[str]] = {}
    schedules: dict[str, list[str]] = {}
    for variant in variants:
        one = facts[variant.labels]
        passes.setdefault(one.passes, []).append(variant.name)
        if one.schedule:
            schedules.setdefault(one.schedule, []).append(variant.name)
    by_number = "; ".join(f"{number} in {some_rows(names)}" for number, names in passes.items())
    yield f"passes over the training videos: {f'{next(iter(passes))} in every row' if len(passes) == 1 else by_number}"
    for schedule, names in schedules.items():
        yield f"schedule {schedule!r} in {some_rows(names)}: {_SCHEDULES.get(schedule, 'see training.schedule')}"
    reasons: dict[tuple[str, str], list[str]] = {}
    for place, (column, baseline) in not_better.items():
        reasons.setdefault((column.title, baseline.label), []).append(variants[place].name)
    for (title, label), names in reasons.items():
        yield (
            f"{NOT_BETTER} no better in {title} than the feature-free baseline {label!r}, which never looks at a "
            f"recording, so nothing that was learned from the features helps: {', '.join(map(repr, names))}"
        )
