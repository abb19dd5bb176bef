"""Results from elsewhere as rows of a table: the checks that files and tracking servers have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from mucon.errors import InputError, Problem, nearest, some
from mucon.metrics.catalogue import METRICS, metric_of
from sweeps.service.plan.imported import ImportedRow, Source, Value
from sweeps.service.spec.columns import Prediction
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.texts import row_name, text_problems

SCALES = {"percent": 100.0, "fraction": 1.0}
"""How a source states shares -> its largest value. Frames and seconds are not converted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The scores of one training from elsewhere, or of several together.

    Attributes:
        place: file with line, or run.
        labels: one for each label column of the table.
        split: name of the split; None if it is not stated.
        seed: None for a value that is quoted without seeds.
        scores: (prediction, metric) -> value in the unit of the result files.
    """

    place: str
    labels: tuple[str, ...]
    split: str | None
    seed: int | None
    scores: Mapping[tuple[str, str], float]

    @property
    def name(self) -> str:
        """The non-empty labels as one text."""
        return row_name(self.labels)


def score_named(name: str, place: str, others: Iterable[str] = ()) -> tuple[str, str]:
    """Prediction and metric of a name such as `mof`, which is that of the prediction `full`, or `frames.mof`.

    Args:
        name: the name.
        place: where it is, for errors.
        others: further names that are known there.

    Raises:
        InputError: unknown prediction or metric.
    """
    prediction, dot, metric = name.rpartition(".")
    known = [one.name for one in METRICS]
    if metric not in known or (dot and prediction not in get_args(Prediction)):
        likely = nearest(metric, [*known, *others])
        message, hint = f"unknown metric {name!r}{likely}", "" if likely else f"expected one of {some(known)}"
        raise InputError(Problem(rule="unknown", place=place, value=name, message=message, hint=hint))
    return prediction or "full", metric


def is_share(metric: str) -> bool:
    """Whether a metric is a share, which sources state in percent or as a fraction."""
    return metric_of(metric).unit in ("percent", "fraction")


def stored_value(value: float, metric: str, scale: str, place: str) -> float:
    """A value in the unit of the result files.

    Args:
        value: as the source states it.
        metric: name of the metric.
        scale: how the source states shares, one of `SCALES`.
        place: where the value is, for errors.

    Raises:
        InputError: a value that the metric cannot have.

    >>> stored_value(49.5, "mof", "percent", ""), stored_value(30, "boundary_error_frames", "percent", "")
    (0.495, 30.0)
    """
    top = SCALES[scale] if is_share(metric) else math.inf
    if not (math.isfinite(value) and 0 <= value <= top):
        expected = f"0 to {top:g} ({scale})" if top < math.inf else "a finite number, at least 0"
        raise InputError(Problem(rule="range", place=place, value=value, expected=expected))
    return float(value) / (top if top < math.inf else 1.0)


def rows_of(
    records: Sequence[Record], experiment: Experiment, splits: Iterable[str], source: Source
) -> tuple[ImportedRow, ...]:
    """The rows of a table that records make.

    Args:
        records: at least one score each.
        experiment: the table.
        splits: all splits of the sweep.
        source: where the records come from.

    Raises:
        InputError: a duplicate seed, a row without a value on every split, a row that the table has, or no value that
            the table shows.
    """
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(record.labels, []).append(record)
    problems = [problem for group in groups.values() for problem in _problems(group, experiment, tuple(splits))]
    shown = {(column.prediction, column.metric) for column in experiment.columns}
    if not problems and not any(shown & record.scores.keys() for record in records):
        titles = some(f"{prediction}.{metric}" for prediction, metric in sorted(shown))
        message = f"no value that {experiment.name} shows; it has {titles}"
        problems.append(Problem(rule="missing", place=source.name, value=experiment.name, message=message))
    problems += _scale_problems(records, source)
    if problems:
        raise InputError(problems)
    return tuple(
        ImportedRow(
            table=experiment.name,
            labels=labels,
            source=source,
            values=tuple(
                Value(record.split, record.seed, *name, value)
                for record in group
                for name, value in record.scores.items()
            ),
        )
        for labels, group in groups.items()
    )


def _problems(group: Sequence[Record], experiment: Experiment, splits: Sequence[str]) -> Iterator[Problem]:
    """The problems of the records of one row."""
    first = group[0]
    yield from text_problems(f"{first.place}: labels", *first.labels)
    if not first.name:
        yield Problem(rule="missing", place=first.place, value="", message="row without a label")
    if first.name in [row.name for row in experiment.variants]:
        message, hint = f"{experiment.name} has a row {first.name!r} of its own", "give the imported row another label"
        yield Problem(rule="duplicate", place=first.place, value=first.name, message=message, hint=hint)
    seen: dict[tuple[str | None, int | None], Record] = {}
    for record in group:
        key = (record.split, record.seed)
        if key in seen:
            which = "no seed" if record.seed is None else f"seed {record.seed}"
            on = "" if record.split is None else f" on split {record.split}"
            message = f"duplicate value of row {record.name!r} with {which}{on}, first in {seen[key].place}"
            yield Problem(rule="duplicate", place=record.place, value=record.seed, message=message)
        seen.setdefault(key, record)
        if record.split is not None and record.split not in splits:
            message = f"unknown split {record.split!r}{nearest(record.split, list(splits))}"
            hint = f"the sweep has {some(splits)}; leave the split out for a mean over all of them"
            yield Problem(rule="unknown", place=record.place, value=record.split, message=message, hint=hint)
        for name, of in (("seed", record.seed), ("split", record.split)):
            if (of is None) != (getattr(first, name) is None):
                message = f"row {record.name!r} has values with and without a {name}"
                yield Problem(rule="mismatch", place=record.place, value=name, message=message)
    for seed in dict.fromkeys(record.seed for record in group if record.split is not None):
        missing = [name for name in splits if (name, seed) not in seen]
        if missing:
            which = "" if seed is None else f" with seed {seed}"
            message = f"row {first.name!r}{which} has no value on split {some(missing)}"
            hint = "its mean would be over other recordings than those of the other rows"
            yield Problem(rule="missing", place=first.place, value=missing[0], message=message, hint=hint)


def _scale_problems(records: Sequence[Record], source: Source) -> Iterator[Problem]:
    """The problem of shares in percent that all look like fractions."""
    shares = [value for record in records for (_, metric), value in record.scores.items() if is_share(metric)]
    if source.scale == "percent" and shares and max(shares) <= 0.01 and any(shares):
        message = f"every share is at most 1 %, the largest {100 * max(shares):g} %"
        hint = "fractions are --scale fraction"
        yield Problem(rule="mismatch", place=source.name, value=source.scale, message=message, hint=hint)
