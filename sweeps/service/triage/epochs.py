"""Trainings of a sweep whose rows end after different epochs: accuracy and scores of each epoch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mucon.errors import InputError, Problem
from sweeps.service.plan.cells import Cell
from sweeps.service.stats.stopping import MIN_POINTS, Point, Training
from sweeps.service.triage.naming import Place, places_of
from sweeps.service.trials.reading import TrialReading, values_of
from sweeps.service.trials.results_folder import ResultsFolder

STOP = "training.stop_after"
LABEL_FREE = "progress.label_free."
LOSS = "loss."


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Rows of a table that differ in `training.stop_after` alone.

    Attributes:
        table: name of the table.
        labels: the labels that its rows have in common.
        trainings: (split, seed) -> points with a result, all after the same epochs: the most that a training has, and
            those of most trainings.
        n_left_out: number of trainings with other epochs, which are left out.
    """

    table: str
    labels: str
    trainings: Mapping[tuple[str, int], Training]
    n_left_out: int

    @property
    def title(self) -> str:
        """Table and labels."""
        return f"{self.table}: {self.labels}" if self.labels else self.table


def arms(results: ResultsFolder, sweep: str, prediction: str) -> list[Arm]:
    """The arms of a sweep with results after at least three epochs.

    Args:
        results: the results folder.
        sweep: name of the sweep.
        prediction: only rows that show this prediction, or that show several.

    Raises:
        InputError: no such sweep, or no such arm.
    """
    found: dict[tuple[object, ...], list[Place]] = {}
    for place in places_of(results, sweep):
        variant, settings = place.cell.variant, dict(place.settings or {})
        settings.pop(STOP, None)
        if variant.prediction in (None, prediction):
            key = (place.table, variant.method, variant.task, json.dumps(settings, sort_keys=True))
            found.setdefault(key, []).append(place)
    known = [_arm(results, places, prediction) for places in found.values()]
    usable = [arm for arm in known if arm.trainings]
    if not usable:
        message = f"no rows with results of {prediction!r} after at least {MIN_POINTS} different epochs"
        hint = "run a sweep whose rows differ in training.stop_after, such as sweeps/early_stopping.py"
        raise InputError(Problem(rule="missing", place=sweep, value=prediction, message=message, hint=hint))
    return usable


def _arm(results: ResultsFolder, places: list[Place], prediction: str) -> Arm:
    points: dict[tuple[str, int], dict[int, Point]] = {}
    for place in places:
        point = _point(results, place.cell, prediction)
        if point is not None:
            points.setdefault((place.cell.split, place.cell.seed), {})[point.epoch] = point
    found = Counter(frozenset(own) for own in points.values())
    epochs = max(found, key=lambda one: (len(one), found[one]), default=frozenset())
    whole = {
        key: tuple(own[epoch] for epoch in sorted(epochs))
        for key, own in sorted(points.items())
        if own.keys() == epochs and len(epochs) >= MIN_POINTS
    }
    first, *others = ([*place.cell.variant.labels] for place in places)
    common = [label for i, label in enumerate(first) if all(other[i] == label for other in others)]
    return Arm(table=places[0].table, labels=", ".join(common), trainings=whole, n_left_out=len(points) - len(whole))


def _point(results: ResultsFolder, cell: Cell, prediction: str) -> Point | None:
    """The training of a cell at its end; None without a result or a record of its last epoch."""
    reading: TrialReading = results.reading(cell.identity)
    result = reading.result(cell.evaluation)
    value = None if result is None else values_of(result).get(prediction, {}).get("mof")
    if value is None or not reading.epochs:
        return None
    last = reading.epochs[-1]
    scores = {name: v for name, v in last["metrics"].items() if name.startswith(LABEL_FREE)}
    losses = {name: -v for name, v in last["metrics"].items() if name.startswith(LOSS)}
    named = {name.removeprefix(LABEL_FREE): v for name, v in scores.items()}
    return Point(epoch=int(last["step"]), value=value, scores={**named, **losses})
