"""Computes the metrics of predicted segmentations over many recordings."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mucon.errors import InputError, Problem
from mucon.metrics import catalogue
from mucon.metrics.catalogue import Measured, Metric
from mucon.metrics.comparison import Comparison
from mucon.segments import Segmentation, Truth

_COMPUTED = tuple(metric for metric in catalogue.METRICS if metric.measure and "segmentation" in metric.tasks)
METRICS = tuple(metric.name for metric in _COMPUTED)
"""Names of the metrics that `score` computes."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Metrics over many recordings.

    Attributes:
        values: metric -> fraction 0..1 over all recordings (frames or seconds for boundary errors). A metric that no
            recording defines has no entry.
        undefined: metric -> number of recordings that do not define it and are not counted; has all metrics.
        per_video: for each recording, metric -> fraction or None (undefined), and the counts of F1 as
            `tp_at_10`, `fp_at_10`, `fn_at_10`, ..., also with `_without_background`.
    """

    values: dict[str, float]
    undefined: dict[str, int]
    per_video: list[dict[str, float | None]]

    def __or__(self, other: Scores) -> Scores:
        """Merges with other metrics of the same recordings."""
        per_video = [a | b for a, b in zip(self.per_video, other.per_video, strict=True)]
        return Scores(self.values | other.values, self.undefined | other.undefined, per_video)


def score(
    targets: Sequence[Truth], predictions: Sequence[Segmentation | None], background_ids: Collection[int] = ()
) -> Scores:
    """Compares each prediction with its target.

    MoF is pooled over all frames of all recordings. F1 is computed from counts summed over recordings. IoD, IoU (best
    segment of the same action, mean over true segments; by class: frames of an action, mean over the actions of the
    truth), Edit, the matching score and MoF per video are means over recordings.
    `..._without_background` leaves out frames whose target is background (MoF) or the background segments of both
    sides; without any background class it equals the plain metric.

    Undefined, and so not counted: MoF without background where every true frame is background; IoD and IoU where
    there is no true segment; Edit, F1 and the matching score where both sides are empty. Where only the prediction
    is empty they are 0. `length_correlation`, over all recordings, is undefined where all predicted or all true lengths
    of matched segments are equal, `log_length_error` where no segment is matched; see `mucon.metrics.lengths`. A
    recording without a prediction or without an annotation defines no metric; one whose true lengths are unknown
    defines the matching score and Edit only (no true segment is assumed to be empty).
    Source: the paper's appendix. Segments are runs of frame labels, see `mucon.metrics`; the matching score compares
    the transcripts including repetitions.

    Args:
        targets: annotations.
        predictions: one per target, each with as many frames as its target, or without any segment: then every frame
            counts as wrong; None for an undefined one.
        background_ids: actions that are background.

    Raises:
        InputError: different numbers of recordings or of frames.
    """
    problems = _problems(targets, predictions)
    if problems:
        raise InputError(problems)
    return compute(_COMPUTED, targets, predictions, background_ids)


def compute(
    metrics: Sequence[Metric],
    targets: Sequence[Truth],
    predictions: Sequence[Segmentation | None],
    background_ids: Collection[int],
) -> Scores:
    """Computes metrics of the catalogue; see `score`.

    Args:
        metrics: metrics with a `measure`.
        targets: annotations.
        predictions: one per target; None for an undefined one.
        background_ids: actions that are background.
    """
    rows = [
        _measure(metrics, target, prediction, background_ids)
        for target, prediction in zip(targets, predictions, strict=True)
    ]
    pooled = {metric.name: _pooled([row[metric.name] for row in rows]) for metric in metrics}
    per_video = [_values(row) for row in rows]
    undefined = {metric.name: sum(video[metric.name] is None for video in per_video) for metric in metrics}
    return Scores({name: value for name, value in pooled.items() if value is not None}, undefined, per_video)


def _problems(targets: Sequence[Truth], predictions: Sequence[Segmentation | None]) -> list[Problem]:
    if len(targets) != len(predictions):
        expected = f"{len(targets)} (one per target)"
        return [Problem(rule="shape", place="number of predictions", value=len(predictions), expected=expected)]
    return [
        Problem(
            rule="shape",
            place=f"prediction {index}",
            value=prediction.n_frames,
            expected=f"{target.n_frames} frames (as the target)",
        )
        for index, (target, prediction) in enumerate(zip(targets, predictions, strict=True))
        if isinstance(target, Segmentation)
        and prediction is not None
        and prediction.n_frames != target.n_frames
        and prediction.n_segments
    ]


def _measure(
    metrics: Sequence[Metric], target: Truth, prediction: Segmentation | None, background_ids: Collection[int]
) -> dict[str, Measured]:
    measured: dict[str, Measured] = dict.fromkeys(metric.name for metric in metrics)
    if prediction is None or target == ():
        return measured
    plain = Comparison.of(target, prediction)
    without_background = plain.without(background_ids)
    for metric in metrics:
        if metric.measure is not None and (plain.has_lengths or metric.of_transcripts):
            measured[metric.name] = metric.measure(without_background if metric.ignores_background else plain)
    return measured


def _values(row: dict[str, Measured]) -> dict[str, float | None]:
    """Values of one recording, and the parts of counts: those of `f1_at_10` as `tp_at_10`, ..."""
    values: dict[str, float | None] = {}
    for name, measured in row.items():
        if measured is None or isinstance(measured, int | float):
            values[name] = measured
        else:
            values[name] = measured.value
            values |= {f"{part}_{name.partition('_')[2]}": count for part, count in measured.parts().items()}
    return values


def _pooled(column: Sequence[Measured]) -> float | None:
    """Mean of the recordings that define the metric; counts are summed first."""
    values = [measured for measured in column if isinstance(measured, int | float)]
    if values:
        return sum(values) / len(values)
    counts = [measured for measured in column if measured is not None and not isinstance(measured, int | float)]
    return functools.reduce(operator.add, counts).value if counts else None
