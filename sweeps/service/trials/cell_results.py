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
        ids: of the videos `[V]`.
        values: (prediction, metric) -> `[V]`, NaN where a video does not define the metric.
    """

    ids: tuple[str, ...]
    values: Mapping[tuple[str, str], NDArray[np.float64]]

    @classmethod
    def of(cls, per_video: Collection[Mapping[str, Any]], wanted: Collection[tuple[str, str]]) -> VideoScores:
        """Of a result's `per_video` what is wanted, by prediction and metric; what no video has is left out.

        >>> scores = VideoScores.of([{"id": "a", "full": {"mof": 0.5, "iod": None}}], [("full", "mof"), ("full", "x")])
        >>> scores.by_id("full", "mof"), scores.by_id("full", "x")
        ({'a': 0.5}, {})
        """
        values = {}
        for prediction, metric in sorted(wanted):
            found = [row.get(prediction, {}).get(metric) for row in per_video]
            if any(value is not None for value in found):
                values[prediction, metric] = np.array(found, dtype=np.float64)  # None becomes NaN
        return cls(tuple(sys.intern(row["id"]) for row in per_video), values)

    def by_id(self, prediction: str, metric: str) -> dict[str, float | None]:
        """Video -> its score, None where it is undefined; empty where nothing is known."""
        values = self.values.get((prediction, metric))
        if values is None:
            return {}
        return {id: None if math.isnan(value) else value for id, value in zip(self.ids, values.tolist(), strict=True)}


@dataclass(frozen=True, slots=True)
class CellResult:
    """State and scores of one cell, as needed by the tables.

    Attributes:
        state: state of its trial.
        reason: reason for that state.
        scores: of a finished cell, prediction -> metric -> value, see `table_values`; empty otherwise.
        videos: of a finished cell whose result has them, the scores of the test videos that tables show.
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
        """A score, or None where the cell is not finished or the score is undefined."""
        return self.scores.get(prediction, {}).get(metric)

    @property
    def training_seconds(self) -> float | None:
        """Seconds of the training, or None where the cell is not finished."""
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
