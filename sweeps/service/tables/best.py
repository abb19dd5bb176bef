"""After a sweep: what was best, where it is, and the commands that use it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from mucon.config import TrainConfig, flatten
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.table import Table
from sweeps.service.trials.cell_results import Known
from sweeps.service.trials.trial import Trial


def best_lines(
    plan: Plan, made: Mapping[str, Table], known: Mapping[str, Known], trials: Mapping[str, Trial]
) -> list[str]:
    """For each table the row with the best mean of the first column, its best trial, and how to use that.

    Args:
        plan: the sweep.
        made: its tables, by name.
        known: of each cell, by key.
        trials: by key, as far as they are at hand; without one, the row alone says how it decodes.

    Returns:
        The lines that stand under the tables; none for a table without any value.
    """
    return [line for part in plan.parts for line in _of_table(plan, part, made[part.experiment.name], known, trials)]


def _of_table(
    plan: Plan, part: Part, table: Table, known: Mapping[str, Known], trials: Mapping[str, Trial]
) -> Iterator[str]:
    column = table.columns[0]
    sign = 1 if column.higher_is_better else -1
    means = [(row.summaries[0], row) for row in table.rows if row.kind == "row"]
    there = [(summary, row) for summary, row in means if summary is not None]
    if not there:
        return
    summary, row = max(there, key=lambda pair: sign * pair[0].mean)
    cells = [cell for cell in part.cells if cell.variant.labels == row.labels]
    values = {cell: value for cell in cells if (value := _value(cell, column, known)) is not None}
    cell = max(values, key=lambda cell: sign * values[cell])
    of_table = f" of {table.name}" if len(plan.parts) > 1 else ""
    yield (
        f"best{of_table}: {row.name}, {column.title} {summary.text(column.unit)}; "
        f"its best trial: split {cell.split}, seed {cell.seed}, {Summary(values[cell], None, 1).text(column.unit)}"
    )
    level = [other.name for found, other in there if other is not row and not column.better(summary.mean, found.mean)]
    if level:
        yield f"  level:    {', '.join(map(repr, level)) if len(level) <= 3 else f'{len(level)} other rows'}"
    yield from (
        f"  beware:   no better than {other.name!r}, which sees no feature: {found.text(column.unit)}"
        for other in table.rows
        if other.kind == "baseline"
        and other.task == cell.variant.task
        and (found := other.summaries[0]) is not None
        and not column.better(summary.mean, found.mean)
    )
    run = plan.results / "trials" / cell.identity / "run"
    yield f"  where:    {run.parent}"
    yield from _commands(plan, cell, run, trials.get(cell.key))


def _commands(plan: Plan, cell: Cell, run: Path, trial: Trial | None) -> Iterator[str]:
    """How the trial is evaluated, used on new recordings, and taken elsewhere."""
    settings = [word for setting in _decoding(cell.variant, run, trial) for word in ("--set", setting)]
    task = [] if cell.variant.task == "segmentation" else ["--task", cell.variant.task]
    where = ["--store", plan.store, "--split", cell.split]
    prediction = ["--prediction", cell.variant.prediction] if cell.variant.prediction else []
    yield f"  evaluate: {shlex.join(['mucon', 'evaluate', str(run), *where, *task, *settings])}"
    yield f"  predict:  {shlex.join(['mucon', 'predict', str(run)])} FEATURES.npy{_after([*prediction, *settings])}"
    yield f"  export:   {shlex.join(['cp', '-r', str(run)])} MODEL    (`mucon predict MODEL` needs nothing else)"


def _decoding(row: Variant, run: Path, trial: Trial | None) -> list[str]:
    """`decoding.NAME=VALUE` of each choice that is not the checkpoint's, since another row may have trained it."""
    path = run / "checkpoint" / "config.json"
    trained = TrainConfig.from_dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else TrainConfig()
    if trial is not None:
        wanted = trial.config
    else:
        chosen = {path: value for path, value in row.settings.items() if path.startswith("decoding.")}
        wanted = trained.with_values(chosen)
    before, after = (flatten({"decoding": config.to_dict()["decoding"]}) for config in (trained, wanted))
    return [f"{path}={_text(value)}" for path, value in after.items() if value != before[path]]


def _value(cell: Cell, column: Column, known: Mapping[str, Known]) -> float | None:
    scores = known[cell.key].scores
    prediction, metric = column.of(cell.variant)
    return None if scores is None else scores.get(prediction, {}).get(metric)


def _after(words: list[str]) -> str:
    return f" {shlex.join(words)}" if words else ""


def _text(value: object) -> str:
    """As `--set` takes it."""
    return "none" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)
