"""The notes under a table whose results decided how many seeds each row has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from mucon.metrics.catalogue import DECIMALS, SCALES, Unit
from sweeps.service.plan.seeds import compared_column
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.seeds import SeedRule
from sweeps.service.stats.sequential import Decision, RowSeeds
from sweeps.service.stats.significance import LEVEL, count_text
from sweeps.service.tables.enough import UNITS
from sweeps.service.text import significant


def sequence_notes(experiment: Experiment, rule: SeedRule, found: Mapping[tuple[str, ...], RowSeeds]) -> Iterator[str]:
    """The rule, its decision about each row with the interval of the difference, and why nothing is bold.

    Args:
        experiment: the table.
        rule: the rule.
        found: labels -> what the seeds say about a row, for each row besides the default row.
    """
    column = compared_column(experiment)
    if column is None or not found:
        return
    unit, names = column.shown_unit, {row.labels: row.name for row in experiment.variants}
    against = f"the default row {experiment.default_row!r} in {column.title}"
    yield (
        f"seeds {rule}: a row gets seeds until the interval of its difference from {against} excludes 0 or lies within "
        f"±{rule.until:g}{UNITS[unit]}; with {100 * (1 - LEVEL):g} % probability, the intervals for all numbers "
        f"of seeds contain the true difference{' of each row' if len(found) > 1 else ''} (confidence sequence)"
    )
    decisions = "; ".join(f"{names[labels]!r} {_decision(one, unit)}" for labels, one in found.items())
    yield f"difference from {against}{UNITS[unit] and ', in'}{UNITS[unit]}: {decisions}"
    if not any(one.decision in (Decision.BETTER, Decision.WORSE) for one in found.values()):
        yield "no difference shown"
    yield "no bold, no p values and no intervals of means: they need a number of seeds that the results do not decide"
    yield "the intervals cover new seeds on these recordings, not new recordings"


def _decision(found: RowSeeds, unit: Unit) -> str:
    """The decision about a row with difference, interval and number of pairs.

    >>> known = RowSeeds(needed=4, decision=Decision.BETTER, pairs=4, difference=0.05, interval=(0.01, 0.09))
    >>> _decision(known, "percent"), _decision(RowSeeds(needed=3), "percent")
    ('better: +5.0 (+1.0 to +9.0, 4 seeds)', 'open')
    """
    if found.difference is None:
        return str(found.decision)
    ends = [_signed(end, unit) for end in found.interval]
    interval = "no interval" if math.isinf(found.interval[0]) else f"{ends[0]} to {ends[1]}"
    return f"{found.decision}: {_signed(found.difference, unit)} ({interval}, {count_text(found.pairs, 'seed')})"


def _signed(value: float, unit: Unit) -> str:
    digits, scaled = DECIMALS[unit], SCALES[unit] * value
    return f"{'+' * (scaled >= 0)}{significant(scaled, 3)}" if digits is None else f"{scaled:+.{digits}f}"
