"""How far predicted boundaries are from the true ones, in frames and in seconds. These values are no fractions.

`boundary_error` compares any two segmentations: each true boundary with the nearest predicted one. It says nothing
of predicted boundaries that are too many (a prediction that flickers has one near everywhere): read it beside F1.
`boundary_error_by_index`, for alignment, compares boundary m with boundary m.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mucon.errors import InputError
from mucon.metrics.scores import Scores
from mucon.metrics.segments import runs
from mucon.segments import Segmentation

Ints = NDArray[np.int64]
BOUNDARY_ERROR = "boundary_error"
BOUNDARY_ERROR_BY_INDEX = "boundary_error_by_index"


def inner_boundaries(segmentation: Segmentation) -> Ints:
    """The first frame of each segment but the first, `[M-1]`; none where there is no segment.

    >>> inner_boundaries(Segmentation.of([0, 1, 1], [3, 2, 4])).tolist()
    [3, 5]
    """
    return np.cumsum(segmentation.lengths[:-1])


def nearest_boundary_errors(target: Segmentation, prediction: Segmentation) -> Ints | None:
    """For each true boundary the frames to the nearest predicted one, whatever actions meet there: `[B]`.

    Boundaries are those that frame labels show: see `mucon.metrics.segments.runs`.

    Returns:
        None where either side has no boundary: then there is nothing to measure.

    >>> errors = nearest_boundary_errors(Segmentation.of([0, 1, 2], [4, 4, 4]), Segmentation.of([0, 2], [5, 7]))
    >>> errors.tolist()
    [1, 3]
    """
    true, predicted = inner_boundaries(runs(target)), inner_boundaries(runs(prediction))
    if not len(true) or not len(predicted):
        return None
    after = np.searchsorted(predicted, true)
    next_one = predicted[np.minimum(after, len(predicted) - 1)]
    one_before = predicted[np.maximum(after - 1, 0)]
    errors: Ints = np.minimum(np.abs(next_one - true), np.abs(true - one_before))
    return errors


def boundary_errors_by_index(target: Segmentation, prediction: Segmentation) -> Ints | None:
    """For each of the M-1 inner boundaries the frames between the true and the predicted place: `[M-1]`.

    The boundary between two repetitions of an action counts too.

    Returns:
        None where the transcripts differ, or where there is no inner boundary.

    >>> errors = boundary_errors_by_index(Segmentation.of([0, 1, 2], [4, 4, 4]), Segmentation.of([0, 1, 2], [5, 5, 2]))
    >>> errors.tolist()
    [1, 2]
    """
    if target.n_segments < 2 or not np.array_equal(target.transcript, prediction.transcript):
        return None
    errors: Ints = np.abs(inner_boundaries(target) - inner_boundaries(prediction))
    return errors


def boundary_scores(
    targets: Sequence[Segmentation], predictions: Sequence[Segmentation], *, fps: float | None = None
) -> Scores:
    """`boundary_error_frames` (mean) and `boundary_error_median_frames`, and both in `..._seconds` where fps is known.

    Both are over all true boundaries of all recordings; a recording of one segment, and one whose prediction has no
    boundary, do not define them and are counted as such.

    Args:
        targets: true segmentations.
        predictions: as many.
        fps: frames a second, or None where it is not known: there is no value in seconds then.

    Raises:
        InputError: fps is not above 0.
    """
    errors = [nearest_boundary_errors(*pair) for pair in zip(targets, predictions, strict=True)]
    return summary(errors, BOUNDARY_ERROR, fps)


def summary(errors: Sequence[Ints | None], name: str, fps: float | None) -> Scores:
    """Mean and median of the recordings' errors in frames, and in seconds where fps is known.

    Args:
        errors: for each recording its boundaries' errors in frames, None where it has none.
        name: of the error; units and `median` are added to it.
        fps: frames a second, or None.

    Raises:
        InputError: fps is not above 0.
    """
    if fps is not None and not 0 < fps < float("inf"):
        raise InputError(f"fps is a number of frames a second above 0, not {fps}: give none where it is not known")
    per_video: list[dict[str, float | None]] = [_mean_and_median(found, name, fps) for found in errors]
    known = [found for found in errors if found is not None]
    pooled = _mean_and_median(np.concatenate(known) if known else None, name, fps)
    undefined = dict.fromkeys(pooled, len(errors) - len(known))
    return Scores({key: value for key, value in pooled.items() if value is not None}, undefined, per_video)


def _mean_and_median(errors: Ints | None, name: str, fps: float | None) -> dict[str, float | None]:
    units = {"frames": 1.0} if fps is None else {"frames": 1.0, "seconds": fps}
    values: dict[str, float | None] = {}
    for unit, divisor in units.items():
        values[f"{name}_{unit}"] = None if errors is None else float(errors.mean()) / divisor
        values[f"{name}_median_{unit}"] = None if errors is None else float(np.median(errors)) / divisor
    return values
