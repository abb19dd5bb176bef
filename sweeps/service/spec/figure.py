"""The figure of a table, as a value of the experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mucon.errors import Problem
from sweeps.service.spec.problems import unknown

Kind = Literal["bars", "curve", "scatter", "segmentations"]
KINDS = ("bars", "curve", "scatter", "segmentations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a table.

    Attributes:
        kind: `bars` of each row's mean; a `curve` over the number in a label; a `scatter` of two columns;
            `segmentations` of recordings, the ground truth and each row below each other.
        y: title of the column on the y axis; None for the first column.
        x: title of a label column that contains numbers (`curve`), or title of a column (`scatter`).
        x_title: label of the x axis; `x` if None.
        recordings: ids of the recordings whose segmentations are drawn; if empty, the first ones of the scored part.
        n_recordings: number of recordings if `recordings` is empty.
    """

    kind: Kind = "bars"
    y: str | None = None
    x: str | None = None
    x_title: str | None = None
    recordings: tuple[str, ...] = ()
    n_recordings: int = 3

    def problems(self, label_titles: Sequence[str], columns: Sequence[str]) -> Iterator[Problem]:
        """The reasons why the figure cannot be drawn of a table.

        Args:
            label_titles: titles of the table's label columns.
            columns: titles of the table's score columns.
        """
        if self.kind not in KINDS:
            yield unknown("figure.kind", "figure", self.kind, KINDS)
        if self.y is not None and self.y not in columns:
            yield unknown("figure.y", "column", self.y, columns)
        if self.kind in ("curve", "scatter"):
            titles, what = (label_titles, "label column") if self.kind == "curve" else (columns, "column")
            if self.x is None:
                expected = f"a {what} for the x axis, one of {', '.join(titles)}"
                yield Problem(rule="missing", place="figure.x", expected=expected)
            elif self.x not in titles:
                yield unknown("figure.x", what, self.x, titles)
        if self.n_recordings < 1:
            yield Problem(rule="range", place="figure.n_recordings", value=self.n_recordings, expected="at least 1")
