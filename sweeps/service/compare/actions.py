"""Recall and confusions of the actions of compared models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mucon.metrics.confusion import cells_of
from sweeps.service.compare.entrants import Entrant

LARGEST_MATRIX = 24
"""Most actions for which a page contains whole matrices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Recall of an action.

    Attributes:
        action: its name.
        true_frames: its true frames in the first entrant's evaluation.
        values: share of its true frames that are predicted correctly, for each entrant; None if undefined.
    """

    action: str
    true_frames: int
    values: tuple[float | None, ...]

    @property
    def change(self) -> float | None:
        """Largest difference from the first entrant, with its sign; None if undefined."""
        first = self.values[0]
        changes = [value - first for value in self.values[1:] if value is not None and first is not None]
        return max(changes, key=abs, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Frames of one action that are predicted as another.

    Attributes:
        true: the true action.
        predicted: the predicted action.
        shares: share of the true action's predicted frames, for each entrant; None if it has none.
        frames: number of these frames, for each entrant; the mean over the seeds of a row.
    """

    true: str
    predicted: str
    shares: tuple[float | None, ...]
    frames: tuple[float, ...]

    @property
    def change(self) -> float | None:
        """Largest difference of the frames from the first entrant, with its sign; None if undefined."""
        defined = [frames for frames, share in zip(self.frames[1:], self.shares[1:], strict=True) if share is not None]
        changes = [] if self.shares[0] is None else [frames - self.frames[0] for frames in defined]
        return max(changes, key=abs, default=None)


def recalls(entrants: Sequence[Entrant]) -> tuple[Recall, ...]:
    """The recall of every action with true frames, the largest change first; the mean over the seeds of a row."""
    actions = dict.fromkeys(action for entrant in entrants for action in entrant.actions)
    frames = entrants[0].first.result.get("true_frames", {})
    found = [
        Recall(
            action=action,
            true_frames=frames.get(action, 0),
            values=tuple(_recall(entrant, action) for entrant in entrants),
        )
        for action in actions
    ]
    defined = [one for one in found if any(value is not None for value in one.values)]
    return tuple(sorted(defined, key=lambda one: -abs(one.change or 0.0)))


def confusions(entrants: Sequence[Entrant]) -> tuple[Confusion, ...]:
    """Every pair of a true and another predicted action that occurs in an entrant, the largest change first."""
    tables = [matrix(entrant) for entrant in entrants]
    sums = [row_sums(table) for table in tables]
    pairs = sorted({pair for table in tables for pair in table if pair[0] != pair[1]})
    found = [
        Confusion(
            true=true,
            predicted=predicted,
            shares=tuple(
                table.get((true, predicted), 0.0) / of[true] if of.get(true) else None
                for table, of in zip(tables, sums, strict=True)
            ),
            frames=tuple(table.get((true, predicted), 0.0) for table in tables),
        )
        for true, predicted in pairs
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.change or 0.0)))


def matrix(entrant: Entrant) -> dict[tuple[str, str], float]:
    """(true, predicted) action -> frames, the mean over the trainings; empty if the results contain no matrix."""
    frames: dict[tuple[str, str], float] = {}
    for training in entrant.trainings:
        actions = list(entrant.detail(training, "recall"))
        lists = entrant.detail(training, "confusion")
        for (true, predicted), n in cells_of(lists, len(actions)).items():
            pair = (actions[true], actions[predicted])
            frames[pair] = frames.get(pair, 0.0) + n / len(entrant.trainings)
    return frames


def row_sums(frames: dict[tuple[str, str], float]) -> dict[str, float]:
    """The predicted frames of each true action."""
    sums: dict[str, float] = {}
    for (true, _), n in frames.items():
        sums[true] = sums.get(true, 0.0) + n
    return sums


def _recall(entrant: Entrant, action: str) -> float | None:
    found = [entrant.detail(training, "recall").get(action) for training in entrant.trainings]
    values = [value for value in found if value is not None]
    return sum(values) / len(values) if values else None
