"""Frame-wise accuracy."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mucon.arrays import Ints


@dataclass(frozen=True, slots=True)
class FrameCounts:
    """Correct and counted frames; adds up over recordings."""

    correct: int
    counted: int

    def __add__(self, other: FrameCounts) -> FrameCounts:
        return FrameCounts(self.correct + other.correct, self.counted + other.counted)

    @property
    def value(self) -> float | None:
        """Share of correct frames; None if no frame is counted."""
        return share(self.correct, self.counted)

    def parts(self) -> dict[str, int]:
        """No counts are reported per recording."""
        return {}


def correct_frames(targets: Ints, predictions: Ints, ignored: Collection[int] = ()) -> FrameCounts:
    """Counts correct frames, without the frames whose *target* is among `ignored`.

    The mean over frames (MoF) of many recordings is the value of the sum of their counts.
    Source: the paper's appendix, MoF and MoF-BG.

    Args:
        targets: `[T]`.
        predictions: `[T]`.
        ignored: background ids.

    >>> correct_frames(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), ignored=(0,))
    FrameCounts(correct=2, counted=3)
    """
    equal = targets == predictions
    if not ignored:
        return FrameCounts(int(np.count_nonzero(equal)), len(targets))
    counted = ~np.isin(targets, list(ignored))
    return FrameCounts(int(np.count_nonzero(equal & counted)), int(np.count_nonzero(counted)))


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """Correct and counted frames of each action; adds up over recordings.

    Attributes:
        correct: action id -> correct frames.
        counted: action id -> true frames, at least 1 each.
    """

    correct: Mapping[int, int]
    counted: Mapping[int, int]

    def __add__(self, other: ClassCounts) -> ClassCounts:
        return ClassCounts(_sum(self.correct, other.correct), _sum(self.counted, other.counted))

    @property
    def value(self) -> float | None:
        """Mean over the actions of the share of their frames that are correct; None without any action."""
        shares = [self.correct.get(action, 0) / frames for action, frames in self.counted.items()]
        return share(math.fsum(shares), len(shares))

    def parts(self) -> dict[str, int]:
        """No counts are reported per recording."""
        return {}


def correct_frames_per_class(targets: Ints, predictions: Ints, ignored: Collection[int] = ()) -> ClassCounts:
    """Counts correct frames of each action, without the actions among `ignored`.

    The mean over classes (MoC) of many recordings is the value of the sum of their counts: rare actions count as much
    as frequent ones.

    Args:
        targets: `[T]`.
        predictions: `[T]`.
        ignored: background ids.

    >>> correct_frames_per_class(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 0])).value
    0.5
    """
    counted = {action: frames for action, frames in _frames(targets).items() if action not in ignored}
    correct = {
        action: frames for action, frames in _frames(targets[targets == predictions]).items() if action in counted
    }
    return ClassCounts(correct, counted)


def share_of_frames(targets: Ints, predictions: Ints, ignored: Collection[int] = ()) -> float | None:
    """Share of correct frames of one recording; a mean over recordings gives each the same weight.

    Source: the "accuracy" of Ding and Xu (CVPR 2018), there on every 15th frame.

    Args:
        targets: `[T]`.
        predictions: `[T]`.
        ignored: background ids; frames whose target is among them do not count.

    >>> share_of_frames(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]))
    0.75
    """
    return correct_frames(targets, predictions, ignored).value


def iou_by_class(targets: Ints, predictions: Ints, ignored: Collection[int] = ()) -> float | None:
    """Mean over the actions of the truth of the intersection over union of their frames in the whole recording.

    Source: Lu and Elhamifar (ICCV 2021).

    Args:
        targets: `[T]`.
        predictions: `[T]`.
        ignored: background ids; these actions do not count.

    Returns:
        None if no action is counted.

    >>> iou_by_class(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]))
    0.41666666666666663
    """
    detected = _frames(predictions)
    shares = [
        correct / (true + detected.get(action, 0) - correct)
        for action, true, correct in _common(targets, predictions, ignored)
    ]
    return share(math.fsum(shares), len(shares))


def iod_by_class(targets: Ints, predictions: Ints, ignored: Collection[int] = ()) -> float | None:
    """Like `iou_by_class`, over the predicted frames of the action; 0 for an action that is not predicted.

    >>> iod_by_class(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]))
    0.75
    """
    detected = _frames(predictions)
    shares = [
        correct / max(detected.get(action, 0), 1) for action, _, correct in _common(targets, predictions, ignored)
    ]
    return share(math.fsum(shares), len(shares))


def _common(targets: Ints, predictions: Ints, ignored: Collection[int]) -> Iterator[tuple[int, int, int]]:
    """Each counted action of the truth with its true and its correct frames."""
    counts = correct_frames_per_class(targets, predictions, ignored)
    yield from ((action, true, counts.correct.get(action, 0)) for action, true in counts.counted.items())


def _frames(labels: Ints) -> dict[int, int]:
    actions, frames = np.unique(labels, return_counts=True)
    return dict(zip(actions.tolist(), frames.tolist(), strict=True))


def _sum(first: Mapping[int, int], second: Mapping[int, int]) -> dict[int, int]:
    return {action: first.get(action, 0) + second.get(action, 0) for action in {**first, **second}}


def share(part: float, whole: int) -> float | None:
    """`part / whole`; None if `whole` is 0."""
    return part / whole if whole else None
