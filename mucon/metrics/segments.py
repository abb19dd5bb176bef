"""Overlap metrics of segments: F1 at an overlap, IoD and IoU."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from mucon.arrays import Bools, Floats, Ints
from mucon.segments import Segmentation


@dataclass(frozen=True, slots=True, eq=False)
class Overlaps:
    """Pairs of a true and a predicted segment of one action that share frames; at most M + M'.

    Attributes:
        n_true: M, counted true segments.
        n_predicted: M', counted predicted segments.
        true: `[P]`, index of the true segment.
        predicted: `[P]`, index of the predicted segment.
        frames: `[P]`, shared frames.
        true_lengths: `[P]`, frames of the true segment.
        predicted_lengths: `[P]`, frames of the predicted segment.
    """

    n_true: int
    n_predicted: int
    true: Ints
    predicted: Ints
    frames: Ints
    true_lengths: Ints
    predicted_lengths: Ints

    @property
    def over_union(self) -> Floats:
        """Intersection over union, `[P]`."""
        return self.frames / (self.true_lengths + self.predicted_lengths - self.frames)

    @property
    def over_detection(self) -> Floats:
        """Intersection over detection (the predicted segment), `[P]`."""
        return self.frames / self.predicted_lengths


def runs(segmentation: Segmentation) -> Segmentation:
    """The segments as frame labels show them: without empty ones, equal neighbours joined.

    >>> s = runs(Segmentation.of([3, 3, 5, 3, 4], [2, 1, 0, 4, 1]))
    >>> s.transcript.tolist(), s.lengths.tolist()
    ([3, 4], [7, 1])
    """
    kept = segmentation.lengths > 0
    actions, lengths = segmentation.transcript[kept], segmentation.lengths[kept]
    if not len(actions):
        return Segmentation(actions, lengths)
    first = np.flatnonzero(np.concatenate(([True], actions[1:] != actions[:-1])))
    return Segmentation(actions[first], np.add.reduceat(lengths, first))


def overlaps(target: Segmentation, prediction: Segmentation, ignored: Collection[int] = ()) -> Overlaps:
    """Finds the segments of one action that share frames, without segments whose action is among `ignored`.

    Between two neighbouring borders of either side there is one piece of one true and one predicted segment, so the
    work is O((M + M') log(M + M')).

    Args:
        target: runs of the true labels.
        prediction: runs of as many predicted labels, or no segment.
        ignored: background ids.
    """
    true_stops, predicted_stops = np.cumsum(target.lengths), np.cumsum(prediction.lengths)
    both = target.n_segments > 0 and prediction.n_segments > 0
    stops = np.union1d(true_stops, predicted_stops) if both else true_stops[:0]
    starts = np.concatenate(([0], stops))[:-1]
    true = np.searchsorted(true_stops, starts, side="right")
    predicted = np.searchsorted(predicted_stops, starts, side="right")
    counted = _counted(target.transcript, ignored)
    kept = (target.transcript[true] == prediction.transcript[predicted]) & counted[true]
    true, predicted, frames = true[kept], predicted[kept], (stops - starts)[kept]
    return Overlaps(
        int(counted.sum()),
        int(_counted(prediction.transcript, ignored).sum()),
        true,
        predicted,
        frames,
        target.lengths[true],
        prediction.lengths[predicted],
    )


def without(transcript: Ints, ignored: Collection[int]) -> Ints:
    """The transcript without the ignored actions."""
    return transcript[_counted(transcript, ignored)]


def _counted(transcript: Ints, ignored: Collection[int]) -> Bools:
    return ~np.isin(transcript, list(ignored))


@dataclass(frozen=True, slots=True)
class Counts:
    """True positives, false positives and false negatives of segments; add up over recordings."""

    true_positives: int
    false_positives: int
    false_negatives: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.true_positives + other.true_positives,
            self.false_positives + other.false_positives,
            self.false_negatives + other.false_negatives,
        )

    @property
    def value(self) -> float | None:
        """F1, the harmonic mean of precision and recall; None without any segment.

        >>> Counts(2, 1, 1).value, Counts(0, 0, 0).value
        (0.6666666666666666, None)
        """
        twice = 2 * self.true_positives
        whole = twice + self.false_positives + self.false_negatives
        return twice / whole if whole else None

    def parts(self) -> dict[str, int]:
        """The counts by short name."""
        return {"tp": self.true_positives, "fp": self.false_positives, "fn": self.false_negatives}


def f1_counts(overlap: Overlaps, thresholds: Collection[float]) -> tuple[Counts, ...]:
    """Counts at each threshold: a predicted segment is correct if it overlaps a true one of its action by that much.

    Each predicted segment is compared only with the true segment that it overlaps best (the earlier among equals).
    Each true segment is matched once; further predicted segments that match it are false positives.
    Source: the field's F1@k, which the paper adopts (appendix).

    Args:
        overlap: overlaps of runs.
        thresholds: smallest intersection over union, above 0.
    """
    height = overlap.over_union
    order = np.lexsort((overlap.true, -height, overlap.predicted))
    _, first = np.unique(overlap.predicted[order], return_index=True)
    best = order[first]
    result = []
    for threshold in thresholds:
        matched = len(np.unique(overlap.true[best][height[best] >= threshold]))
        result.append(Counts(matched, overlap.n_predicted - matched, overlap.n_true - matched))
    return tuple(result)


def best_iod(overlap: Overlaps) -> float | None:
    """Mean over true segments of the highest intersection over *detection* with a predicted segment of its action.

    0 for a true segment that overlaps none of its action; None without true segments.
    Deviation: the paper pairs segments by index in alignment (`iod_by_index`); the published program does this.
    """
    return _mean_of_best(overlap, overlap.over_detection)


def best_iou(overlap: Overlaps) -> float | None:
    """Like `best_iod`, with intersection over union."""
    return _mean_of_best(overlap, overlap.over_union)


def _mean_of_best(overlap: Overlaps, shares: Floats) -> float | None:
    if not overlap.n_true:
        return None
    best = np.zeros(int(overlap.true.max(initial=-1)) + 1)
    np.maximum.at(best, overlap.true, shares)
    return float(best.sum()) / overlap.n_true


def iod_by_index(target: Segmentation, prediction: Segmentation, ignored: Collection[int] = ()) -> float | None:
    """Mean over segments of intersection over detection, segment m with segment m: for alignment.

    Source: the paper's appendix, IoD.

    Args:
        target: the true segmentation.
        prediction: a segmentation of the same transcript.
        ignored: background ids; their segments are not counted.

    Returns:
        None if no segment is counted. A segment predicted without a frame counts as 0.

    Raises:
        ValueError: the transcripts differ.
    """
    common, _, detected = _by_index(target, prediction, ignored)
    return float((common / np.maximum(detected, 1)).mean()) if len(common) else None


def iou_by_index(target: Segmentation, prediction: Segmentation, ignored: Collection[int] = ()) -> float | None:
    """Like `iod_by_index`, with intersection over union; segments empty on both sides count as 0."""
    common, true, detected = _by_index(target, prediction, ignored)
    return float((common / np.maximum(true + detected - common, 1)).mean()) if len(common) else None


def _by_index(target: Segmentation, prediction: Segmentation, ignored: Collection[int]) -> tuple[Floats, Ints, Ints]:
    if not np.array_equal(target.transcript, prediction.transcript):
        raise ValueError("cannot pair segments of different transcripts by index")
    true_stops, predicted_stops = np.cumsum(target.lengths), np.cumsum(prediction.lengths)
    starts = np.maximum(true_stops - target.lengths, predicted_stops - prediction.lengths)
    common = np.maximum(np.minimum(true_stops, predicted_stops) - starts, 0).astype(np.float64)
    counted = _counted(target.transcript, ignored)
    return common[counted], target.lengths[counted], prediction.lengths[counted]
