"""All trials of a sweep as one Parquet file: a row for each cell of each table, finished or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mucon.videos import ScoredPart
from sweeps.service.plan.cells import Cell
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.table import Table
from sweeps.service.trials.cell_results import CellResult

CELL_FIELDS = (
    pa.field("sweep", pa.string(), nullable=False),
    pa.field("table", pa.string(), nullable=False),
    pa.field("row", pa.string(), nullable=False),
    pa.field("labels", pa.list_(pa.string()), nullable=False),
    pa.field("default", pa.bool_(), nullable=False),
    pa.field("prediction", pa.string()),
    pa.field("task", pa.string(), nullable=False),
    pa.field("split", pa.string(), nullable=False),
    pa.field("part", pa.string(), nullable=False),
    pa.field("seed", pa.int64(), nullable=False),
    pa.field("identity", pa.string(), nullable=False),
    pa.field("evaluation", pa.string(), nullable=False),
    pa.field("state", pa.string(), nullable=False),
    pa.field("reason", pa.string()),
    pa.field("training_seconds", pa.float64()),
)
"""The columns before the scores. `prediction` is null if the columns of the row show several predictions."""
COLLAPSED = pa.field("collapsed", pa.bool_(), nullable=False)
"""Whether the trial has collapsed, see `Row.collapsed`; false without a score."""


def write_trials(
    path: Path,
    sweep: str,
    tables: Mapping[str, tuple[Experiment, Sequence[Cell], Table]],
    results: Mapping[str, CellResult],
    part: ScoredPart,
) -> None:
    """Writes the file atomically: `CELL_FIELDS`, `COLLAPSED`, and a column `PREDICTION.METRIC` for each score.

    Scores are as in result.json (fractions, frames, seconds), null if they are undefined or the trial is not finished;
    `PREDICTION.inference_seconds` is per video.

    Args:
        path: target file.
        sweep: name of the sweep.
        tables: name -> the table's shape and cells, and the table.
        results: state and scores of each cell, by key.
        part: the part of each split that is scored.
    """
    rows = []
    for name, (shape, cells, table) in tables.items():
        collapsed = table.collapsed
        for cell in cells:
            is_collapsed = (cell.variant.labels, cell.split, cell.seed) in collapsed
            row = cell_row(sweep, name, shape, cell, results[cell.key], part)
            rows.append(row | {COLLAPSED.name: is_collapsed})
    fields = (*CELL_FIELDS, COLLAPSED)
    scores = sorted({column for row in rows for column in row} - {field.name for field in fields})
    schema = pa.schema([*fields, *(pa.field(name, pa.float64()) for name in scores)])
    temporary = path.with_name(f".{path.name}")
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary)
    temporary.replace(path)


def cell_row(
    sweep: str, table: str, shape: Experiment, cell: Cell, result: CellResult, part: ScoredPart
) -> dict[str, Any]:
    """A cell as the values of `CELL_FIELDS` and of the columns of its scores."""
    scores = {
        f"{prediction}.{metric}": value
        for prediction, values in result.scores.items()
        for metric, value in values.items()
        if metric != "training_seconds"
    }
    row = cell.variant
    return {
        "sweep": sweep,
        "table": table,
        "row": row.name,
        "labels": list(row.labels),
        "default": row.name == shape.default_row,
        "prediction": row.prediction,
        "task": row.task,
        "split": cell.split,
        "part": part,
        "seed": cell.seed,
        "identity": cell.identity,
        "evaluation": cell.evaluation,
        "state": str(result.state),
        "reason": result.reason,
        "training_seconds": result.training_seconds,
        **scores,
    }
