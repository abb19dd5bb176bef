"""Summary lines after a sweep: the best row, its best trial, and the commands that use that trial."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mucon.config import TrainConfig
from mucon.configuration import DEFAULT_METHOD, flatten, setting_text
from mucon.errors import InputError
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.plan.seeds import compared_column
from sweeps.service.plan.sweep_folder import Outcome
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.stats.sequential import Decision
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.enough import others_text
from sweeps.service.tables.notes import some_rows
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.table import Row
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.json_files import read_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The row of a table with the best mean in the first column with values, and its best trial.

    Attributes:
        part: part of the plan with the table.
        index: position of the first column with values.
        row: the row.
        summary: its score in that column.
        cell: the trial with the best score, of the seeds and splits that have one.
        value: that score.
        equal: names of the other rows with the same mean.
        n_others: number of other rows with a value.
        n_level: number of those that are not shown to be worse.
    """

    part: Part
    index: int
    row: Row
    summary: Summary
    cell: Cell
    value: float
    equal: tuple[str, ...]
    n_others: int
    n_level: int

    @property
    def is_shown(self) -> bool:
        """Whether the row is shown to be better than all others that have a value, or is the only row of its table."""
        return not self.n_level and (self.n_others > 0 or len(self.part.experiment.variants) == 1)

    @property
    def column(self) -> Column:
        """The first column with values."""
        return self.part.experiment.columns[self.index]


def best_of(standing: Standing, part: Part) -> Best | None:
    """The best row of a table; None for a table without values."""
    table = standing.table(part)
    rows = [row for row in table.rows if row.kind == "row"]
    with_values = [i for i in range(len(table.columns)) if any(row.summaries[i] is not None for row in rows)]
    if not with_values:
        return None
    index = with_values[0]
    column = table.columns[index]
    sign = 1 if column.higher_is_better else -1
    candidates = [(summary, row) for row in rows if (summary := row.summaries[index]) is not None]
    summary, row = max(candidates, key=lambda pair: sign * pair[0].mean)
    by_cell = {
        cell: standing.results[cell.key].value(*column.of(cell.variant))
        for cell in part.cells
        if cell.variant.labels == row.labels
    }
    values = {cell: value for cell, value in by_cell.items() if value is not None}
    cell = max(values, key=lambda cell: sign * values[cell])
    equal = (
        other.name for mean, other in candidates if other is not row and not column.better(summary.mean, mean.mean)
    )
    others = [other for _, other in candidates if other is not row]
    decisive = None if standing.plan.seed_rule is None else compared_column(part.experiment)
    return Best(
        part=part,
        index=index,
        row=row,
        summary=summary,
        cell=cell,
        value=values[cell],
        equal=tuple(equal),
        n_others=len(others),
        n_level=sum(not _is_worse(other, row, index, by_rule=column == decisive) for other in others),
    )


def _is_worse(row: Row, best: Row, index: int, *, by_rule: bool) -> bool:
    """Whether a row is shown to be worse than the best one in a column, by a test or by the rule for seeds."""
    if by_rule and (row.default or best.default):
        return row.decision is Decision.WORSE or best.decision is Decision.BETTER
    test = row.against_best[index]
    return test is not None and test.significant


def best_lines(standing: Standing) -> list[str]:
    """For each table: the row with the best mean, its deviation and seeds, and its best trial.

    The row is called the best one only if it is shown to be better than all others.

    Returns:
        Lines for the terminal; none for a table without values. If there are any, the last one says on which part of
        the splits the rows are compared.
    """
    lines = [
        line
        for part in standing.plan.parts
        if (best := best_of(standing, part)) is not None
        for line in _summary_lines(standing, best)
    ]
    made = choice(standing.plan)
    return [*lines, f"  choice:   {made}"] if lines and made else lines


def choice(plan: Plan) -> str:
    """On which part of the splits the best row is chosen; empty for a sweep whose tables have one row."""
    if all(len(part.experiment.variants) < 2 for part in plan.parts):
        return ""
    if plan.part == "validation":
        return "the rows are compared on the validation part, not on the test part"
    too_high = "so the score of the best one is too high for new recordings"
    return f"the rows are compared on the test part, {too_high}; --part validation leaves that part out"


def command_lines(standing: Standing) -> list[str]:
    """For each table: the directory of the best trial and the commands that use it."""
    return [
        line
        for part in standing.plan.parts
        if (best := best_of(standing, part)) is not None
        for line in _command_lines(standing, best)
    ]


def outcome_of(standing: Standing) -> Outcome:
    """What a sweep has found: scores of the best row of each table, and numbers of rows, seeds and trials.

    The names of the metrics are `best_validation/PREDICTION/METRIC`, with `_std` for the deviation over seeds, and
    `best_validation/TABLE/PREDICTION/METRIC` in a sweep with several tables. On the test part, where nothing should be
    chosen, they begin with `final_test/`.
    """
    plan = standing.plan
    metrics: dict[str, float] = {
        "sweep/rows": sum(len(part.experiment.variants) for part in plan.parts),
        "sweep/seeds": len({cell.seed for cell in plan.cells}),
        "sweep/trials": len(plan.rows),
        "sweep/evaluations_finished": sum(result.is_finished for result in standing.results.values()),
    }
    tags: dict[str, str] = {"part": plan.part}
    group = "final_test" if plan.part == "test" else f"best_{plan.part}"
    for part in plan.parts:
        best = best_of(standing, part)
        if best is None:
            continue
        table = f"{part.experiment.name}/" if len(plan.parts) > 1 else ""
        tags[f"best_row{f'.{part.experiment.name}' if table else ''}"] = best.row.name
        for column, summary in zip(part.experiment.columns, best.row.summaries, strict=True):
            if summary is not None:
                name = f"{group}/{table}{'/'.join(column.of(best.cell.variant))}"
                metrics |= {name: summary.mean} | ({} if summary.std is None else {f"{name}_std": summary.std})
    return Outcome(metrics=metrics, tags=tags)


def finished_facts(standing: Standing, *, interrupted: bool, budget: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The end of a run for a notice: a sentence, and counts, best rows, the page and lines about the budget."""
    states = Counter(str(result.state) for result in standing.results.values())
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    best = [
        {
            "table": part.experiment.name,
            "row": found.row.name,
            "column": found.column.title,
            "mean": found.summary.mean,
            "seeds": found.summary.n,
            "is_shown": found.is_shown,
        }
        for part in standing.plan.parts
        if (found := best_of(standing, part)) is not None
    ]
    page = str(standing.plan.folder / f"{standing.plan.name}.html")
    facts = {"complete": standing.is_complete, "interrupted": interrupted, "counts": states, "best": best}
    facts |= {"part": standing.plan.part}
    return f"sweep {standing.plan.name} has ended: {counts} of {states.total()}", {
        **facts,
        "page": page,
        "budget": list(budget),
    }


def commands_of(plan: Plan, part: Part, cell: Cell) -> dict[str, str]:
    """Commands that evaluate a trial and predict new recordings with it, by what they do.

    Args:
        plan: plan of the sweep.
        part: the table.
        cell: the trial at its position in the table.
    """
    folder = plan.results.trial(cell.identity)
    run = str(folder.run_path)
    settings = [
        word
        for setting in decoding_settings(cell.variant, folder, part.settings_of(cell))
        for word in ("--set", setting)
    ]
    task = [] if cell.variant.task == "segmentation" else ["--task", cell.variant.task]
    where = ["--store", plan.store, "--split", cell.split]
    where += [] if plan.part == "test" else ["--part", plan.part]
    prediction = ["--prediction", cell.variant.prediction] if cell.variant.prediction else []
    return {
        "evaluate": shlex.join(["mucon", "evaluate", run, *where, *task, *settings]),
        "predict": shlex.join(["mucon", "predict", run, "FEATURES.npy", *prediction, *settings]),
    }


def _summary_lines(standing: Standing, best: Best) -> Iterator[str]:
    unit, cell = best.column.shown_unit, best.cell
    seeds = f"{best.summary.n} seed{'s' * (best.summary.n != 1)}"
    yield (
        f"best{'' if best.is_shown else ' mean'}{_of_table(standing, best)}: {best.row.name}, {best.column.title} "
        f"{best.summary.text(unit)} ({seeds}); best trial: split {cell.split}, seed {cell.seed}, "
        f"{Summary(best.value, None, 1).text(unit)}"
    )
    if not best.is_shown:
        others = f"from {others_text(best.n_level, best.n_others)}" if best.n_others else "as no other row has a value"
        untested = "" if best.column.is_tested else f" ({best.column.title} is not tested)"
        yield f"  no difference shown {others}{untested}"
    if best.equal:
        yield f"  equal:    {some_rows(best.equal)}"
    yield from (
        f"  warning:  not better than the feature-free baseline {other.name!r}: {baseline.text(unit)}"
        for other in standing.table(best.part).rows
        if other.kind == "baseline"
        and other.task == cell.variant.task
        and (baseline := other.summaries[best.index]) is not None
        and not best.column.better(best.summary.mean, baseline.mean)
    )


def _command_lines(standing: Standing, best: Best) -> Iterator[str]:
    folder = standing.plan.results.trial(best.cell.identity)
    yield f"best trial{_of_table(standing, best)}: {folder.path}"
    commands = commands_of(standing.plan, best.part, best.cell)
    yield from (f"  {name + ':':<9} {command}" for name, command in commands.items())
    yield f"  export:   {shlex.join(_export(standing.plan, best))}"


def _export(plan: Plan, best: Best) -> list[str]:
    """The command that exports the best trial."""
    table = ["--table", best.part.experiment.name] if len(plan.parts) > 1 else []
    chosen = ["--best", ".".join(best.column.of(best.cell.variant)), "--row", best.row.name, "--split", best.cell.split]
    return ["mucon-sweeps", "export", plan.name, *table, *chosen, "--results", str(plan.results.path), "--out", "MODEL"]


def _of_table(standing: Standing, best: Best) -> str:
    return f" of {best.part.experiment.name}" if len(standing.plan.parts) > 1 else ""


def decoding_settings(row: Variant, folder: TrialFolder, settings: Mapping[str, Any] | None) -> list[str]:
    """`decoding.NAME=VALUE` for each value that differs from the checkpoint's, which another row may have trained.

    Args:
        row: the row.
        folder: directory of the trial.
        settings: what differs from the method's defaults; None if unknown: the row's own choices alone count.
    """
    given = row.settings if settings is None else settings
    chosen = {path: value for path, value in given.items() if path.startswith("decoding.")}
    if row.method != DEFAULT_METHOD or (settings is None and not chosen):
        return []
    path = folder.checkpoint_path / "config.json"
    try:
        trained = TrainConfig.from_dict(read_json(path, hint="")) if path.exists() else TrainConfig()
    except InputError:  # damaged: `mucon evaluate` says so
        return []
    wanted = TrainConfig.from_dict({**(flatten(trained.to_dict()) if settings is None else {}), **chosen})
    before, after = (flatten({"decoding": config.to_dict()["decoding"]}) for config in (trained, wanted))
    return [f"{path}={setting_text(value)}" for path, value in after.items() if value != before[path]]
