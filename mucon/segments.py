"""A segmentation as a transcript with lengths, and its conversion to and from frame labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from mucon.arrays import Ints

SHORTEST = 1e-6
"""Frames; predicted lengths are raised to it, because 1 / length and its gradient must be finite."""


@dataclass(frozen=True, slots=True, eq=False)
class Segmentation:
    """M consecutive segments: action `transcript[m]` lasts `lengths[m]` frames.

    Neighbouring segments may have the same action (two repetitions). Frame labels cannot represent the border between
    them: `to_frame_labels` loses it, and `from_frame_labels` never returns such a pair.

    Attributes:
        transcript: `[M]` int64 action ids.
        lengths: `[M]` int64 frames, all at least 0.
    """

    transcript: Ints
    lengths: Ints

    @classmethod
    def of(cls, transcript: ArrayLike, lengths: ArrayLike) -> Segmentation:
        """Creates a segmentation from sequences of whole numbers.

        Raises:
            ValueError: different numbers of actions and lengths, or a negative length.
        """
        actions = np.asarray(transcript, dtype=np.int64).reshape(-1)
        frames = np.asarray(lengths, dtype=np.int64).reshape(-1)
        if len(actions) != len(frames):
            raise ValueError(f"expected one length per action, got {len(frames)} lengths for {len(actions)} actions")
        if len(frames) and frames.min() < 0:
            raise ValueError(f"segment {int(frames.argmin())} has negative length {int(frames.min())}")
        return cls(actions, frames)

    @classmethod
    def from_frame_labels(cls, frame_labels: ArrayLike) -> Segmentation:
        """The runs of equal frame labels.

        >>> s = Segmentation.from_frame_labels([4, 4, 1, 4])
        >>> s.transcript.tolist(), s.lengths.tolist()
        ([4, 1, 4], [2, 1, 1])
        """
        labels = np.asarray(frame_labels, dtype=np.int64).reshape(-1)
        if not len(labels):
            return cls(labels, labels)
        starts = np.concatenate(([0], np.flatnonzero(np.diff(labels)) + 1))
        return cls(labels[starts], np.diff(np.append(starts, len(labels))))

    def to_frame_labels(self) -> Ints:
        """Frame labels `[T]` int64; T is the sum of the lengths."""
        return np.repeat(self.transcript, self.lengths)

    @property
    def n_segments(self) -> int:
        """M."""
        return len(self.transcript)

    @property
    def n_frames(self) -> int:
        """T."""
        return int(self.lengths.sum())

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Yields `(action, start, stop)` of each segment, `stop` exclusive."""
        stops = np.cumsum(self.lengths)
        yield from zip(self.transcript.tolist(), (stops - self.lengths).tolist(), stops.tolist(), strict=True)


Truth: TypeAlias = Segmentation | tuple[int, ...]
"""The annotation of a recording: its segmentation, or its transcript if the lengths are unknown, or an empty tuple."""
