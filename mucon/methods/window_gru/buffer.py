"""The buffer of decoded labels: what training believes about the recordings that it visited last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mucon.arrays import Floats, Ints
from mucon.training.loop import epoch_order
from mucon.videos import Video

EMPTY = -1


class LabelBuffer:
    """Decoded labels of the last V visits of V videos, one slot per visit; the oldest slot is overwritten.

    An epoch visits every video once, so the step of a visit is its slot, and a video may have labels of this epoch
    and of the one before. Counts are updated by difference.

    Source: Richard et al., CVPR 2018, and their released program.

    Args:
        videos: V training videos, ordered by id, with transcripts.
        n_actions: N.
        seed: seed of the order of the videos.

    Attributes:
        labels: `[2, sum of T]` action ids of the even and of the odd epochs, video after video.
        frames: `[N]` frames of each action in the slots.
        segments: `[N]` segments of each action in the transcripts of the slots' videos.
    """

    def __init__(self, videos: Sequence[Video], n_actions: int, seed: int) -> None:
        self.seed = seed
        self.lengths = np.array([video.n_frames for video in videos], dtype=np.int64)
        self.stops = np.cumsum(self.lengths)
        self.named = np.stack([np.bincount(video.transcript, minlength=n_actions) for video in videos])
        self.labels = np.zeros((2, int(self.stops[-1])), dtype=np.int64)
        self.videos = np.full(len(videos), EMPTY)
        self.epochs = np.zeros(len(videos), dtype=np.int64)
        self.counts = np.zeros((len(videos), n_actions), dtype=np.int64)
        self.frames, self.segments = self.counts[0].copy(), self.counts[0].copy()

    def put(self, epoch: int, step: int, video: int, labels: Ints) -> None:
        """Adds the labels `[T]` that a step of an epoch, both counted from 0, decoded for a video."""
        if self.videos[step] != EMPTY:
            self.segments -= self.named[self.videos[step]]
        counts = np.bincount(labels, minlength=len(self.frames))
        self.frames += counts - self.counts[step]
        self.segments += self.named[video]
        self.videos[step], self.epochs[step], self.counts[step] = video, epoch, counts
        self.labels[epoch % 2, self.stops[video] - self.lengths[video] : self.stops[video]] = labels

    def restore(self, labels: Ints, epoch: int, step: int) -> None:
        """Fills an empty buffer as it was before a step of an epoch, both counted from 0.

        Args:
            labels: its `labels` at that time.
            epoch: the epoch.
            step: the step; the steps before it are complete.
        """
        V = len(self.videos)
        for past, slots in ((epoch - 1, range(step, V)), (epoch, range(step))):
            order = epoch_order(V, self.seed, max(past, 0))
            for slot in slots if past >= 0 else ():
                stop = self.stops[order[slot]]
                self.put(past, slot, order[slot], labels[past % 2, stop - self.lengths[order[slot]] : stop])

    def prior(self) -> Floats:
        """`[N]` probability of each action: its share of the frames, or 1/N if it has none; the sum is 1."""
        N = len(self.frames)
        seen = self.frames > 0
        share = self.frames / max(int(self.frames.sum()), 1)
        return np.where(seen, share * (seen.sum() / N), 1 / N)

    def mean_lengths(self) -> Floats:
        """`[N]` mean frames of a segment of each action.

        An action without a segment gets the mean of all segments. In an empty buffer every mean is 1: with equal means
        the best lengths are nearly equal, whatever the mean.
        """
        total = int(self.segments.sum())
        overall = self.frames.sum() / total if total else 1.0
        return np.where(self.segments > 0, self.frames / np.maximum(self.segments, 1), overall)

    def draw(self, n: int, random: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        """Draws n frames with replacement, every frame of every slot with the same probability.

        Args:
            n: 0 if the buffer is empty.
            random: generator.

        Returns:
            For each its video, its place in the video and its label; `[n]`.
        """
        slots = np.where(self.videos == EMPTY, 0, self.lengths[self.videos])
        stops = np.cumsum(slots)
        drawn = random.integers(max(int(stops[-1]), 1), size=n)
        slot = np.searchsorted(stops, drawn, side="right")
        videos, places = self.videos[slot], drawn - (stops - slots)[slot]
        first = (self.stops - self.lengths)[videos]
        return videos, places, self.labels[self.epochs[slot] % 2, first + places]

    @property
    def n_frames(self) -> int:
        """Frames in all slots."""
        return int(self.frames.sum())
