"""A segmentation as a transcript with lengths, and its conversion from and to frame labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Segmentation:
    """M segments that follow each other without a gap: action `transcript[m]` lasts `lengths[m]` frames.

    The same action may stand twice in a row (two repetitions); frame labels cannot show that border, so
    `from_frame_labels` never makes such a pair, and `to_frame_labels` loses it.

    Attributes:
        transcript: `[M]` int64, action ids.
        lengths: `[M]` int64, frames, all at least 0.
    """

    transcript: IntArray
    lengths: IntArray

    @classmethod
    def of(cls, transcript: ArrayLike, lengths: ArrayLike) -> Segmentation:
        """From any sequences of whole numbers of one length.

        Raises:
            ValueError: they differ in length, or a length is negative.
        """
        actions = np.asarray(transcript, dtype=np.int64).reshape(-1)
        frames = np.asarray(lengths, dtype=np.int64).reshape(-1)
        if len(actions) != len(frames):
            raise ValueError(f"a segment has an action and a length: {len(actions)} actions, {len(frames)} lengths")
        if len(frames) and frames.min() < 0:
            raise ValueError(f"a length is at least 0 frames, segment {int(frames.argmin())} has {int(frames.min())}")
        return cls(actions, frames)

    @classmethod
    def from_frame_labels(cls, frame_labels: ArrayLike) -> Segmentation:
        """The runs of equal labels.

        >>> s = Segmentation.from_frame_labels([4, 4, 1, 4])
        >>> s.transcript.tolist(), s.lengths.tolist()
        ([4, 1, 4], [2, 1, 1])
        """
        labels = np.asarray(frame_labels, dtype=np.int64).reshape(-1)
        if not len(labels):
            return cls(labels, labels)
        starts = np.concatenate(([0], np.flatnonzero(np.diff(labels)) + 1))
        return cls(labels[starts], np.diff(np.append(starts, len(labels))))

    def to_frame_labels(self) -> IntArray:
        """`[T]` int64 with T the sum of the lengths."""
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
        """`(action, start, stop)` of each segment, `stop` exclusive."""
        stops = np.cumsum(self.lengths)
        yield from zip(self.transcript.tolist(), (stops - self.lengths).tolist(), stops.tolist(), strict=True)
