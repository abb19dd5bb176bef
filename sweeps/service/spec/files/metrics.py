"""The columns that a file names for its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mucon.errors import nearest
from mucon.inference import PREDICTIONS
from mucon.metrics.catalogue import METRICS, SCALES, metric_of
from sweeps.service.spec.columns import Column

UNITS = tuple(SCALES)
KEYS = ("metric", "prediction", "title", "unit")


def columns_of(value: object, wrong: Callable[[str, str], None]) -> tuple[Column, ...]:
    """The columns of a file's `metrics`.

    Args:
        value: a list of names, as `mof` or `frames.mof`, or of mappings with the keys of `KEYS`.
        wrong: told of each problem, the place first.

    Returns:
        The columns; none where the file does not tell or is wrong.

    >>> [(column.title, column.prediction, column.shown_unit) for column in columns_of(["mof", "frames.edit"], print)]
    [('MoF', 'full', 'percent'), ('Edit frames', 'frames', 'percent')]
    """
    if value is None:
        return ()
    if not isinstance(value, list) or not value:
        wrong("metrics", f"they are a list with at least one name, not {value!r}: write as [mof, frames.mof]")
        return ()
    found: list[Column] = []
    for i, one in enumerate(value):
        column = _column(one, f"metrics[{i}]", wrong)
        if column is not None and column.title in {other.title for other in found}:
            wrong(f"metrics[{i}]", f"columns have distinct titles, {column.title!r} stands twice: give one a title")
        elif column is not None:
            found.append(column)
    return tuple(found)


def _column(value: object, place: str, wrong: Callable[[str, str], None]) -> Column | None:
    if isinstance(value, str):
        prediction, dot, metric = value.rpartition(".")
        facts: dict[str, Any] = {"metric": metric, **({"prediction": prediction} if dot else {})}
    elif isinstance(value, Mapping):
        facts = dict(value)
    else:
        wrong(place, f"it is the name of a metric, or a mapping with one, not {value!r}: write as mof")
        return None
    bad = False
    for key in facts:
        if key not in KEYS:
            bad = True
            wrong(f"{place}.{key}", f"there is no such key{nearest(str(key), KEYS)}: it is one of {', '.join(KEYS)}")
    names = [metric.name for metric in METRICS]
    for key, known in (("metric", names), ("prediction", PREDICTIONS), ("unit", UNITS)):
        if (key in facts or key == "metric") and facts.get(key) not in known:
            bad = True
            likely = nearest(str(facts.get(key)), known)
            which = f"one of {', '.join(known)}" if not likely or key != "metric" else "the name of a score"
            wrong(place, f"a {key} is {which}, not {facts.get(key)!r}{likely}: correct it")
    if bad:
        return None
    title = metric_of(facts["metric"]).title
    return Column(**{"title": f"{title} {facts['prediction']}" if "prediction" in facts else title, **facts})
