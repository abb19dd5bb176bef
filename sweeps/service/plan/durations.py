"""How long the trainings of a plan take: their epochs, and the seconds of those that have run."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweeps.service.plan.plan import Part
from sweeps.service.trials.cell_results import CellResult


@dataclass(frozen=True, slots=True)
class Passed:
    """A part of a training.

    Attributes:
        epochs: number of epochs, at least 1.
        seconds: how long they take.
    """

    epochs: int
    seconds: float


def missing_epochs(parts: Iterable[Part], results: Mapping[str, CellResult]) -> dict[str, int]:
    """Identity -> number of epochs that its training still adds to the one that it continues.

    A training continues an equal one of the sweep with an earlier end. Those of a plan that does not say their epochs,
    such as one of an earlier version, are left out.

    Args:
        parts: the tables of the sweep.
        results: key -> state of each cell, with the finished epochs.
    """
    ends: defaultdict[str, dict[str, int]] = defaultdict(dict)
    finished: dict[str, int] = {}
    for part in parts:
        for cell in part.cells:
            finished[cell.identity] = results[cell.key].attempt.epoch
            facts, settings = part.facts.get(cell.variant.labels), part.settings_of(cell)
            if facts is not None and settings is not None:
                others = ("decoding.", "training.stop_after")
                trained = {path: value for path, value in settings.items() if not path.startswith(others)}
                whole = json.dumps([cell.variant.method, cell.split, cell.seed, trained], sort_keys=True, default=str)
                ends[whole][cell.identity] = facts.passes
    return {
        identity: max(end - max(finished[identity], *(one for one in equal.values() if one < end), 0), 0)
        for equal in ends.values()
        for identity, end in equal.items()
    }


def seconds_left(
    lefts: Sequence[float], trained: Sequence[Passed], waiting: Sequence[int | None], slots: int
) -> float | None:
    """Expected seconds until all trainings have ended; those that wait train as fast as the others in the mean.

    Args:
        lefts: expected seconds until the end of each running training.
        trained: what has been trained: the ended trainings, and the running ones as expected at their end.
        waiting: number of epochs that each waiting training needs; if it is None, it takes as long as the others.
        slots: number of trainings at a time.

    Returns:
        The seconds; None while no duration is known.

    >>> seconds_left([30.0], [Passed(10, 50.0), Passed(10, 40.0)], [None, 2], 2)
    42.0
    """
    if not trained:
        return None
    whole = statistics.fmean(one.seconds for one in trained)
    pace = statistics.fmean(one.seconds / one.epochs for one in trained)
    rests = (whole if epochs is None else epochs * pace for epochs in waiting)
    return max((sum(lefts) + sum(rests)) / slots, *lefts, 0.0)
