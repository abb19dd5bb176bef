"""After a sweep: what was best, where it is, and the commands that use it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from mucon.config import TrainConfig
from mucon.configuration import flatten, setting_text
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.spec.columns import MUCON, Variant
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.notes import some_rows
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.trial import Trial


def best_lines(standing: Standing) -> list[str]:
    """For each table the row with the best mean of the first column, its best trial, and how to use that trial.

    Returns:
        The lines for the terminal; none for a table without any value.
    """
    return [line for part in standing.plan.parts for line in _of_table(standing, part)]


def _of_table(standing: Standing, part: Part) -> Iterator[str]:
    plan, table = standing.plan, standing.table(part)
    column = table.columns[0]
    sign = 1 if column.higher_is_better else -1
    means = [(row.summaries[0], row) for row in table.rows if row.kind == "row"]
    there = [(summary, row) for summary, row in means if summary is not None]
    if not there:
        return
    summary, row = max(there, key=lambda pair: sign * pair[0].mean)
    cells = [cell for cell in part.cells if cell.variant.labels == row.labels]
    by_cell = {cell: standing.results[cell.key].value(*column.of(cell.variant)) for cell in cells}
    values = {cell: value for cell, value in by_cell.items() if value is not None}
    cell = max(values, key=lambda cell: sign * values[cell])
    best = Summary(values[cell], None, 1)
    of_table = f" of {table.name}" if len(plan.parts) > 1 else ""
    yield (
        f"best{of_table}: {row.name}, {column.title} {summary.text(column.shown_unit)}; "
        f"its best trial: split {cell.split}, seed {cell.seed}, {best.text(column.shown_unit)}"
    )
    equal = [other.name for found, other in there if other is not row and not column.better(summary.mean, found.mean)]
    if equal:
        yield f"  level:    {some_rows(equal)}"
    yield from (
        f"  beware:   not better than the feature-free baseline {other.name!r}: {found.text(column.shown_unit)}"
        for other in table.rows
        if other.kind == "baseline"
        and other.task == cell.variant.task
        and (found := other.summaries[0]) is not None
        and not column.better(summary.mean, found.mean)
    )
    folder = plan.results.trial(cell.identity)
    yield f"  where:    {folder.path}"
    yield from _commands(plan, cell, folder, standing.trials.get(cell.key))


def _commands(plan: Plan, cell: Cell, folder: TrialFolder, trial: Trial | None) -> Iterator[str]:
    """How the trial is evaluated, used on new recordings, and taken elsewhere."""
    run = folder.run_path
    settings = [word for setting in _decoding(cell.variant, folder, trial) for word in ("--set", setting)]
    task = [] if cell.variant.task == "segmentation" else ["--task", cell.variant.task]
    where = ["--store", plan.store, "--split", cell.split]
    prediction = ["--prediction", cell.variant.prediction] if cell.variant.prediction else []
    yield f"  evaluate: {shlex.join(['mucon', 'evaluate', str(run), *where, *task, *settings])}"
    yield f"  predict:  {shlex.join(['mucon', 'predict', str(run)])} FEATURES.npy{_after([*prediction, *settings])}"
    yield f"  export:   {shlex.join(['cp', '-r', str(run)])} MODEL    (`mucon predict MODEL` needs nothing else)"


def _decoding(row: Variant, folder: TrialFolder, trial: Trial | None) -> list[str]:
    """`decoding.NAME=VALUE` of each choice that is not the checkpoint's, since another row may have trained it."""
    if row.method != MUCON:
        return []
    path = folder.checkpoint_path / "config.json"
    trained = TrainConfig.from_dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else TrainConfig()
    if trial is not None:
        wanted = trial.config
    else:
        chosen = {path: value for path, value in row.settings.items() if path.startswith("decoding.")}
        wanted = trained.with_values(chosen)
    before, after = (flatten({"decoding": config.to_dict()["decoding"]}) for config in (trained, wanted))
    return [f"{path}={setting_text(value)}" for path, value in after.items() if value != before[path]]


def _after(words: list[str]) -> str:
    return f" {shlex.join(words)}" if words else ""
