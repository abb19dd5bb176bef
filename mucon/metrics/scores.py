"""All metrics of predicted segmentations, over many recordings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from mucon.errors import InputError
from mucon.metrics import frames, segments, transcripts
from mucon.metrics.segments import Counts
from mucon.segments import Segmentation

F1_THRESHOLDS = (0.10, 0.25, 0.50)
WITHOUT = "_without_background"
_BASES = ("mof", "iod", "iou", "edit", *(f"f1_at_{round(100 * threshold)}" for threshold in F1_THRESHOLDS))
METRICS = (*(name + suffix for name in _BASES for suffix in ("", WITHOUT)), "matching_score")
"""The names of all metrics."""
_NO_ACTION = -1


@dataclass(frozen=True, slots=True)
class Scores:
    """What `score` found, or another function of many recordings.

    Attributes:
        values: metric -> fraction 0..1 over all recordings (boundary errors are in frames or seconds, as their names
            say). A metric that no recording defines has no entry.
        undefined: metric -> how many recordings do not define it and are not counted; an entry for each metric.
        per_video: for each recording, metric -> fraction or None (undefined), and the counts of F1 as
            `tp_at_10`, `fp_at_10`, `fn_at_10`, ..., with `_without_background` too.
    """

    values: dict[str, float]
    undefined: dict[str, int]
    per_video: list[dict[str, float | None]]

    def __or__(self, other: Scores) -> Scores:
        """These metrics and others of the same recordings."""
        per_video = [a | b for a, b in zip(self.per_video, other.per_video, strict=True)]
        return Scores(self.values | other.values, self.undefined | other.undefined, per_video)


def score(
    targets: Sequence[Segmentation], predictions: Sequence[Segmentation], background_ids: Collection[int] = ()
) -> Scores:
    """Compares each prediction with its target.

    MoF is pooled over all frames of all recordings. F1 comes from counts summed over recordings. IoD, IoU (best
    segment of the same action, mean over true segments), Edit and the matching score are means over recordings.
    `..._without_background` leaves out frames whose target is background (MoF) or the background segments of both
    sides; without any background class it equals the plain metric.

    Undefined, and so not counted: MoF without background where every true frame is background; IoD and IoU where
    there is no true segment; Edit, F1 and the matching score where both sides are empty. Where only the prediction
    is empty they are 0.
    Source: the paper's appendix. Segments are runs of frame labels, see `mucon.metrics`; the matching score compares
    the transcripts as they are.

    Args:
        targets: true segmentations.
        predictions: as many, each with as many frames as its target, or without any segment: then no frame is right.
        background_ids: actions that are background.

    Raises:
        InputError: different numbers of recordings or of frames.
    """
    if len(targets) != len(predictions):
        raise InputError(
            f"every recording has a target and a prediction, {len(targets)} targets and {len(predictions)} predictions "
            "are not pairs: give one prediction for each target"
        )
    wrong = [
        f"target and prediction have the same frames, recording {i} has {target.n_frames} and {prediction.n_frames}: "
        "predict every frame"
        for i, (target, prediction) in enumerate(zip(targets, predictions, strict=True))
        if prediction.n_frames != target.n_frames and prediction.n_segments
    ]
    if wrong:
        raise InputError(wrong)
    rows = [
        _Row.of(target, prediction, background_ids) for target, prediction in zip(targets, predictions, strict=True)
    ]
    per_video = [row.per_video() for row in rows]
    undefined = {name: sum(video[name] is None for video in per_video) for name in METRICS}
    return Scores(_pooled(rows, per_video), undefined, per_video)


@dataclass(frozen=True, slots=True)
class _Row:
    """One recording: what adds up over recordings, and what is averaged."""

    frames: dict[str, tuple[int, int]]
    counts: dict[str, Counts]
    means: dict[str, float | None]

    @classmethod
    def of(cls, target: Segmentation, prediction: Segmentation, background_ids: Collection[int]) -> _Row:
        frame_counts: dict[str, tuple[int, int]] = {}
        counts: dict[str, Counts] = {}
        means: dict[str, float | None] = {}
        true_labels, predicted_labels = target.to_frame_labels(), prediction.to_frame_labels()
        if not prediction.n_segments:
            predicted_labels = np.full(len(true_labels), _NO_ACTION)
        true_runs, predicted_runs = segments.runs(target), segments.runs(prediction)
        for suffix, ignored in (("", ()), (WITHOUT, background_ids)):
            overlap = segments.overlaps(true_runs, predicted_runs, ignored)
            frame_counts["mof" + suffix] = frames.correct_frames(true_labels, predicted_labels, ignored)
            means["iod" + suffix] = segments.best_iod(overlap)
            means["iou" + suffix] = segments.best_iou(overlap)
            means["edit" + suffix] = transcripts.edit_score(
                segments.without(true_runs.transcript, ignored), segments.without(predicted_runs.transcript, ignored)
            )
            at_thresholds = segments.f1_counts(overlap, F1_THRESHOLDS)
            for threshold, found in zip(F1_THRESHOLDS, at_thresholds, strict=True):
                counts[f"at_{round(100 * threshold)}{suffix}"] = found
        means["matching_score"] = transcripts.matching_score(target.transcript, prediction.transcript)
        return cls(frame_counts, counts, means)

    def per_video(self) -> dict[str, float | None]:
        values: dict[str, float | None] = {name: frames.share(*pair) for name, pair in self.frames.items()}
        values |= self.means
        for name, found in self.counts.items():
            values[f"f1_{name}"] = found.f1
            values[f"tp_{name}"] = found.true_positives
            values[f"fp_{name}"] = found.false_positives
            values[f"fn_{name}"] = found.false_negatives
        return values


def _pooled(rows: list[_Row], per_video: list[dict[str, float | None]]) -> dict[str, float]:
    values: dict[str, float | None] = {}
    for suffix in ("", WITHOUT):
        pairs = [row.frames["mof" + suffix] for row in rows]
        values["mof" + suffix] = frames.share(sum(right for right, _ in pairs), sum(counted for _, counted in pairs))
        for threshold in F1_THRESHOLDS:
            name = f"at_{round(100 * threshold)}{suffix}"
            values[f"f1_{name}"] = sum((row.counts[name] for row in rows), Counts(0, 0, 0)).f1
    for name in METRICS:
        if name not in values:
            defined = [value for video in per_video if (value := video[name]) is not None]
            values[name] = sum(defined) / len(defined) if defined else None
    return {name: value for name in METRICS if (value := values[name]) is not None}
