"""The columns that a file names for its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mucon.errors import nearest
from mucon.inference import PREDICTIONS
from mucon.metrics.alignment import BY_INDEX
from mucon.metrics.boundaries import BOUNDARY_ERROR, BOUNDARY_ERROR_BY_INDEX
from mucon.metrics.scores import METRICS
from sweeps.service.spec.columns import TIMES, Column

UNITS = ("percent", "fraction", "seconds", "frames")
KEYS = ("metric", "prediction", "title", "unit")
KNOWN = (
    *METRICS,
    *BY_INDEX,
    *(
        f"{name}{kind}_{unit}"
        for name in (BOUNDARY_ERROR, BOUNDARY_ERROR_BY_INDEX)
        for kind in ("", "_median")
        for unit in ("frames", "seconds")
    ),
    *TIMES,
)
"""Every metric that a column can show."""
_TITLES = {
    "mof": "MoF",
    "mof_without_background": "MoF-BG",
    "iod": "IoD",
    "iou": "IoU",
    "edit": "Edit",
    "matching_score": "Mat Score",
    "inference_seconds": "s/video",
    "training_seconds": "training, s",
    **{f"f1_at_{percent}": f"F1@{percent}" for percent in (10, 25, 50)},
}


def columns_of(value: object, wrong: Callable[[str, str], None]) -> tuple[Column, ...]:
    """The columns of a file's `metrics`.

    Args:
        value: a list of names, as `mof` or `frames.mof`, or of mappings with the keys of `KEYS`.
        wrong: told of each problem, the place first.

    Returns:
        The columns; none where the file does not tell or is wrong.

    >>> [(column.title, column.prediction, column.unit) for column in columns_of(["mof", "frames.edit"], print)]
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
    for key, known in (("metric", KNOWN), ("prediction", PREDICTIONS), ("unit", UNITS)):
        if (key in facts or key == "metric") and facts.get(key) not in known:
            bad = True
            likely = nearest(str(facts.get(key)), known)
            which = f"one of {', '.join(known)}" if not likely or key != "metric" else "the name of a score"
            wrong(place, f"a {key} is {which}, not {facts.get(key)!r}{likely}: correct it")
    if bad:
        return None
    metric = facts["metric"]
    title = _TITLES.get(metric, metric.replace("_", " "))
    made = {"title": f"{title} {facts['prediction']}" if "prediction" in facts else title, "unit": _unit(metric)}
    return Column(**{**made, **facts})


def _unit(metric: str) -> str:
    """How a metric is shown.

    >>> _unit("mof"), _unit("matching_score"), _unit("boundary_error_frames"), _unit("inference_seconds")
    ('percent', 'fraction', 'frames', 'seconds')
    """
    last = metric.rpartition("_")[2]
    return last if last in ("frames", "seconds") else "fraction" if metric == "matching_score" else "percent"
