"""Scores of an exported model, with intervals over its recordings and over the seeds of its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mucon.device import usable_cpus
from mucon.evaluation import evaluate
from mucon.library import load_predictor
from mucon.metrics.catalogue import printed_metrics
from mucon.videos import check_same_data, training_videos_of, videos_of, vocabulary_of

if TYPE_CHECKING:
    from storage import Store

RESAMPLES = 2000
"""Bootstrap samples of the recordings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean with its 95 % interval, in the unit of the result files.

    Attributes:
        mean: mean over `n` recordings or seeds.
        n: number of recordings or seeds.
        low: lower end; None if there are too few for an interval.
        high: upper end; None if there are too few for an interval.
    """

    mean: float
    n: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A metric of a prediction.

    Attributes:
        prediction: such as `full`.
        metric: name in `mucon.metrics.catalogue`.
        task: `segmentation` or `alignment`.
        split: name of the split.
        part: the scored part of the split.
        value: the score of the exported model.
        over_recordings: mean of its recordings' values with a bootstrap interval; None without such values.
        over_seeds: mean over trainings with the same settings and other seeds, with Student's interval; None if only
            this training is known.
        runs: the trainings of `over_seeds`, or the exported one.
    """

    prediction: str
    metric: str
    task: str = "segmentation"
    split: str
    part: str = "test"
    value: float
    over_recordings: Interval | None = None
    over_seeds: Interval | None = None
    runs: Sequence[str]

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`."""
        over = ("over_recordings", "over_seeds")
        return cls(**{**value, **{name: value[name] and Interval(**value[name]) for name in over}})


def scores_of(
    scores: Mapping[str, Mapping[str, float]],
    per_video: Sequence[Mapping[str, Any]],
    *,
    split: str,
    part: str = "test",
    task: str = "segmentation",
    runs: Sequence[str],
) -> list[Score]:
    """The scores of an evaluation that are printed, with intervals over its recordings.

    Args:
        scores: prediction -> metric -> value, as in `mucon.evaluation.Evaluation`.
        per_video: for each recording, prediction -> metric -> value.
        split: name of the split.
        part: the scored part.
        task: `segmentation` or `alignment`.
        runs: the scored trainings.
    """
    names = [metric.name for metric in printed_metrics("alignment" if task == "alignment" else "segmentation")]
    found = []
    for prediction, values in scores.items():
        for metric in names:
            if metric not in values:
                continue
            own = [row.get(prediction, {}).get(metric) for row in per_video]
            over = interval_over_recordings([value for value in own if value is not None])
            found.append(
                Score(
                    prediction=prediction,
                    metric=metric,
                    task=task,
                    split=split,
                    part=part,
                    value=values[metric],
                    over_recordings=over,
                    runs=tuple(runs),
                )
            )
    return found


def scored(folder: Path, store: Store, *, split: str, part: str = "test", runs: Sequence[str]) -> list[Score]:
    """Scores the model in a folder on a part of a split, see `scores_of`.

    Raises:
        InputError: a store of other data, or no such part.

    Warns:
        DataWarning: recordings that the model was trained on.
    """
    predictor = load_predictor(folder, "cpu")
    check_same_data(predictor.vocabulary, predictor.dim, vocabulary_of(store), store.manifest.dim)
    found = evaluate(
        predictor,
        videos_of(store, split, part),
        fps=store.manifest.fps,
        training_videos=training_videos_of(store, split, part),
        threads=usable_cpus(),
    )
    return scores_of(found.scores, found.per_video, split=split, part=part, runs=runs)


def interval_over_recordings(values: Sequence[float]) -> Interval | None:
    """The mean over recordings with a percentile bootstrap interval; None without values.

    The same values always have the same interval.
    Source: Efron (1979).

    >>> interval_over_recordings([0.5, 0.5, 0.5])
    Interval(mean=0.5, n=3, low=0.5, high=0.5)
    """
    if not values:
        return None
    sample = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(0).integers(0, len(sample), size=(RESAMPLES, len(sample)))
    low, high = np.quantile(sample[drawn].mean(axis=1), [0.025, 0.975])
    return Interval(mean=float(sample.mean()), n=len(sample), low=float(low), high=float(high))
