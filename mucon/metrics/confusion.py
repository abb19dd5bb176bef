"""Confusion matrix, recall and precision of each action.

The matrix is sparse: with N actions it has N² cells, but no more counts than there are frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mucon.arrays import Ints
from mucon.metrics.frames import share
from mucon.segments import Segmentation, Truth

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DENSE_UP_TO = 100
"""Largest number of actions for which results contain the whole matrix."""


def confusion_matrix(targets: Sequence[Truth], predictions: Sequence[Segmentation | None], n_actions: int) -> csr_array:
    """Frames of each true action (row) with each predicted action (column), over all recordings: sparse `[N, N]`.

    Frames of a recording whose prediction has no segment are in no column, so the sum of a row may be below
    `frames_per_action`. Recordings without true lengths and undefined predictions are left out.

    Args:
        targets: annotations, with action ids below `n_actions`.
        predictions: one per target, each with as many frames as its target, or without any segment; None for an
            undefined one.
        n_actions: N.

    >>> matrix = confusion_matrix([Segmentation.of([0, 1], [3, 2])], [Segmentation.of([0, 1], [1, 4])], 2)
    >>> matrix.toarray().tolist()
    [[1, 2], [0, 2]]
    """
    from scipy.sparse import csr_array

    matrix = csr_array((n_actions, n_actions), dtype=np.int64)
    for target, prediction in zip(targets, predictions, strict=True):
        if isinstance(target, Segmentation) and prediction is not None and prediction.n_segments:
            pairs = target.to_frame_labels() * n_actions + prediction.to_frame_labels()
            cells, frames = np.unique(pairs, return_counts=True)
            matrix = matrix + csr_array((frames, np.divmod(cells, n_actions)), shape=matrix.shape)
    return matrix


def to_lists(matrix: csr_array) -> list[list[int]]:
    """A matrix as results contain it: N rows of N frames; above `DENSE_UP_TO` actions its cells that are not 0.

    Returns:
        `[N][N]`, or for each cell its row, its column and its frames, ordered by row and column.
    """
    if matrix.shape[0] <= DENSE_UP_TO:
        rows: list[list[int]] = matrix.toarray().tolist()
        return rows
    cells = matrix.tocoo()
    return sorted([*cell] for cell in zip(cells.row.tolist(), cells.col.tolist(), cells.data.tolist(), strict=True))


def cells_of(lists: Sequence[Sequence[int]], n_actions: int) -> dict[tuple[int, int], int]:
    """The frames of each (true, predicted) pair of actions that occurs; the inverse of `to_lists`.

    Args:
        lists: see `to_lists`; results of earlier versions contain `[N][N]` for any N.
        n_actions: N.

    >>> cells_of([[1, 2], [0, 2]], 2) == {(0, 0): 1, (0, 1): 2, (1, 1): 2}
    True
    >>> cells_of([[5, 7, 120]], 2000)
    {(5, 7): 120}
    """
    if n_actions > DENSE_UP_TO and all(len(row) == 3 for row in lists):
        return {(true, predicted): frames for true, predicted, frames in lists}
    return {(i, j): frames for i, row in enumerate(lists) for j, frames in enumerate(row) if frames}


def frames_per_action(targets: Sequence[Truth], n_actions: int) -> Ints:
    """True frames of each action, over all recordings with lengths: `[N]`.

    >>> frames_per_action([Segmentation.of([0, 2, 0], [3, 2, 1])], 3).tolist()
    [4, 0, 2]
    """
    counts = np.zeros(n_actions, dtype=np.int64)
    for target in targets:
        if isinstance(target, Segmentation):
            np.add.at(counts, target.transcript, target.lengths)
    return counts


def recall_per_action(confusion: csr_array | Ints, true_frames: Ints) -> list[float | None]:
    """Share of each action's true frames that are predicted as it; None for an action without a true frame.

    Args:
        confusion: `[N, N]` from `confusion_matrix`.
        true_frames: `[N]` from `frames_per_action`; frames without a prediction lower the recall.

    >>> recall_per_action(np.array([[1, 2], [0, 0]]), np.array([4, 0]))
    [0.25, None]
    """
    return [share(int(correct), int(whole)) for correct, whole in zip(confusion.diagonal(), true_frames, strict=True)]


def precision_per_action(confusion: csr_array | Ints) -> list[float | None]:
    """Share of correct frames among those predicted as each action; None for an action that is never predicted.

    Args:
        confusion: `[N, N]` from `confusion_matrix`.

    >>> precision_per_action(np.array([[1, 0], [2, 0]]))
    [0.3333333333333333, None]
    """
    predicted = confusion.sum(0)
    return [share(int(correct), int(whole)) for correct, whole in zip(confusion.diagonal(), predicted, strict=True)]
