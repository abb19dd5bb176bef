"""What is known of a cell: its state and, where it is finished, what its result says, as far as tables need it."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.service.trials.folder import State, TrialFolder


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
class Known:
    """What is known of a cell.

    Attributes:
        state: of its trial.
        reason: for that state.
        scores: where it is finished, prediction -> metric -> value, see `shown_values`.
        videos: where it is finished and its result has them, the test videos' scores that tables show.
    """

    state: State
    reason: str | None = None
    scores: Mapping[str, Mapping[str, float]] | None = None
    videos: VideoScores | None = field(default=None, compare=False)


def shown_values(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """What a table can show of a trial's result, by prediction and metric.

    The scores, and beside them `training_seconds` and, where it was measured, `inference_seconds` for a video.
    """
    seconds = result.get("seconds", {})
    return {
        prediction: {
            **scores,
            "training_seconds": result["train_seconds"],
            **({"inference_seconds": seconds[prediction]} if prediction in seconds else {}),
        }
        for prediction, scores in result["scores"].items()
    }


def read_known(folder: TrialFolder, evaluation: str, wanted: Collection[tuple[str, str]]) -> Known:
    """What a trial's folder says now of an evaluation.

    Args:
        folder: of the trial.
        evaluation: its identity.
        wanted: of which (prediction, metric) the test videos' scores are kept.

    Raises:
        InputError: the folder has another format version or is damaged.
    """
    result = folder.result(evaluation)
    if result is None:
        return Known(*folder.unfinished_state())
    return Known(State.FINISHED, None, shown_values(result), VideoScores.of(result["per_video"], wanted))
