"""Boundary errors: distances between predicted and true boundaries, in frames or seconds.

`boundary_error` compares any two segmentations: each true boundary with the nearest predicted one. It does not penalise
superfluous predicted boundaries (a flickering prediction has one near every frame), so report it together with F1.
`boundary_error_by_index`, for alignment, compares boundary m with boundary m.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mucon.arrays import Ints
from mucon.errors import InputError, Problem
from mucon.metrics.scores import Scores
from mucon.metrics.segments import runs
from mucon.segments import Segmentation, Truth

BOUNDARY_ERROR = "boundary_error"
BOUNDARY_ERROR_BY_INDEX = "boundary_error_by_index"


def inner_boundaries(segmentation: Segmentation) -> Ints:
    """The first frame of each segment except the first: `[M-1]`; empty without segments.

    >>> inner_boundaries(Segmentation.of([0, 1, 1], [3, 2, 4])).tolist()
    [3, 5]
    """
    return np.cumsum(segmentation.lengths[:-1])


def nearest_boundary_errors(target: Segmentation, prediction: Segmentation) -> Ints | None:
    """Distance in frames from each true boundary to the nearest predicted one, of any actions: `[B]`.

    Boundaries are those of the runs of frame labels, see `mucon.metrics.segments.runs`.

    Returns:
        None if either side has no boundary.

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
    """Distance in frames between the true and the predicted place of each inner boundary: `[M-1]`.

    The boundary between two repetitions of an action is included.

    Returns:
        None if the transcripts differ or there is no inner boundary.

    >>> errors = boundary_errors_by_index(Segmentation.of([0, 1, 2], [4, 4, 4]), Segmentation.of([0, 1, 2], [5, 5, 2]))
    >>> errors.tolist()
    [1, 2]
    """
    if target.n_segments < 2 or not np.array_equal(target.transcript, prediction.transcript):
        return None
    errors: Ints = np.abs(inner_boundaries(target) - inner_boundaries(prediction))
    return errors


def boundary_scores(
    targets: Sequence[Truth], predictions: Sequence[Segmentation | None], *, fps: float | None = None
) -> Scores:
    """`boundary_error_frames` (mean) and `boundary_error_median_frames`, and both in `..._seconds` if fps is given.

    Both are over all true boundaries of all recordings; they are undefined for a recording of one segment, for one
    whose prediction has no boundary or is undefined, and for one whose true lengths are unknown.

    Args:
        targets: annotations.
        predictions: one per target; None for an undefined one.
        fps: frames per second; None if unknown, then there is no value in seconds.

    Raises:
        InputError: fps is not above 0.
    """
    return summary(errors_of(nearest_boundary_errors, targets, predictions), BOUNDARY_ERROR, fps)


def errors_of(
    measure: Callable[[Segmentation, Segmentation], Ints | None],
    targets: Sequence[Truth],
    predictions: Sequence[Segmentation | None],
) -> list[Ints | None]:
    """The errors of each recording; None without true lengths or without a prediction."""
    pairs = zip(targets, predictions, strict=True)
    return [
        measure(target, prediction) if isinstance(target, Segmentation) and prediction is not None else None
        for target, prediction in pairs
    ]


def summary(errors: Sequence[Ints | None], name: str, fps: float | None) -> Scores:
    """Mean and median error in frames, and in seconds if fps is given.

    Args:
        errors: for each recording the errors of its boundaries in frames; None if they are undefined.
        name: prefix of the metrics' names.
        fps: frames per second; None if unknown.

    Raises:
        InputError: fps is not above 0.
    """
    if fps is not None and not 0 < fps < float("inf"):
        raise InputError(Problem(rule="range", place="fps", value=fps, expected="above 0 and finite"))
    per_video: list[dict[str, float | None]] = [_mean_and_median(of_video, name, fps) for of_video in errors]
    defined = [of_video for of_video in errors if of_video is not None]
    pooled = _mean_and_median(np.concatenate(defined) if defined else None, name, fps)
    undefined = dict.fromkeys(pooled, len(errors) - len(defined))
    return Scores({key: value for key, value in pooled.items() if value is not None}, undefined, per_video)


def _mean_and_median(errors: Ints | None, name: str, fps: float | None) -> dict[str, float | None]:
    units = {"frames": 1.0} if fps is None else {"frames": 1.0, "seconds": fps}
    values: dict[str, float | None] = {}
    for unit, divisor in units.items():
        values[f"{name}_{unit}"] = None if errors is None else float(errors.mean()) / divisor
        values[f"{name}_median_{unit}"] = None if errors is None else float(np.median(errors)) / divisor
    return values
