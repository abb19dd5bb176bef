"""Which figure stands beside a table: a value of the experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mucon.errors import nearest

Kind = Literal["bars", "curve", "scatter", "segmentations"]
KINDS = ("bars", "curve", "scatter", "segmentations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a table.

    Attributes:
        kind: `bars` of each row's mean; a `curve` over the number in a label; a `scatter` of two columns;
            `segmentations` of recordings, the truth and each row under each other.
        y: title of the column that is shown; the first when None.
        x: of a curve the title of the label column whose numbers are on the axis, of a scatter the title of the column.
        x_title: the axis's text; `x` when None.
        recordings: ids of those whose segmentations are drawn; when empty, the first of the test part.
        n_recordings: how many, when they are not named.
    """

    kind: Kind = "bars"
    y: str | None = None
    x: str | None = None
    x_title: str | None = None
    recordings: tuple[str, ...] = ()
    n_recordings: int = 3

    def problems(self, label_titles: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
        """What keeps the figure from being drawn of a table.

        Args:
            label_titles: the table's label columns.
            columns: titles of the table's scores.
        """
        if self.kind not in KINDS:
            yield f"a figure is one of {', '.join(KINDS)}, {self.kind!r} is none{nearest(self.kind, KINDS)}: name one"
        if self.y is not None and self.y not in columns:
            yield f"a figure shows a column of its table, {self.y!r} is none{nearest(self.y, columns)}: name one"
        if self.kind in ("curve", "scatter"):
            among = label_titles if self.kind == "curve" else columns
            what = "label column" if self.kind == "curve" else "column"
            if self.x is None or self.x not in among:
                likely = nearest(self.x, among) if self.x else ""
                yield f"the x axis of a {self.kind} is a {what} of its table, {self.x!r} is none{likely}: name one"
        if self.n_recordings < 1:
            yield f"a figure shows at least one recording, not {self.n_recordings}: leave `n_recordings` out"
