"""Actions divided into states: labels of states in segments, their statistics, and alignment to them.

An action n has `counts[n]` states, which follow each other from left to right; a state lasts at least one frame. State
s of action n has the index `n · width + s`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.arrays import Floats, Ints
from mucon.decoding.alignment import best_lengths
from mucon.decoding.length_priors import GeometricPerClass
from mucon.decoding.prefix_tree import PrefixTree
from mucon.decoding.transcripts import best_of_transcripts
from mucon.segments import Segmentation


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """The states of all actions. A state lasts a geometric number of frames.

    Attributes:
        counts: `[N]` number of states of each action, from 1 to `width`.
        width: largest number of states of an action.
        log_prior: `[N · width]` log share of each state in the frames of the training videos.
        means: `[N · width]` mean frames of a visit of each state; the probability of its loop is 1 - 1 / mean.
    """

    counts: Ints
    width: int
    log_prior: Floats
    means: Floats

    @classmethod
    def estimated(cls, transcripts: Sequence[Ints], lengths: Sequence[Ints], counts: Ints, width: int) -> States:
        """The statistics of aligned videos whose segments are divided linearly, see `labels`.

        A state without frames has the mean share and the mean length of the others.

        Args:
            transcripts: each `[M]`.
            lengths: each `[M]` frames.
            counts: see the attributes.
            width: see the attributes.
        """
        frames, visits = np.zeros(len(counts) * width), np.zeros(len(counts) * width)
        for transcript, own in zip(transcripts, lengths, strict=True):
            of_frame, segments = labels(transcript, own, counts, width), np.repeat(np.arange(len(own)), own)
            begins = np.diff(of_frame, prepend=-1).astype(bool) | np.diff(segments, prepend=-1).astype(bool)
            frames += np.bincount(of_frame, minlength=len(frames))
            visits += np.bincount(of_frame[begins], minlength=len(frames))
        seen = frames > 0
        shares = np.where(seen, frames / frames.sum(), 1 / seen.sum())
        means = np.where(seen, frames / np.maximum(visits, 1), frames.sum() / visits.sum())
        return cls(counts, width, np.log(shares), means)

    def align(self, log_probs: NDArray[np.floating], transcript: ArrayLike) -> Ints:
        """The lengths `[M]` of a transcript's segments with the highest score.

        The score is the sum of log posterior minus log prior of each frame's state, and of the log probabilities of
        the states' lengths.

        Args:
            log_probs: `[T, N · width]` log posteriors of the states.
            transcript: `[M]` action ids, M <= T.
        """
        path, segments = path_of(np.asarray(transcript, dtype=np.int64), self.counts, self.width, len(log_probs))
        lengths, _ = best_lengths(log_probs - self.log_prior, path, GeometricPerClass(self.means))
        return _sums(lengths, segments)

    def best(self, log_probs: NDArray[np.floating], transcripts: tuple[tuple[int, ...], ...]) -> Segmentation:
        """The transcript and lengths with the highest score, see `align`; transcripts are equally likely.

        Args:
            log_probs: `[T, N · width]` log posteriors of the states.
            transcripts: each `[M]`.

        Raises:
            InputError: every transcript has more segments than frames.
        """
        longest = max(int(self.counts[list(one)].sum()) for one in transcripts)
        n_frames = min(len(log_probs), longest)  # a longer recording has the same paths
        paths, segments = _paths(transcripts, tuple(self.counts.tolist()), self.width, n_frames)
        index, lengths, _ = best_of_transcripts(log_probs - self.log_prior, paths, GeometricPerClass(self.means))
        return Segmentation.of(transcripts[index], _sums(lengths, segments[index]))


def labels(transcript: Ints, lengths: Ints, counts: Ints, width: int) -> Ints:
    """States of the frames `[T]`: the frames of each segment are shared out linearly among its states.

    A segment with fewer frames than states skips some of them.

    Args:
        transcript: `[M]` action ids.
        lengths: `[M]` frames, each at least 1.
        counts: see `States`.
        width: see `States`.
    """
    place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    parts = place * np.repeat(counts[transcript], lengths) // np.repeat(lengths, lengths)
    states: Ints = np.repeat(transcript, lengths) * width + parts
    return states


def path_of(transcript: Ints, counts: Ints, width: int, n_frames: int) -> tuple[Ints, Ints]:
    """The states that a recording passes through.

    If there are more than frames, the segments with most states pass through fewer of them, evenly spaced.

    Args:
        transcript: `[M]` action ids.
        counts: see `States`.
        width: see `States`.
        n_frames: T.

    Returns:
        `[K]` states, K <= T if M <= T, and `[K]` the segment of each.
    """
    own = counts[transcript]
    limits = np.arange(1, own.max() + 1)
    fits = np.minimum(own, limits[:, None]).sum(axis=1) <= n_frames
    kept = np.minimum(own, max(int(fits.sum()), 1))
    segments = np.repeat(np.arange(len(transcript)), kept)
    place = np.arange(len(segments)) - np.repeat(np.cumsum(kept) - kept, kept)
    return transcript[segments] * width + place * own[segments] // kept[segments], segments


@lru_cache(maxsize=8)
def _paths(
    transcripts: tuple[tuple[int, ...], ...], counts: tuple[int, ...], width: int, n_frames: int
) -> tuple[PrefixTree, list[Ints]]:
    """The tree of the paths of all transcripts, and the segments of each path."""
    paths = [path_of(np.array(one), np.array(counts), width, n_frames) for one in transcripts]
    return PrefixTree.of(path for path, _ in paths), [segments for _, segments in paths]


def _sums(lengths: Ints, segments: Ints) -> Ints:
    """Lengths `[M]` of segments from those of their states `[K]`."""
    return np.bincount(segments, weights=lengths).astype(np.int64)
