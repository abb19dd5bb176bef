"""What a model must beat, and what it cannot: predictions that see no feature, a per-frame classifier, a ceiling.

Every baseline gives one segmentation for each test recording, scored like any prediction
(`mucon.metrics.scores.score`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mucon.errors import InputError
from mucon.metrics.segments import runs
from mucon.segments import Segmentation

_BLOCK = 8192


class Recording(Protocol):
    """What the baselines read of a video (`mucon.videos.Video` is one)."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def n_frames(self) -> int:
        """T."""

    @property
    def transcript(self) -> tuple[int, ...]:
        """`[M]` action ids."""

    @property
    def lengths(self) -> tuple[int, ...] | None:
        """`[M]` frames, or None where they are not known."""

    def read(self) -> NDArray[Any]:
        """Features `[T D]`."""


def transcript_prior(transcripts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The commonest transcript; among equally common ones the first in lexicographic order of ids.

    Args:
        transcripts: of the training recordings.

    Raises:
        InputError: there is none.

    >>> transcript_prior([(0, 2), (0, 1), (0, 1), (0, 2), (3,)])
    (0, 1)
    """
    counts = Counter(tuple(int(action) for action in transcript) for transcript in transcripts)
    if not counts:
        raise InputError("the commonest transcript is one of at least one, there is none: give training recordings")
    return min(counts, key=lambda transcript: (-counts[transcript], transcript))


def equal_lengths(transcript: Sequence[int], n_frames: int) -> Segmentation:
    """The transcript in equal parts: the border before segment m is at m T / M, rounded half up to a whole frame.

    The lengths differ by at most one frame; the longer ones are spread over the recording, so that no border is
    systematically late (as it would be with the longer ones first).

    Raises:
        InputError: fewer frames than segments, or an empty transcript.

    >>> equal_lengths((5, 6, 7), 8).lengths.tolist()
    [3, 2, 3]
    """
    M = len(transcript)
    if not M:
        raise InputError(f"equal lengths need at least one segment, there is none for {n_frames} frames: give one")
    if n_frames < M:
        raise InputError(
            f"each segment has at least one frame, {M} segments cannot fill {n_frames} frames: "
            "give a shorter transcript or more frames"
        )
    borders = (2 * np.arange(M + 1) * n_frames + M) // (2 * M)
    return Segmentation.of(transcript, np.diff(borders))


def blind_baseline(train: Sequence[Recording], test: Sequence[Recording]) -> list[Segmentation]:
    """The transcript prior with equal lengths, which sees no feature: what is not above it has learnt nothing.

    A test recording with fewer frames than the prior has segments gets as many of its first actions, a frame each.

    Raises:
        InputError: no training recording.
    """
    transcript = transcript_prior(video.transcript for video in train)
    return [equal_lengths(transcript[: video.n_frames], video.n_frames) for video in test]


def alignment_baseline(test: Sequence[Recording]) -> list[Segmentation]:
    """The true transcript with equal lengths, which sees no feature either: what alignment must beat.

    Raises:
        InputError: a recording with fewer frames than segments, or without transcript.
    """
    return [equal_lengths(video.transcript, video.n_frames) for video in test]


def commonest_action(videos: Sequence[Recording]) -> int:
    """The action with most frames; among equals the lowest id.

    Raises:
        InputError: no recording, or recordings without lengths.
    """
    truths = [_truth(video) for video in _checked(videos)]
    labels = np.concatenate([truth.transcript for truth in truths])
    frames = np.concatenate([truth.lengths for truth in truths])
    return int(np.bincount(labels, weights=frames).argmax())


def commonest_action_baseline(train: Sequence[Recording], test: Sequence[Recording]) -> list[Segmentation]:
    """The commonest action of the training recordings everywhere; its MoF is that action's share of the frames.

    Raises:
        InputError: as `commonest_action`.
    """
    action = commonest_action(train)
    return [Segmentation.of([action], [video.n_frames]) for video in test]


def nearest_centroid(train: Sequence[Recording], test: Sequence[Recording]) -> list[Segmentation]:
    """Each frame gets the action whose mean training frame is nearest (Euclidean, features as they are).

    A per-frame classifier with all frame labels and without any notion of time. Among equally near means the lowest
    id; an action without a training frame is never predicted. Recordings are read one after the other, once.

    Raises:
        InputError: no training recording, or training recordings without lengths.
    """
    actions, centroids = _centroids(_checked(train))
    centre = centroids.mean(axis=0)
    directions = centroids - centre
    offsets = (directions**2).sum(axis=1) / 2
    result = []
    for video in test:
        features = video.read()
        nearest = [
            (np.asarray(features[start : start + _BLOCK], dtype=np.float64) - centre) @ directions.T - offsets
            for start in range(0, len(features), _BLOCK)
        ]
        labels = np.concatenate([block.argmax(axis=1) for block in nearest])
        result.append(Segmentation.from_frame_labels(actions[labels]))
    return result


def pooled_truth(truth: Segmentation, factor: int) -> Segmentation:
    """The best that a network can say whose frames are pooled by `factor` and spread over T again.

    T' = T // factor latent frames (at least 1) of one label each; frame t takes latent frame floor(t T' / T), as in
    nearest upsampling. Each latent frame has the commonest true label of its frames, the lowest id among equals.

    Args:
        truth: with T frames, at least 1.
        factor: frames per latent frame: 2 to the number of pooling layers.

    >>> pooled_truth(Segmentation.of([1, 2], [3, 5]), 4).lengths.tolist()
    [4, 4]
    """
    labels = truth.to_frame_labels()
    T = len(labels)
    n_latent = max(1, T // factor)
    latent = np.arange(T) * n_latent // T
    n_labels = int(labels.max()) + 1
    counts = np.bincount(latent * n_labels + labels, minlength=n_latent * n_labels).reshape(n_latent, n_labels)
    return Segmentation.from_frame_labels(counts.argmax(axis=1)[latent])


def pooling_ceiling(test: Sequence[Recording], factor: int) -> list[Segmentation]:
    """`pooled_truth` of each recording: no prediction of the frame branch can have a higher MoF.

    Raises:
        InputError: recordings without lengths.
    """
    return [pooled_truth(_truth(video), factor) for video in _checked(test)]


def _checked(videos: Sequence[Recording]) -> Sequence[Recording]:
    if not videos:
        raise InputError("a baseline from frame labels needs at least one recording, there is none: give some")
    unknown = [video.id for video in videos if video.lengths is None]
    if unknown:
        raise InputError(
            f"a baseline from frame labels needs every recording's lengths, {id!r} has none: label it or leave it out"
            for id in unknown
        )
    return videos


def _truth(video: Recording) -> Segmentation:
    return Segmentation.of(video.transcript, video.lengths if video.lengths is not None else ())


def _centroids(videos: Sequence[Recording]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Actions that occur, ascending, and the mean frame `[actions D]` of each."""
    sums: dict[int, NDArray[np.float64]] = {}
    frames: Counter[int] = Counter()
    for video in videos:
        truth = runs(_truth(video))
        features = video.read()
        starts = np.cumsum(truth.lengths) - truth.lengths
        of_segments = np.add.reduceat(features, starts, axis=0, dtype=np.float64)
        for action, length, total in zip(truth.transcript.tolist(), truth.lengths.tolist(), of_segments, strict=True):
            sums[action] = sums[action] + total if action in sums else total
            frames[action] += length
    actions = sorted(sums)
    centroids = np.stack([sums[action] / frames[action] for action in actions])
    return np.array(actions, dtype=np.int64), centroids
