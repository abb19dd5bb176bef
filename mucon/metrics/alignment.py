"""Metrics of alignment, where the transcript is given: segment m is compared with segment m."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mucon.metrics import catalogue
from mucon.metrics.boundaries import BOUNDARY_ERROR_BY_INDEX, boundary_errors_by_index, errors_of, summary
from mucon.metrics.scores import Scores, compute
from mucon.segments import Segmentation, Truth

_COMPUTED = tuple(metric for metric in catalogue.METRICS if metric.measure and metric.tasks == ("alignment",))
BY_INDEX = tuple(metric.name for metric in _COMPUTED)
"""Names of the fractions among the metrics of alignment."""


def alignment_scores(
    targets: Sequence[Truth],
    predictions: Sequence[Segmentation | None],
    background_ids: Collection[int] = (),
    *,
    fps: float | None = None,
) -> Scores:
    """IoD and IoU by index, means over segments and then over recordings, and the boundary errors by index.

    Names: `iod_by_index`, `iou_by_index`, each also with `_without_background` (background segments are not counted),
    and `boundary_error_by_index_frames`, `boundary_error_by_index_median_frames` (over all boundaries of all
    recordings), both also in `..._seconds` if fps is given. All are undefined for a recording whose predicted
    transcript differs from the true one or is undefined, and for one whose true lengths are unknown.
    Source: the paper's appendix, IoD.

    Args:
        targets: annotations.
        predictions: one per target, of the same transcript; None for an undefined one.
        background_ids: actions that are background.
        fps: frames per second; None if unknown.

    Raises:
        InputError: fps is not above 0.
    """
    boundaries = errors_of(boundary_errors_by_index, targets, predictions)
    return compute(_COMPUTED, targets, predictions, background_ids) | summary(boundaries, BOUNDARY_ERROR_BY_INDEX, fps)
