"""Searches on a store whose trainings write a chosen score at once, made without training, Ray or MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mucon.config import TrainConfig
from mucon.configuration import flatten
from sweeps.service.plan.cells import Cell
from sweeps.service.run.source import Exhausted
from sweeps.service.run.worker import Outcome
from sweeps.service.search.points import STUDY
from sweeps.service.search.queue import SearchQueue
from sweeps.service.search.study import Study
from sweeps.service.search.sweep.rows import Ground, PointPlan
from sweeps.service.search.sweep.source import SearchGrowth
from sweeps.service.search.sweep.warm_start import known_points
from sweeps.service.spec.search import Choice, LogUniform, Search, Space
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.helpers.planted_sweeps import result_of
from tests.sweeps.small import TINY

SPACE: Space = {
    "training.learning_rate": LogUniform(0.001, 0.1),
    "mask.shape": Choice(("box", "bell")),
    "mask.overlap": Choice((0.0, 0.1), when={"mask.shape": ("bell",)}),
}
Score = Callable[[Trial], float]


def search_of(**values: Any) -> Search:
    return Search(**{"name": "planted", "title": "Planted", "space": SPACE, "trials": 5, "seeds": 2, **values})


def ground_of(store: Path, results: Path, **settings: object) -> Ground:
    whole: Mapping[str, object] = {**TINY, **settings}
    return Ground(
        store=store, base=TrainConfig(), settings=whole, splits=("1",), results=ResultsFolder.at(results), device="cpu"
    )


def rate_score(trial: Trial) -> float:
    """Better with a larger rate, and differs between seeds."""
    config = trial.config.to_dict()
    return 0.5 + float(config["training"]["learning_rate"]) + 0.001 * float(config["seed"])


def plant(results: ResultsFolder, cell: Cell, value: float) -> None:
    """Writes the result of a trial, as a worker does."""
    folder = results.trial(cell.identity)
    folder.path.mkdir(parents=True, exist_ok=True)
    result = result_of(cell, dict.fromkeys(("frames", "segments", "full"), value), 2, videos_differ=True)
    folder.write_training(weights_sha256=result["weights_sha256"], train_seconds=result["train_seconds"])
    folder.write_result(cell.evaluation, result)


@dataclass
class Planted:
    """A search that is run without an engine.

    Attributes:
        points: its plan.
        queue: its study.
        growth: between the two.
        trained: keys of the trials that it has asked for, in order.
    """

    points: PointPlan
    queue: SearchQueue
    growth: SearchGrowth
    trained: list[str]

    @classmethod
    def open(cls, search: Search, ground: Ground, *, warm_start: Sequence[str] = (), **options: Any) -> Planted:
        """A search as a command opens it: from its study, the finished trials and the sweeps of a warm start."""
        points = PointPlan(search, ground)
        points.folder.mkdir(parents=True, exist_ok=True)
        study = Study(points.folder / STUDY, points.search, points.context)
        base = flatten(points.base.to_dict())
        queue = SearchQueue(points.search, study, points.key, base=base, known=known_points(points, warm_start))
        growth = SearchGrowth(queue, points, **{"slots": 1, **options})
        growth.begin()
        return cls(points, queue, growth, [])

    def train(self, score: Score = rate_score, most: int | None = None) -> None:
        """Trains until the search has no further training, or until a kill after some of them."""
        while most is None or len(self.trained) < most:
            try:
                training = self.growth.next_training()
            except Exhausted:
                return
            assert training is not None
            for trial in training:
                (cell,) = [cell for cell in self.points.plan.cells if cell.key == trial.key]
                plant(self.points.ground.results, cell, score(trial))
                self.trained.append(trial.key)
                self.growth.ended(trial, Outcome(State.FINISHED))
