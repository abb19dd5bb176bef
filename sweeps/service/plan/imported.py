"""Rows of a table with results from elsewhere, `RESULTS/sweeps/NAME/imported.json`; no run changes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mucon.errors import InputError
from mucon.metrics.catalogue import metric_of
from sweeps.service.spec.columns import check_prediction
from sweeps.service.spec.texts import row_name, text_problems
from sweeps.service.trials.json_files import NUMBER, damaged, misfit, read_json, write_json

FILE = "imported.json"
FORMAT_VERSION = 1
HINT = "remove the file, and import the rows again"
SHAPE = {
    "rows": [
        {
            **{"table": str, "labels": [str]},
            "source": {"kind": str, "name": str, "sha256": str, "date": str, "scale": str},
            "values": [
                {
                    "split": (str, type(None)),
                    "seed": (int, type(None)),
                    "prediction": str,
                    "metric": str,
                    "value": NUMBER,
                }
            ],
        }
    ]
}


class Value(NamedTuple):
    """A score from elsewhere.

    Attributes:
        split: name of the split; None if the source does not name it, as for a mean over all splits.
        seed: None for a value that is quoted without seeds.
        prediction: prediction whose columns show it.
        metric: name of a metric of the catalogue.
        value: in the unit of the result files.
    """

    split: str | None
    seed: int | None
    prediction: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a row was imported from.

    Attributes:
        kind: `csv` or `mlflow`.
        name: name of the file; or address of the server, without its password, and experiment.
        sha256: of the file; of the values that were read from a server.
        date: day of the import in UTC, as `2026-01-31`.
        scale: how the source states shares: `percent` or `fraction`; empty without shares.
    """

    kind: str
    name: str
    sha256: str
    date: str
    scale: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRow:
    """A row of a table with results from elsewhere.

    Attributes:
        table: name of the table.
        labels: one for each label column of the table.
        source: where it comes from.
        values: its scores; either all have a seed or none has one, and likewise a split.
    """

    table: str
    labels: tuple[str, ...]
    source: Source
    values: tuple[Value, ...]

    @property
    def name(self) -> str:
        """The non-empty labels as one text."""
        return row_name(self.labels)

    def seed_values(self, prediction: str, metric: str) -> dict[tuple[str, int], float]:
        """The values of a score by split and seed; an absent split is empty, and an absent seed 0."""
        return {
            (one.split or "", one.seed or 0): one.value
            for one in self.values
            if (one.prediction, one.metric) == (prediction, metric)
        }

    @property
    def seeds(self) -> frozenset[int]:
        """Its seeds; empty for quoted values."""
        return frozenset(one.seed for one in self.values if one.seed is not None)


@dataclass(frozen=True, slots=True)
class Imported:
    """The imported rows of a sweep.

    Attributes:
        rows: in the order of their import; empty if the file is damaged.
        damage: the damaged file and what is wrong with it, as one line; empty if it is whole.
    """

    rows: tuple[ImportedRow, ...] = ()
    damage: str = ""

    def of(self, table: str) -> tuple[ImportedRow, ...]:
        """The rows of a table."""
        return tuple(row for row in self.rows if row.table == table)


def read_imported(folder: Path) -> Imported:
    """The imported rows in a sweep's directory; a damaged file, or one of another version, hides no other result."""
    try:
        return Imported(read_rows(folder))
    except InputError as error:
        return Imported(damage=error.line)


def read_rows(folder: Path) -> tuple[ImportedRow, ...]:
    """The imported rows in a sweep's directory; none without the file.

    Raises:
        InputError: the file is damaged or of another format version.
    """
    path = folder / FILE
    if not path.exists():
        return ()
    return imported_rows(read_json(path, versions=(FORMAT_VERSION,), hint=HINT, shape=SHAPE)["rows"], path)


def imported_rows(values: Sequence[Mapping[str, Any]], path: Path) -> tuple[ImportedRow, ...]:
    """The rows of plain values of the `SHAPE`.

    Args:
        values: as `plain_rows` returns them.
        path: file with the values, for errors.

    Raises:
        InputError: the values are damaged.
    """
    if wrong := misfit({"rows": list(values)}, SHAPE):
        raise damaged(path, wrong, HINT)
    rows = []
    for value in values:
        found = tuple(Value(*(one[name] for name in Value._fields)) for one in value["values"])
        texts = [*value["labels"], *(str(text) for text in value["source"].values())]
        for one in found:
            try:
                check_prediction(one.prediction)
                metric_of(one.metric)
            except InputError as error:
                raise damaged(path, error.line, HINT) from None
        if any(text_problems("labels", *texts)) or not all(math.isfinite(one.value) for one in found):
            raise damaged(path, f"row {value['labels']!a}", HINT)
        source = Source(**{name: value["source"][name] for name in Source.__slots__})
        rows.append(ImportedRow(table=value["table"], labels=tuple(value["labels"]), source=source, values=found))
    return tuple(rows)


def plain_rows(rows: Iterable[ImportedRow]) -> list[dict[str, Any]]:
    """Imported rows as plain values."""
    return [{**asdict(row), "values": [one._asdict() for one in row.values]} for row in rows]


def write_imported(folder: Path, rows: Sequence[ImportedRow]) -> None:
    """Writes the imported rows of a sweep, atomically; without rows the file is removed."""
    if rows:
        write_json(folder / FILE, {"format_version": FORMAT_VERSION, "rows": plain_rows(rows)})
    else:
        (folder / FILE).unlink(missing_ok=True)
