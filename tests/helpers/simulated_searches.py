"""Searches whose trainings are functions of numbers, so that thousands of them take seconds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sweeps.service.run.source import Exhausted
from sweeps.service.search.points import Job, Measured
from sweeps.service.search.queue import SearchQueue
from sweeps.service.search.study import Study
from sweeps.service.spec.columns import INFERENCE_SECONDS, MOF, Column
from sweeps.service.spec.search import Choice, Integer, LogUniform, Search, Space, Uniform

FLAT: Space = {"a": Uniform(0, 1), "b": LogUniform(1e-4, 1e-1), "c": Integer(1, 8)}
NESTED: Space = {
    "a": Uniform(0, 1),
    "kind": Choice(("none", "bell", None)),
    "width": Uniform(0, 2, when={"kind": ("bell",)}),
    "pair": Choice(((1, 2), (3, 4), 5)),
}
BASE: dict[str, object] = {"a": 0.5, "b": 0.01, "c": 4, "kind": "none", "width": 1.0, "pair": (1, 2)}
TWO: tuple[Column, ...] = (MOF, INFERENCE_SECONDS)
Objective = Callable[[Job], Measured | str]


def search_of(space: Space = FLAT, **settings: Any) -> Search:
    return Search(**{"name": "simulated", "title": "Simulated", "space": space, "trials": 12, **settings})


def key(settings: Mapping[str, object]) -> str:
    return json.dumps(settings, sort_keys=True)


def hill(job: Job) -> Measured:
    """Best at a = 0.8, with a deviation of 0.01 between seeds; lower before the end of the training."""
    settings = job.point.settings
    a = settings.get("a", 0.0)
    assert isinstance(a, float)
    noise = random.Random(f"{sorted(settings.items())!r}{job.seed}").gauss(0, 0.01)
    return Measured((0.9 - (a - 0.8) ** 2 + noise - (0.1 * (1 - job.rung) if job.rung else 0.0),))


def queue_on(place: Path | str, search: Search, **options: Any) -> SearchQueue:
    return SearchQueue(search, Study(place, search), **{"key": key, "base": BASE, **options})


def run(queue: SearchQueue, objective: Objective = hill, *, slots: int = 1, most: int | None = None) -> list[Job]:
    """Runs a search with as many trainings at a time; the oldest ends first. Returns what was trained, in order.

    Args:
        queue: the search.
        objective: what a training reaches.
        slots: number of trainings at a time.
        most: number of trainings after which the search is left as a kill leaves it.
    """
    trained: list[Job] = []
    running: list[Job] = []
    while most is None or len(trained) < most:
        try:
            job = queue.next() if len(running) < slots else None
        except Exhausted:
            return trained
        if job is not None:
            running.append(job)
        else:
            job = running.pop(0)
            queue.ended(job, objective(job))
            trained.append(job)
    return trained
