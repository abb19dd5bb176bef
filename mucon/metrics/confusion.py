"""Confusion matrix, recall and precision of each action."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mucon.arrays import Ints
from mucon.metrics.frames import share
from mucon.segments import Segmentation


def confusion_matrix(targets: Sequence[Segmentation], predictions: Sequence[Segmentation], n_actions: int) -> Ints:
    """Frames of each true action (row) with each predicted action (column), over all recordings: `[N, N]`.

    Frames of a recording whose prediction has no segment are in no column, so the sum of a row may be below
    `frames_per_action`.

    Args:
        targets: true segmentations, with action ids below `n_actions`.
        predictions: one per target, each with as many frames as its target, or without any segment.
        n_actions: N.

    >>> confusion_matrix([Segmentation.of([0, 1], [3, 2])], [Segmentation.of([0, 1], [1, 4])], 2).tolist()
    [[1, 2], [0, 2]]
    """
    counts = np.zeros(n_actions * n_actions, dtype=np.int64)
    for target, prediction in zip(targets, predictions, strict=True):
        if prediction.n_segments:
            cells = target.to_frame_labels() * n_actions + prediction.to_frame_labels()
            counts += np.bincount(cells, minlength=len(counts))
    return counts.reshape(n_actions, n_actions)


def frames_per_action(targets: Sequence[Segmentation], n_actions: int) -> Ints:
    """True frames of each action, over all recordings: `[N]`.

    >>> frames_per_action([Segmentation.of([0, 2, 0], [3, 2, 1])], 3).tolist()
    [4, 0, 2]
    """
    counts = np.zeros(n_actions, dtype=np.int64)
    for target in targets:
        np.add.at(counts, target.transcript, target.lengths)
    return counts


def recall_per_action(confusion: Ints, true_frames: Ints) -> list[float | None]:
    """Share of each action's true frames that are predicted as it; None for an action without a true frame.

    Args:
        confusion: `[N, N]` from `confusion_matrix`.
        true_frames: `[N]` from `frames_per_action`; frames without a prediction lower the recall.

    >>> recall_per_action(np.array([[1, 2], [0, 0]]), np.array([4, 0]))
    [0.25, None]
    """
    return [share(int(correct), int(whole)) for correct, whole in zip(confusion.diagonal(), true_frames, strict=True)]


def precision_per_action(confusion: Ints) -> list[float | None]:
    """Share of correct frames among those predicted as each action; None for an action that is never predicted.

    Args:
        confusion: `[N, N]` from `confusion_matrix`.

    >>> precision_per_action(np.array([[1, 0], [2, 0]]))
    [0.3333333333333333, None]
    """
    predicted = confusion.sum(0)
    return [share(int(correct), int(whole)) for correct, whole in zip(confusion.diagonal(), predicted, strict=True)]
