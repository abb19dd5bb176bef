"""The trainings of a sweep as the page shows them: state, curves, environment and tracked run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mucon.config import flatten
from sweeps.service.plan.sweep_folder import read_links
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.folder import State
from sweeps.service.trials.reading import ACCURACY, LOSS

CURVES = (LOSS, ACCURACY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training.

    Attributes:
        identity: name of its directory.
        rows: names of the rows that use it, each with its table's name where the sweep has several tables.
        split: name of the split.
        seed: seed of the training.
        state: state of the training.
        reason: reason for the state, where it has one.
        epochs: number of finished epochs.
        seconds: duration; None while it has not ended.
        curves: metric -> (epoch, value) of each measured one.
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
    plan, links = standing.plan, read_links(standing.plan.folder)
    trainings: dict[str, Training] = {}
    for cell in plan.cells:
        if cell.identity in trainings:
            continue
        reading = plan.results.reading(cell.identity)
        evaluations = [standing.results[other.key] for other in plan.cells if other.identity == cell.identity]
        worst = next((result for result in reversed(evaluations) if not result.is_finished), evaluations[0])
        config = flatten(reading.trial["config"]) if reading.exists else {}
        trainings[cell.identity] = Training(
            identity=cell.identity,
            rows=_rows(standing, cell.identity),
            split=cell.split,
            seed=cell.seed,
            state=worst.state,
            reason=worst.reason,
            epochs=reading.n_epochs,
            seconds=standing.results[cell.key].training_seconds,
            curves={metric: curve for metric in CURVES if (curve := reading.curve(metric))},
            config={path: value for path, value in config.items() if path != "seed"},
            environment=flatten(reading.environment),
            link=links.trials.get(cell.identity),
        )
    return trainings


def _rows(standing: Standing, identity: str) -> tuple[str, ...]:
    parts = standing.plan.parts
    return tuple(
        dict.fromkeys(
            f"{part.experiment.name}: {cell.variant.name}" if len(parts) > 1 else cell.variant.name
            for part in parts
            for cell in part.cells
            if cell.identity == identity
        )
    )
