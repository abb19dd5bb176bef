"""Notes on the seeds of a table: whether they tell the best rows apart, and which of them collapsed."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from mucon.metrics.catalogue import SCALES, Unit
from sweeps.service.stats.comparisons import SeedValues, seed_means, split_names
from sweeps.service.stats.power import MOST_SEEDS, PairedDifference, paired_difference
from sweeps.service.stats.significance import MIN_SEEDS, count_text
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.notes import Compared, some_rows
from sweeps.service.text import significant

Cells = tuple[tuple[str, int], ...]
"""Split and seed of some trainings of a row."""

UNITS: dict[Unit, str] = {"percent": " points", "fraction": "", "frames": " frames", "seconds": " s", "number": ""}
"""The unit of a difference, as text after a number."""


def seeds_notes(
    names: Sequence[str], column: Compared | None, collapsed: Sequence[Cells], *, has_power: bool = True
) -> Iterator[str]:
    """The difference of the two best rows with the seeds that would show it, and the collapsed seeds.

    Args:
        names: names of the rows.
        column: the first tested column with values; None without such a column.
        collapsed: collapsed trainings of each row.
        has_power: whether to note the difference; not if the results decided how many seeds each row has.
    """
    if column is not None:
        yield from _power_notes(names, column) if has_power else ()
        yield from _collapse_notes(names, column, collapsed)


def others_text(count: int, of: int) -> str:
    """Some of the other rows as text.

    >>> others_text(1, 1), others_text(4, 4), others_text(1, 4)
    ('the other row', 'all 4 other rows', '1 of 4 other rows')
    """
    if count < of:
        return f"{count} of {of} other rows"
    return "the other row" if of == 1 else f"all {of} other rows"


def _power_notes(names: Sequence[str], column: Compared) -> Iterator[str]:
    """Whether a difference of the best rows is shown, that of the two best, and the seeds that would show it."""
    title, sign = column.column.title, 1 if column.column.higher_is_better else -1
    means = {i: sign * statistics.fmean(_means(row).values()) for i, row in enumerate(column.values) if row}
    if len(means) < 2:
        alone = f"no row but {names[min(means)]!r} has a value" if len(names) > 1 else "the table has one row"
        yield f"{title}: no difference shown, as {alone}"
        return
    first, second = sorted(means, key=lambda i: -means[i])[:2]
    level = others_text(len(column.bold.level) - 1, len(means) - 1)
    head = f"no difference shown between {names[first]!r} and {level}; " if len(column.bold.level) > 1 else ""
    found = paired_difference(column.values[first], column.values[second])
    unit = column.column.shown_unit
    yield f"{title}: {head}{names[first]!r} less {names[second]!r}, the two best: {_difference(found, unit)}"
    if found.detectable is None:
        return
    needed = f"more than {MOST_SEEDS} seeds" if found.needed is None else count_text(found.needed, "seed")
    if found.needed is not None and found.needed < MIN_SEEDS:
        needed += f" (tables test rows from {MIN_SEEDS} on)"
    yield (
        f"a paired t test of these two (5 % level, 80 % power) needs {needed} for the difference as estimated; with "
        f"{count_text(found.n_seeds, 'seed')} it shows {_amount(found.detectable, unit)} or more"
    )


def _collapse_notes(names: Sequence[str], column: Compared, collapsed: Sequence[Cells]) -> Iterator[str]:
    """The collapsed seeds of each row, with the means with and without them."""
    unit = column.column.shown_unit
    texts, whole = [], []
    for name, row, cells in zip(names, column.values, collapsed, strict=True):
        means, lost = _means(row), sorted({seed for _, seed in cells})
        kept = [mean for seed, mean in means.items() if seed not in lost]
        if lost and means and not kept:
            whole.append(name)
        elif lost:
            which = f"seed{'s' * (len(lost) > 1)} {', '.join(map(str, lost))}"
            seeds = f"{name!r} {len(lost)} of {len({*means, *lost})} ({which})"
            shown = [summary.text(unit) for of in (means.values(), kept) if (summary := Summary.of(list(of)))]
            texts.append(f"{seeds}, {' with and '.join(shown)} without" if shown else seeds)
    texts += [f"every seed of {some_rows(whole)}"] if whole else []
    if texts:
        rule = "below the feature-free baseline, or beyond median - 3 MAD of the row"
        yield f"collapsed in {column.column.title} ({rule}): {'; '.join(texts)}; means, tests and bold use all seeds"


def _means(row: SeedValues) -> dict[int, float]:
    """Seed -> mean over the splits of the row."""
    return seed_means(row, split_names([row]))


def _difference(found: PairedDifference, unit: Unit) -> str:
    """The difference with its deviations, or why there is none."""
    if found.mean is None:
        return str(found.reason)
    splits = f" and {count_text(found.n_splits, 'split')}" if found.n_splits > 1 else ""
    deviations = [
        f"{_amount(deviation, unit)} over {what}"
        for deviation, what in ((found.over_seeds, "seeds"), (found.over_splits, "splits"))
        if deviation is not None
    ]
    counted = f"{_amount(found.mean, unit)} on the same {count_text(found.n_seeds, 'seed')}{splits}"
    deviation = f", deviation {' and '.join(deviations)}" if deviations else ""
    return f"{counted}{deviation}" + (f"; {found.reason}" if found.reason else "")


def _amount(value: float, unit: Unit) -> str:
    """A difference with three significant digits.

    >>> _amount(0.0108, "percent"), _amount(-0.25, "fraction"), _amount(12.34, "frames")
    ('1.08 points', '-0.25', '12.3 frames')
    """
    return f"{significant(SCALES[unit] * value, 3)}{UNITS[unit]}"
