"""Rows of a table that only quote what a paper reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from mucon.metrics.catalogue import metric_of

Value = float | tuple[float, float]
"""A mean, or a mean and its standard deviation, as printed: shares in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A row with numbers of a paper, which tables show in another style and never compare.

    Attributes:
        labels: one text for each of the experiment's `label_titles`.
        data: data set of the numbers; a sweep shows the row if its command names it.
        values: metric -> value in the columns of that metric.
        source: where the numbers stand.
        convention: how the paper computes them.
        supervision: what the method is trained from.

    Raises:
        InputError: an unknown metric.
    """

    labels: tuple[str, ...]
    data: str
    values: Mapping[str, Value] = field(hash=False)
    source: str
    convention: str
    supervision: str = "transcripts"

    def __post_init__(self) -> None:
        for metric in self.values:
            metric_of(metric)

    @property
    def name(self) -> str:
        """The labels as one text."""
        return ", ".join(self.labels)

    def numbers(self, metric: str) -> tuple[float, float | None] | None:
        """Mean and deviation in the unit of results, such as fractions; None without a value."""
        if metric not in self.values:
            return None
        value, scale = self.values[metric], metric_of(metric).scale
        mean, deviation = value if isinstance(value, tuple) else (value, None)
        return mean / scale, None if deviation is None else deviation / scale

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "values": dict(self.values)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`, also after JSON has made lists of tuples."""
        numbers = {
            metric: (float(one[0]), float(one[1])) if isinstance(one, list | tuple) else float(one)
            for metric, one in value["values"].items()
        }
        return cls(**{**value, "labels": tuple(value["labels"]), "values": numbers})


def quoted_rows(
    data: str,
    source: str,
    convention: str,
    values: Mapping[str, Mapping[str, Value]],
    supervision: str = "transcripts",
) -> tuple[Quoted, ...]:
    """A quoted row for each method of a source, in a table with one label column.

    Args:
        data: data set of the numbers.
        source: where they stand.
        convention: how the source computes them.
        values: name of the method -> metric -> value as printed.
        supervision: what the methods are trained from.
    """
    same = {"data": data, "source": source, "convention": convention, "supervision": supervision}
    return tuple(Quoted(labels=(name,), values=of_row, **same) for name, of_row in values.items())
