"""Metrics of alignment, where the transcript is given: segment m is compared with segment m."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from mucon.metrics.boundaries import BOUNDARY_ERROR_BY_INDEX, boundary_errors_by_index, summary
from mucon.metrics.scores import WITHOUT, Scores
from mucon.metrics.segments import iod_by_index, iou_by_index
from mucon.segments import Segmentation

_BY_INDEX = {"iod_by_index": iod_by_index, "iou_by_index": iou_by_index}
BY_INDEX = tuple(name + suffix for name in _BY_INDEX for suffix in ("", WITHOUT))
"""The names of the fractions among the metrics of alignment."""


def alignment_scores(
    targets: Sequence[Segmentation],
    predictions: Sequence[Segmentation],
    background_ids: Collection[int] = (),
    *,
    fps: float | None = None,
) -> Scores:
    """IoD and IoU by index, means over segments and then over recordings, and the boundary errors by index.

    Names: `iod_by_index`, `iou_by_index`, each with `_without_background` too (segments of background are not
    counted), and `boundary_error_by_index_frames`, `boundary_error_by_index_median_frames` (over all boundaries of
    all recordings) and both in `..._seconds` where fps is known. A recording whose predicted transcript is not the
    true one defines none of them.
    Source: the paper's appendix, IoD.

    Args:
        targets: true segmentations.
        predictions: as many, of the same transcripts.
        background_ids: actions that are background.
        fps: frames a second, or None where it is not known.

    Raises:
        InputError: fps is not above 0.
    """
    pairs = list(zip(targets, predictions, strict=True))
    per_video = [_by_index(target, prediction, background_ids) for target, prediction in pairs]
    values: dict[str, float] = {}
    for name in BY_INDEX:
        defined = [value for video in per_video if (value := video[name]) is not None]
        if defined:
            values[name] = sum(defined) / len(defined)
    undefined = {name: sum(video[name] is None for video in per_video) for name in BY_INDEX}
    boundaries = summary([boundary_errors_by_index(*pair) for pair in pairs], BOUNDARY_ERROR_BY_INDEX, fps)
    return Scores(values, undefined, per_video) | boundaries


def _by_index(
    target: Segmentation, prediction: Segmentation, background_ids: Collection[int]
) -> dict[str, float | None]:
    if not np.array_equal(target.transcript, prediction.transcript):
        return dict.fromkeys(BY_INDEX)
    return {
        name + suffix: metric(target, prediction, ignored)
        for name, metric in _BY_INDEX.items()
        for suffix, ignored in (("", ()), (WITHOUT, background_ids))
    }
