"""Feature files of a dataset: the dtype of all, the time axis, frame rates, and files of another shape."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from storage.constants import DTYPES
from storage.errors import Problem, StoreError, some
from storage.feature_files.content import Header
from storage.layouts import ORIENTATIONS, Orientation

_RATES = frozenset(Fraction(a, b) for a in range(1, 7) for b in range(1, 7)) | {
    rate for n in (8, 10, 12, 15, 16, 20, 24, 25, 30, 32) for rate in (Fraction(n), Fraction(1, n))
}
"""Frames of features per label that occur in practice."""


def widest_dtype(headers: Mapping[str, Header]) -> str:
    """Returns the narrowest store dtype that represents all values of a dataset exactly.

    Dtypes that are not real numbers of at most 64 bits are left to `shape_problems`.

    Raises:
        StoreError: integers or booleans; the user must choose a dtype.
    """
    kinds: dict[str, str] = {}
    for video, header in headers.items():
        if header.dtype.kind in "fiub" and header.dtype.itemsize <= 8:
            kinds.setdefault(header.dtype.name, video)
    problems = [
        Problem(
            rule="unsupported",
            place=video,
            value=name,
            message=f"dtype {name} must be converted",
            hint=f"choose --dtype {', '.join(DTYPES[:-1])} or {DTYPES[-1]}",
        )
        for name, video in kinds.items()
        if name not in DTYPES
    ]
    if problems:
        raise StoreError(problems)
    return max(kinds, key=DTYPES.index) if kinds else DTYPES[0]


def orientation_of(shapes: Mapping[str, tuple[int, ...]], n_labels: Mapping[str, int]) -> Orientation:
    """Infers the time axis of the files of a dataset, which is the same in all files.

    D is the same in all files and T is not, so the axis on which most files agree is D. If many files agree on both
    axes, such as clips of one length or a single file, the axis with as many frames as labels in every file is T,
    unless the other axis could be frames at another rate than the labels.

    Args:
        shapes: shapes of the two-dimensional arrays by clip.
        n_labels: number of labels of the clips with frame labels.

    Raises:
        StoreError: ambiguous shapes.
    """
    labelled = [(shape, n_labels[video]) for video, shape in shapes.items() if video in n_labels]
    rates = [common_rates([(shape[axis], n) for shape, n in labelled]) for axis in (0, 1)]
    agreeing = [Counter(shape[axis] for shape in shapes.values()).most_common(1)[0][1] for axis in (0, 1)]
    for time, orientation in enumerate(ORIENTATIONS):
        if Fraction(1) in rates[time] and not rates[1 - time]:
            return orientation
    for time, orientation in enumerate(ORIENTATIONS):
        contradicted = len(labelled) > 1 and rates[1 - time] and not rates[time]
        constant = agreeing[1 - time] == len(shapes) and len({shape[time] for shape in shapes.values()}) > 2
        most = 2 * agreeing[1 - time] >= len(shapes) and 2 * agreeing[time] <= agreeing[1 - time]
        if (constant or most) and not contradicted:
            return orientation
    examples = some((f"{video} {list(shape)}" for video, shape in shapes.items()), 3)
    raise StoreError(
        Problem(
            rule="missing",
            place="--orientation",
            message=f"cannot infer whether features are [T, D] or [D, T] ({examples})",
            hint="choose --orientation TxD or DxT",
        )
    )


def dim_problems(
    shapes: Mapping[str, tuple[int, ...]], paths: Mapping[str, Path], orientation: Orientation
) -> dict[str, Problem]:
    """Reports each file whose D differs from that of most files, by clip.

    Args:
        shapes: shapes of the two-dimensional arrays by clip.
        paths: their files.
        orientation: orientation of the files.
    """
    axis = 1 if orientation == "TxD" else 0
    counts = Counter(shape[axis] for shape in shapes.values())
    if len(counts) < 2:
        return {}
    dim, n_files = counts.most_common(1)[0]
    which = "most" if 2 * n_files > len(shapes) else "other"
    form = f"[T, {dim}]" if orientation == "TxD" else f"[{dim}, T]"
    return {
        video: Problem(
            rule="shape",
            place=str(paths[video]),
            value=list(shape),
            message=f"{video} has shape {list(shape)} where {which} files have {form}",
            hint="it looks transposed" if shape[1 - axis] == dim else "",
        )
        for video, shape in shapes.items()
        if shape[axis] != dim
    }


def common_rates(counts: Sequence[tuple[int, int]]) -> set[Fraction]:
    """Returns the simple numbers of frames per label that explain all counts; the end may be rounded either way.

    Args:
        counts: frames and labels of each clip.

    >>> common_rates([(40, 10), (41, 11)]), common_rates([(300, 7), (200, 7)])
    ({Fraction(4, 1)}, set())
    """
    return {rate for rate in _RATES if counts and all(_explains(rate, *count) for count in counts)}


def _explains(rate: Fraction, frames: int, labels: int) -> bool:
    by_labels, by_frames = labels * rate, frames / rate
    return frames in (math.floor(by_labels), math.ceil(by_labels)) or labels in (
        math.floor(by_frames),
        math.ceil(by_frames),
    )
