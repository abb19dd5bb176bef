"""Predicted and true lengths of the same segments: correlation and error of their logarithms.

Segments are compared that are matched on a path of fewest edits between the two transcripts (`transcripts.matches`); in
alignment, where the transcripts are equal, these are all segments. Lengths below one frame count as one frame. MoF can
be high although long segments are predicted to be short and short ones long; the correlation is negative then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mucon.arrays import Floats
from mucon.metrics.transcripts import matches
from mucon.segments import Segmentation


@dataclass(frozen=True, slots=True)
class LengthMoments:
    """Sums of squares and products of log lengths, each less its mean over the segments of its recording.

    Sums of several recordings make a correlation within recordings: whether a recording is long does not count.

    Attributes:
        predicted: sum of the squares of the predicted ones.
        true: sum of the squares of the true ones.
        both: sum of the products.
    """

    predicted: float
    true: float
    both: float

    def __add__(self, other: LengthMoments) -> LengthMoments:
        return LengthMoments(self.predicted + other.predicted, self.true + other.true, self.both + other.both)

    @property
    def value(self) -> float:
        """The correlation, from -1 to 1."""
        return self.both / float(np.sqrt(self.predicted * self.true))

    def parts(self) -> dict[str, int]:
        """None."""
        return {}


def length_correlation(target: Segmentation, prediction: Segmentation) -> LengthMoments | None:
    """Correlation of the log lengths of matched segments; None if all predicted or all true ones are equal.

    >>> found = length_correlation(Segmentation.of([0, 1, 2], [9, 1, 3]), Segmentation.of([0, 2], [1, 12]))
    >>> round(found.value, 9)
    -1.0
    """
    true, predicted = _log_lengths(target, prediction)
    if len(true) < 2 or not np.ptp(true) or not np.ptp(predicted):
        return None
    true, predicted = true - true.mean(), predicted - predicted.mean()
    return LengthMoments(*(float(x @ y) for x, y in ((predicted, predicted), (true, true), (predicted, true))))


def log_length_error(target: Segmentation, prediction: Segmentation) -> float | None:
    """Mean absolute difference of the log lengths of matched segments; None without any.

    An error of 0.69, log 2, is a length that is twice or half the true one.
    """
    true, predicted = _log_lengths(target, prediction)
    return float(np.abs(true - predicted).mean()) if len(true) else None


def _log_lengths(target: Segmentation, prediction: Segmentation) -> tuple[Floats, Floats]:
    """True and predicted log lengths of the matched segments."""
    rows, columns = matches(target.transcript, prediction.transcript)
    pairs = ((target.lengths, rows), (prediction.lengths, columns))
    true, predicted = (np.log(np.maximum(lengths[indices], 1).astype(np.float64)) for lengths, indices in pairs)
    return true, predicted
