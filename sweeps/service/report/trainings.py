"""The trainings of a sweep for the page: state, curves, environment and tracked run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mucon.config import flatten
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import read_links
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
        seconds: duration; None until it has finished.
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
    seconds: float | None
    curves: dict[str, tuple[tuple[int, float], ...]]
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    link: str | None


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
        config = flatten(reading.trial["config"]) if reading.exists else {}
        trainings[identity] = Training(
            identity=identity,
            rows=tuple(rows[identity]),
            split=first.split,
            seed=first.seed,
            state=worst.state,
            reason=worst.reason,
            epochs=reading.n_epochs,
            seconds=results[0].training_seconds,
            curves={metric: curve for metric in CURVES if (curve := reading.curve(metric))},
            config={path: value for path, value in config.items() if path != "seed"},
            environment=flatten(reading.environment),
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
