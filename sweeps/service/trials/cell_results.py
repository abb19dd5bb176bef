"""State and scores of one cell, as needed by the tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.service.trials.folder import State
from sweeps.service.trials.reading import TrialReading, values_of


@dataclass(frozen=True, slots=True)
class VideoScores:
    """Scores of the test videos.

    Attributes:
        ids: names of the videos `[V]`.
        values: (prediction, metric) -> `[V]`, NaN where the metric is undefined for a video.
    """

    ids: tuple[str, ...]
    values: Mapping[tuple[str, str], NDArray[np.float64]]

    @classmethod
    def of(cls, per_video: Collection[Mapping[str, Any]], wanted: Collection[tuple[str, str]]) -> VideoScores:
        """Selects (prediction, metric) pairs from a result's `per_video`; pairs that no video has are left out.

        >>> scores = VideoScores.of([{"id": "a", "full": {"mof": 0.5, "iod": None}}], [("full", "mof"), ("full", "x")])
        >>> scores.by_id("full", "mof"), scores.by_id("full", "x")
        ({'a': 0.5}, {})
        """
        values = {}
        for prediction, metric in sorted(wanted):
            scores = [row.get(prediction, {}).get(metric) for row in per_video]
            if any(score is not None for score in scores):
                values[prediction, metric] = np.array(scores, dtype=np.float64)  # None becomes NaN
        return cls(tuple(sys.intern(row["id"]) for row in per_video), values)

    def by_id(self, prediction: str, metric: str) -> dict[str, float | None]:
        """Video -> score, None if undefined; empty if the pair was not selected."""
        values = self.values.get((prediction, metric))
        if values is None:
            return {}
        return {id: None if math.isnan(value) else value for id, value in zip(self.ids, values.tolist(), strict=True)}


@dataclass(frozen=True, slots=True)
class CellResult:
    """State and scores of one cell, as needed by the tables.

    Attributes:
        state: state of its trial.
        reason: reason for that state, if there is one.
        scores: prediction -> metric -> value, see `table_values`; empty unless the cell is finished.
        videos: scores of the test videos; None unless the cell is finished.
    """

    state: State
    reason: str | None = None
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    videos: VideoScores | None = field(default=None, compare=False)

    @property
    def is_finished(self) -> bool:
        """Whether the cell has scores."""
        return self.state is State.FINISHED

    def value(self, prediction: str, metric: str) -> float | None:
        """A score; None if the cell is not finished or the score is undefined."""
        return self.scores.get(prediction, {}).get(metric)

    @property
    def training_seconds(self) -> float | None:
        """Seconds of the training; None if the cell is not finished."""
        return next(iter(self.scores.values()), {}).get("training_seconds")


def table_values(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The values of a result by prediction and metric: scores, `inference_seconds` and `training_seconds`."""
    return {
        prediction: {**values, "training_seconds": result["train_seconds"]}
        for prediction, values in values_of(result).items()
    }


def read_result(reading: TrialReading, evaluation: str, metrics: Collection[tuple[str, str]]) -> CellResult:
    """State and scores of an evaluation of a trial.

    Args:
        reading: the trial's directory.
        evaluation: identity of the evaluation.
        metrics: (prediction, metric) pairs for which the test videos' scores are kept.

    Raises:
        InputError: a file is damaged or of another format version.
    """
    result = reading.result(evaluation)
    if result is None:
        return CellResult(*reading.state(evaluation))
    return CellResult(State.FINISHED, None, table_values(result), VideoScores.of(result["per_video"], metrics))
