"""Baselines and a ceiling: predictions without features, a per-frame classifier, and the best pooled prediction.

Every baseline returns one segmentation per test recording, which is scored like any prediction
(`mucon.metrics.scores.score`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mucon.arrays import Floats, Ints
from mucon.errors import InputError, Problem
from mucon.metrics.segments import runs
from mucon.segments import Segmentation

_BLOCK = 8192


class Recording(Protocol):
    """The part of a video that baselines read (`mucon.videos.Video` implements it)."""

    @property
    def id(self) -> str:
        """Name of the recording."""

    @property
    def n_frames(self) -> int:
        """T."""

    @property
    def transcript(self) -> tuple[int, ...]:
        """Action ids `[M]`."""

    @property
    def lengths(self) -> tuple[int, ...] | None:
        """Frames `[M]`; None if unknown."""

    def read(self) -> NDArray[Any]:
        """Features `[T, D]`."""


def transcript_prior(transcripts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The most frequent transcript; the lexicographically first one among equally frequent ones.

    Args:
        transcripts: transcripts of the training recordings.

    Raises:
        InputError: no transcript.

    >>> transcript_prior([(0, 2), (0, 1), (0, 1), (0, 2), (3,)])
    (0, 1)
    """
    counts = Counter(tuple(int(action) for action in transcript) for transcript in transcripts)
    if not counts:
        raise InputError(Problem(rule="missing", place="training recordings", expected="at least one transcript"))
    return min(counts, key=lambda transcript: (-counts[transcript], transcript))


def equal_lengths(transcript: Sequence[int], n_frames: int) -> Segmentation:
    """Divides a recording into equal parts: the border before segment m is at m T / M, rounded half up.

    The lengths differ by at most one frame. The longer ones are distributed over the recording, so that no border is
    systematically late (as it would be with the longer ones first).

    Raises:
        InputError: fewer frames than segments, or an empty transcript.

    >>> equal_lengths((5, 6, 7), 8).lengths.tolist()
    [3, 2, 3]
    """
    M = len(transcript)
    if not M:
        raise InputError(Problem(rule="missing", place="transcript", expected="at least one action"))
    if n_frames < M:
        expected = f"at most {n_frames} segments (one frame each)"
        raise InputError(Problem(rule="mismatch", place="transcript", value=M, expected=expected))
    borders = (2 * np.arange(M + 1) * n_frames + M) // (2 * M)
    return Segmentation.of(transcript, np.diff(borders))


def blind_baseline(train: Sequence[Recording], test: Sequence[Recording]) -> list[Segmentation]:
    """The transcript prior with equal lengths, without features; a model that is not better has learned nothing.

    A test recording with fewer frames than the prior has segments gets its first actions, one frame each.

    Raises:
        InputError: no training recording.
    """
    transcript = transcript_prior(video.transcript for video in train)
    return [equal_lengths(transcript[: video.n_frames], video.n_frames) for video in test]


def alignment_baseline(test: Sequence[Recording]) -> list[Segmentation | None]:
    """The true transcript with equal lengths, without features; the baseline of alignment.

    None for a recording with fewer frames than segments, or without a transcript.
    """
    return [
        equal_lengths(video.transcript, video.n_frames) if 0 < len(video.transcript) <= video.n_frames else None
        for video in test
    ]


def most_frequent_action(videos: Sequence[Recording]) -> int:
    """The action with most frames; the lowest id among equals.

    Raises:
        InputError: no recording, or recordings without lengths.
    """
    truths = [_truth(video) for video in _checked(videos)]
    labels = np.concatenate([truth.transcript for truth in truths])
    frames = np.concatenate([truth.lengths for truth in truths])
    return int(np.bincount(labels, weights=frames).argmax())


def most_frequent_action_baseline(train: Sequence[Recording], test: Sequence[Recording]) -> list[Segmentation]:
    """The most frequent action of the training recordings in every frame.

    Raises:
        InputError: see `most_frequent_action`.
    """
    action = most_frequent_action(train)
    return [Segmentation.of([action], [video.n_frames]) for video in test]


def nearest_centroid(train: Sequence[Recording], test: Sequence[Recording]) -> list[Segmentation]:
    """Classifies each frame by the nearest mean training frame of an action (Euclidean, unscaled features).

    A per-frame classifier that uses all frame labels and ignores time. The lowest id wins among equally near means; an
    action without a training frame is never predicted. Each recording is read once.

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
    """The best prediction of a network that pools frames by `factor` and upsamples them to T again.

    Each of T' = T // factor latent frames (at least 1) has one label; frame t has latent frame floor(t T' / T), as in
    nearest upsampling. The label is the most frequent true label of its frames, the lowest id among equals.

    Args:
        truth: true segmentation with T >= 1 frames.
        factor: frames per latent frame, 2 ** number of pooling layers.

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
    """`pooled_truth` of each recording; no prediction of the frame branch can have a higher MoF.

    Raises:
        InputError: recordings without lengths.
    """
    return [pooled_truth(_truth(video), factor) for video in _checked(test)]


def _checked(videos: Sequence[Recording]) -> Sequence[Recording]:
    if not videos:
        raise InputError(Problem(rule="missing", place="recordings", expected="at least one"))
    unlabelled = [video.id for video in videos if video.lengths is None]
    if unlabelled:
        raise InputError(
            Problem(rule="missing", place=f"{id}: lengths", expected="one per segment") for id in unlabelled
        )
    return videos


def _truth(video: Recording) -> Segmentation:
    return Segmentation.of(video.transcript, video.lengths if video.lengths is not None else ())


def _centroids(videos: Sequence[Recording]) -> tuple[Ints, Floats]:
    """Occurring actions, ascending, and the mean frame of each `[actions, D]`."""
    sums: dict[int, Floats] = {}
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
