"""How well predicted segments meet the true ones: F1 at an overlap, IoD and IoU."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mucon.segments import Segmentation

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Segments with their place in time, some perhaps left out.

    Attributes:
        actions: `[M]`.
        starts: `[M]`, first frame.
        stops: `[M]`, one after the last frame.
    """

    actions: Ints
    starts: Ints
    stops: Ints


def runs(segmentation: Segmentation) -> Segmentation:
    """The segments that its frame labels show: none of length 0, equal neighbours joined.

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


def spans(segmentation: Segmentation, ignored: Collection[int] = ()) -> Spans:
    """The segments with their place in time, without those whose action is among `ignored`."""
    stops = np.cumsum(segmentation.lengths)
    starts = stops - segmentation.lengths
    kept = ~np.isin(segmentation.transcript, list(ignored))
    return Spans(segmentation.transcript[kept], starts[kept], stops[kept])


def intersections(rows: Spans, columns: Spans) -> Floats:
    """`[M_rows M_columns]`, frames in common of segments of the same action, 0 where the actions differ."""
    common = np.minimum(rows.stops[:, None], columns.stops) - np.maximum(rows.starts[:, None], columns.starts)
    same = rows.actions[:, None] == columns.actions
    return np.where(same, np.maximum(common, 0), 0).astype(np.float64)


def overlaps(rows: Spans, columns: Spans) -> Floats:
    """`[M_rows M_columns]`, intersection over union of segments of the same action, 0 where the actions differ."""
    common = intersections(rows, columns)
    lengths = (rows.stops - rows.starts)[:, None] + (columns.stops - columns.starts)
    return common / np.maximum(lengths - common, 1)


@dataclass(frozen=True, slots=True)
class Counts:
    """True positives, false positives and false negatives; they add up over recordings."""

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
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall, None where there is no segment at all.

        >>> Counts(2, 1, 1).f1, Counts(0, 0, 0).f1
        (0.6666666666666666, None)
        """
        twice = 2 * self.true_positives
        whole = twice + self.false_positives + self.false_negatives
        return twice / whole if whole else None


def f1_counts(targets: Spans, predictions: Spans, thresholds: Collection[float]) -> tuple[Counts, ...]:
    """Counts at each threshold: a predicted segment is right if it overlaps a true one of its action by that much.

    Each predicted segment looks only at the true segment that it overlaps best (the earlier among equals), and each
    true segment is found once; further ones that find it are wrong.
    Source: the field's F1@k, which the paper takes over (appendix).

    Args:
        targets: M true segments, runs.
        predictions: M' predicted segments, runs.
        thresholds: least intersection over union, above 0.
    """
    n_true, n_predicted = len(targets.actions), len(predictions.actions)
    if not n_true or not n_predicted:
        return tuple(Counts(0, n_predicted, n_true) for _ in thresholds)
    overlap = overlaps(predictions, targets)
    nearest = overlap.argmax(axis=1)
    height = overlap[np.arange(n_predicted), nearest]
    result = []
    for threshold in thresholds:
        found = len(np.unique(nearest[height >= threshold]))
        result.append(Counts(found, n_predicted - found, n_true - found))
    return tuple(result)


def best_iod(targets: Spans, predictions: Spans) -> float | None:
    """Mean over true segments of the highest intersection over *detection* with a predicted segment of its action.

    0 for a true segment whose action is not predicted; None where there is no true segment.
    Deviation: the paper pairs segments by index in alignment (`iod_by_index`); the published program does this.
    """
    if not len(targets.actions):
        return None
    if not len(predictions.actions):
        return 0.0
    shares = intersections(targets, predictions) / (predictions.stops - predictions.starts)
    return float(shares.max(axis=1).mean())


def best_iou(targets: Spans, predictions: Spans) -> float | None:
    """As `best_iod` with intersection over union."""
    if not len(targets.actions):
        return None
    if not len(predictions.actions):
        return 0.0
    return float(overlaps(targets, predictions).max(axis=1).mean())


def iod_by_index(target: Segmentation, prediction: Segmentation, ignored: Collection[int] = ()) -> float | None:
    """Mean over segments of intersection over detection, segment m with segment m: for alignment.

    Source: the paper's appendix, IoD.

    Args:
        target: the true segmentation.
        prediction: of the same transcript.
        ignored: background ids, whose segments are not counted.

    Returns:
        0 for a segment predicted with no frame; None where no segment is counted.

    Raises:
        ValueError: the transcripts differ.
    """
    common, _, detected = _by_index(target, prediction, ignored)
    return float((common / np.maximum(detected, 1)).mean()) if len(common) else None


def iou_by_index(target: Segmentation, prediction: Segmentation, ignored: Collection[int] = ()) -> float | None:
    """As `iod_by_index` with intersection over union; segments empty on both sides have no union and count as 0."""
    common, true, detected = _by_index(target, prediction, ignored)
    return float((common / np.maximum(true + detected - common, 1)).mean()) if len(common) else None


def _by_index(target: Segmentation, prediction: Segmentation, ignored: Collection[int]) -> tuple[Floats, Ints, Ints]:
    if not np.array_equal(target.transcript, prediction.transcript):
        raise ValueError("segments are paired by index only where both sides have the same transcript")
    a, b = spans(target, ignored), spans(prediction, ignored)
    common = np.maximum(np.minimum(a.stops, b.stops) - np.maximum(a.starts, b.starts), 0).astype(np.float64)
    return common, a.stops - a.starts, b.stops - b.starts
