"""The trainings of a sweep for the page and their scored trials: state, curves, scores, commands and tracked run."""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mucon.config import flatten
from mucon.errors import InputError
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.plan.sweep_folder import read_links
from sweeps.service.spec.columns import Column
from sweeps.service.tables.best import commands_of
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.folder import State
from sweeps.service.trials.reading import ACCURACY, LOSS

CURVES = (LOSS, ACCURACY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training as the page shows it.

    Attributes:
        identity: name of the trial directory.
        rows: names of the rows that use it, prefixed by the table's name if the sweep has several tables.
        split: name of the split.
        seed: random seed of the trial.
        state: state of the last unfinished evaluation, or finished.
        reason: reason for the state; None without one.
        epochs: number of finished epochs.
        epoch_seconds: median duration of its epochs, which start-up hardly changes; None before the first.
        curves: metric -> (epoch, value) of the epochs that measured it.
        config: path -> value of the full configuration without the seed; empty before the start.
        environment: name -> value of the newest record; empty before the start.
        link: page of its run on the tracking server; None if it was not tracked.
    """

    identity: str
    rows: tuple[str, ...]
    split: str
    seed: int
    state: State
    reason: str | None
    epochs: int
    epoch_seconds: float | None
    curves: dict[str, tuple[tuple[int, float], ...]]
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    link: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A trial as the page shows it: a training with one evaluation and the prediction that its rows show.

    Attributes:
        training: its training.
        rows: names of the rows that show it, prefixed by the table's name if the sweep has several tables.
        state: state of its evaluation.
        reason: reason for the state; None without one.
        scores: one per column of `score_columns`; None without a value.
        commands: commands that evaluate and use it, by what they do; empty without a result.
        is_collapsed: whether its score has collapsed in any of the tables.
    """

    training: Training
    rows: tuple[str, ...]
    state: State
    reason: str | None
    scores: tuple[float | None, ...]
    commands: Mapping[str, str]
    is_collapsed: bool

    @property
    def is_whole(self) -> bool:
        """Whether it has a result that has not collapsed."""
        return self.state is State.FINISHED and not self.is_collapsed


def score_columns(plan: Plan) -> tuple[Column, ...]:
    """The distinct columns of all tables."""
    return tuple(dict.fromkeys(column for part in plan.parts for column in part.experiment.columns))


def scored_trials(standing: Standing, trainings: Mapping[str, Training]) -> list[Scored]:
    """The trials in the order of the plan.

    Args:
        standing: state of the sweep.
        trainings: trainings by identity.
    """
    plan = standing.plan
    cells: dict[tuple[str, str | None], tuple[Part, Cell]] = {}
    rows: dict[tuple[str, str | None], list[str]] = {}
    collapsed = set()
    for part in plan.parts:
        lost = standing.table(part).collapsed
        prefix = f"{part.experiment.name}: " if len(plan.parts) > 1 else ""
        for cell in part.cells:
            key = (cell.key, cell.variant.prediction)
            cells.setdefault(key, (part, cell))
            rows.setdefault(key, []).append(f"{prefix}{cell.variant.name}")
            if (cell.variant.labels, cell.split, cell.seed) in lost:
                collapsed.add(key)
    columns = score_columns(plan)
    return [
        _scored(standing, trainings, *place, rows[key], columns, is_collapsed=key in collapsed)
        for key, place in cells.items()
    ]


def _scored(
    standing: Standing,
    trainings: Mapping[str, Training],
    part: Part,
    cell: Cell,
    rows: Sequence[str],
    columns: Sequence[Column],
    *,
    is_collapsed: bool,
) -> Scored:
    result = standing.results[cell.key]
    commands: Mapping[str, str] = {}
    if result.is_finished:
        with contextlib.suppress(InputError):  # a damaged checkpoint has no command, and its scores stay
            commands = commands_of(standing.plan, part, cell)
    return Scored(
        training=trainings[cell.identity],
        rows=tuple(rows),
        state=result.state,
        reason=result.reason,
        scores=tuple(result.value(*column.of(cell.variant)) for column in columns),
        commands=commands,
        is_collapsed=is_collapsed,
    )


def read_trainings(standing: Standing) -> dict[str, Training]:
    """The trainings by identity, in the order of the plan."""
    plan, links, rows = standing.plan, read_links(standing.plan.folder), _rows(standing.plan)
    cells: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        cells.setdefault(cell.identity, []).append(cell)
    trainings: dict[str, Training] = {}
    for identity, evaluations in cells.items():
        first, reading = evaluations[0], plan.results.reading(identity)
        results = [standing.results[cell.key] for cell in evaluations]
        worst = next((result for result in reversed(results) if not result.is_finished), results[0])
        whole = None if reading.damage else reading
        since_start = [0.0, *(seconds for _, seconds in whole.curve("seconds"))] if whole else [0.0]
        durations = [after - before for before, after in itertools.pairwise(since_start)]
        config = flatten(whole.trial["config"]) if whole and whole.exists else {}
        trainings[identity] = Training(
            identity=identity,
            rows=tuple(rows[identity]),
            split=first.split,
            seed=first.seed,
            state=worst.state,
            reason=worst.reason,
            epochs=whole.n_epochs if whole else 0,
            epoch_seconds=statistics.median(durations) if durations else None,
            curves={metric: curve for metric in CURVES if whole and (curve := whole.curve(metric))},
            config={path: value for path, value in config.items() if path != "seed"},
            environment=flatten(whole.environment) if whole else {},
            link=links.trials.get(identity),
        )
    return trainings


def _rows(plan: Plan) -> dict[str, dict[str, None]]:
    """Identity -> distinct names of its rows."""
    rows: dict[str, dict[str, None]] = {}
    for part in plan.parts:
        prefix = f"{part.experiment.name}: " if len(plan.parts) > 1 else ""
        for cell in part.cells:
            rows.setdefault(cell.identity, {})[f"{prefix}{cell.variant.name}"] = None
    return rows
