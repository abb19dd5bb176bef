"""One predicted segmentation beside its target, with the intermediate results that several metrics share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mucon.arrays import Ints
from mucon.metrics.segments import Counts, Overlaps, f1_counts, overlaps, runs, without
from mucon.segments import Segmentation, Truth

F1_THRESHOLDS = (0.10, 0.25, 0.50)
_NO_ACTION = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """A target and a prediction of one recording.

    Attributes:
        target: the true segmentation; each segment has one frame if the true lengths are unknown.
        has_lengths: the true lengths are known; otherwise only transcripts can be compared.
        true_labels: `[T]`.
        predicted_labels: `[T]`, -1 in every frame if the prediction has no segment.
        true_runs: runs of equal true labels.
        predicted_runs: runs of equal predicted labels.
        ignored: background ids that metrics leave out; empty for the plain metrics.
    """

    target: Segmentation
    prediction: Segmentation
    has_lengths: bool
    true_labels: Ints
    predicted_labels: Ints
    true_runs: Segmentation
    predicted_runs: Segmentation
    ignored: Collection[int] = ()

    @classmethod
    def of(cls, truth: Truth, prediction: Segmentation) -> Comparison:
        """Compares all actions, including background."""
        has_lengths = isinstance(truth, Segmentation)
        target = truth if isinstance(truth, Segmentation) else Segmentation.of(truth, np.ones(len(truth)))
        true_labels = target.to_frame_labels()
        predicted_labels = prediction.to_frame_labels()
        if not prediction.n_segments:
            predicted_labels = np.full(len(true_labels), _NO_ACTION)
        return cls(
            target=target,
            prediction=prediction,
            has_lengths=has_lengths,
            true_labels=true_labels,
            predicted_labels=predicted_labels,
            true_runs=runs(target),
            predicted_runs=runs(prediction),
        )

    def without(self, background_ids: Collection[int]) -> Comparison:
        """The same comparison without background."""
        return replace(self, ignored=background_ids)

    @property
    def same_transcript(self) -> bool:
        """Segment m of the prediction is of the same action as segment m of the target, for all m."""
        return np.array_equal(self.target.transcript, self.prediction.transcript)

    @cached_property
    def overlap(self) -> Overlaps:
        """Overlapping pairs of runs."""
        return overlaps(self.true_runs, self.predicted_runs, self.ignored)

    @cached_property
    def transcripts(self) -> tuple[Ints, Ints]:
        """Transcripts of the true and the predicted runs without ignored actions."""
        return without(self.true_runs.transcript, self.ignored), without(self.predicted_runs.transcript, self.ignored)

    @cached_property
    def f1(self) -> dict[float, Counts]:
        """Counts by threshold, one for each of `F1_THRESHOLDS`."""
        return dict(zip(F1_THRESHOLDS, f1_counts(self.overlap, F1_THRESHOLDS), strict=True))
