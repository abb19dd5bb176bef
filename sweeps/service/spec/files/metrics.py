"""The columns that a sweep file names for its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mucon.errors import Problem
from mucon.inference import PREDICTIONS
from mucon.metrics.catalogue import METRICS, SCALES, metric_of
from sweeps.service.spec.columns import Column
from sweeps.service.spec.files.axes import check_keys, text_of
from sweeps.service.spec.problems import unknown

UNITS = tuple(SCALES)
KEYS = ("metric", "prediction", "title", "unit")


def columns_of(problems: list[Problem], metrics: object, key: str = "metrics") -> tuple[Column, ...]:
    """The columns of a file's `metrics`, or of another key.

    Args:
        problems: is appended to.
        metrics: a list of names, such as `mof` or `frames.mof`, or of mappings with the keys of `KEYS`.
        key: where they are in the file.

    Returns:
        The columns; empty if `metrics` is None or wrong.

    >>> [(column.title, column.prediction, column.shown_unit) for column in columns_of([], ["mof", "frames.edit"])]
    [('MoF', 'full', 'percent'), ('Edit frames', 'frames', 'percent')]
    """
    if metrics is None:
        return ()
    if not isinstance(metrics, list) or not metrics:
        expected = "a list of metrics, such as [mof, frames.mof]"
        problems.append(Problem(rule="type", place=key, value=metrics, expected=expected))
        return ()
    columns: dict[str, Column] = {}
    for i, one in enumerate(metrics):
        column = _column(problems, one, f"{key}[{i}]")
        if column is not None and column.title in columns:
            message = f"duplicate title {column.title!r}"
            problems.append(Problem(rule="duplicate", place=f"{key}[{i}]", value=column.title, message=message))
        elif column is not None:
            columns[column.title] = column
    return tuple(columns.values())


def _column(problems: list[Problem], metric: object, place: str) -> Column | None:
    if isinstance(metric, str):
        prediction, dot, name = metric.rpartition(".")
        values: dict[str, Any] = {"metric": name, **({"prediction": prediction} if dot else {})}
    elif isinstance(metric, Mapping):
        values = dict(metric)
    else:
        expected = "the name of a metric, such as mof, or a mapping with it"
        problems.append(Problem(rule="type", place=place, value=metric, expected=expected))
        return None
    before = len(problems)
    check_keys(problems, f"{place}.", values, KEYS)
    names = [known.name for known in METRICS]
    for key, known in (("metric", names), ("prediction", PREDICTIONS), ("unit", UNITS)):
        if (key in values or key == "metric") and values.get(key) not in known:
            problems.append(unknown(place, key, values.get(key), known))
    if "title" in values:
        values["title"] = text_of(problems, values, "title", "", f"{place}.")
    if len(problems) > before:
        return None
    title = metric_of(values["metric"]).title
    return Column(**{"title": f"{title} {values['prediction']}" if "prediction" in values else title, **values})
