"""Summary lines after a sweep: the best row, its best trial, and the commands that use that trial."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from mucon.config import TrainConfig
from mucon.configuration import DEFAULT_METHOD, flatten, setting_text
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.spec.columns import Variant
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.notes import some_rows
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.trial import Trial


def best_lines(standing: Standing) -> list[str]:
    """For each table: the row with the best mean in the first column with values, its best trial, and its use.

    Returns:
        Lines for the terminal; none for a table without values.
    """
    return [line for part in standing.plan.parts for line in _of_table(standing, part)]


def _of_table(standing: Standing, part: Part) -> Iterator[str]:
    plan, table = standing.plan, standing.table(part)
    rows = [row for row in table.rows if row.kind == "row"]
    with_values = [i for i in range(len(table.columns)) if any(row.summaries[i] is not None for row in rows)]
    if not with_values:
        return
    index = with_values[0]
    column = table.columns[index]
    sign = 1 if column.higher_is_better else -1
    candidates = [(summary, row) for row in rows if (summary := row.summaries[index]) is not None]
    summary, row = max(candidates, key=lambda pair: sign * pair[0].mean)
    cells = [cell for cell in part.cells if cell.variant.labels == row.labels]
    by_cell = {cell: standing.results[cell.key].value(*column.of(cell.variant)) for cell in cells}
    values = {cell: value for cell, value in by_cell.items() if value is not None}
    cell = max(values, key=lambda cell: sign * values[cell])
    best = Summary(values[cell], None, 1)
    of_table = f" of {table.name}" if len(plan.parts) > 1 else ""
    yield (
        f"best{of_table}: {row.name}, {column.title} {summary.text(column.shown_unit)}; "
        f"best trial: split {cell.split}, seed {cell.seed}, {best.text(column.shown_unit)}"
    )
    equal = [
        other.name for mean, other in candidates if other is not row and not column.better(summary.mean, mean.mean)
    ]
    if equal:
        yield f"  equal:    {some_rows(equal)}"
    yield from (
        f"  warning:  not better than the feature-free baseline {other.name!r}: {baseline.text(column.shown_unit)}"
        for other in table.rows
        if other.kind == "baseline"
        and other.task == cell.variant.task
        and (baseline := other.summaries[index]) is not None
        and not column.better(summary.mean, baseline.mean)
    )
    folder = plan.results.trial(cell.identity)
    yield f"  where:    {folder.path}"
    yield from _commands(plan, cell, folder, standing.trials.get(cell.key))


def _commands(plan: Plan, cell: Cell, folder: TrialFolder, trial: Trial | None) -> Iterator[str]:
    """Commands that evaluate the trial, predict new recordings with it, and export its model."""
    run = folder.run_path
    settings = [word for setting in _decoding(cell.variant, folder, trial) for word in ("--set", setting)]
    task = [] if cell.variant.task == "segmentation" else ["--task", cell.variant.task]
    where = ["--store", plan.store, "--split", cell.split]
    prediction = ["--prediction", cell.variant.prediction] if cell.variant.prediction else []
    yield f"  evaluate: {shlex.join(['mucon', 'evaluate', str(run), *where, *task, *settings])}"
    yield f"  predict:  {shlex.join(['mucon', 'predict', str(run)])} FEATURES.npy{_after([*prediction, *settings])}"
    yield f"  export:   {shlex.join(['cp', '-r', str(run)])} MODEL    (self-contained; use it as `mucon predict MODEL`)"


def _decoding(row: Variant, folder: TrialFolder, trial: Trial | None) -> list[str]:
    """`decoding.NAME=VALUE` for each value that differs from the checkpoint's, which another row may have trained."""
    if row.method != DEFAULT_METHOD:
        return []
    path = folder.checkpoint_path / "config.json"
    trained = TrainConfig.from_dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else TrainConfig()
    if trial is not None:
        wanted = trial.config
    else:
        chosen = {path: value for path, value in row.settings.items() if path.startswith("decoding.")}
        wanted = TrainConfig.from_dict({**flatten(trained.to_dict()), **chosen})
    before, after = (flatten({"decoding": config.to_dict()["decoding"]}) for config in (trained, wanted))
    return [f"{path}={setting_text(value)}" for path, value in after.items() if value != before[path]]


def _after(words: list[str]) -> str:
    return f" {shlex.join(words)}" if words else ""
