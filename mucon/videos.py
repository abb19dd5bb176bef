"""A recording with its annotation, in memory or from a store."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.arrays import Ints
from mucon.errors import DataWarning, InputError, Problem, condensed, counted, some
from mucon.segments import Segmentation, Truth
from mucon.vocabulary import Vocabulary
from storage.held_out import PART, held_out
from storage.inspection.splits import shared_groups

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from storage import Store

LONG_SEGMENT = 4
"""Receptive fields in the mean length of a segment from which on training warns."""

ScoredPart = Literal["test", "validation"]
"""The part of a split on which models are compared. A training leaves the validation part out of its training part."""


@dataclass(frozen=True, slots=True)
class Video:
    """A recording: its size, its annotation and access to its features.

    Attributes:
        n_frames: T, at least 1.
        dim: D.
        transcript: `[M]` action ids; empty if unknown, which suffices for prediction.
        lengths: `[M]` frames with sum T; None if only the transcript is known.
        read: returns the features `[T, D]`.
        labelled: training may use the lengths, which determines weak, mixed or full supervision.
        checksum: returns the SHA-256 of the features' bytes (little-endian, C order); None if it is not known.
    """

    id: str
    n_frames: int
    dim: int
    transcript: tuple[int, ...]
    lengths: tuple[int, ...] | None
    read: Callable[[], NDArray[Any]]
    labelled: bool = False
    checksum: Callable[[], str] | None = None

    @classmethod
    def from_arrays(
        cls,
        id: str,
        features: ArrayLike,
        transcript: Sequence[int] = (),
        lengths: Sequence[int] | None = None,
    ) -> Video:
        """A video with features `[T, D]` in memory.

        Raises:
            InputError: features that are not a `[T, D]` array of finite float32 numbers, or lengths that do not fit.
        """
        array = np.asarray(features)
        place = f"{id}: features"
        if array.dtype.kind not in "fiu":
            raise InputError(Problem(rule="type", place=place, value=str(array.dtype), expected="an array of numbers"))
        if array.ndim != 2 or not array.size:
            shape, expected = list(array.shape), "the shape [T, D] with T >= 1 and D >= 1"
            raise InputError(Problem(rule="shape", place=place, value=shape, expected=expected))
        longest = np.dtype(np.float64) if array.dtype.itemsize > 8 else array.dtype  # torch has no longer numbers
        array = array.astype(longest.newbyteorder("="), copy=False)
        with np.errstate(over="ignore"):
            bad = np.flatnonzero(~np.isfinite(array.astype(np.float32, copy=False)).all(axis=1)).tolist()
        if bad:
            message = f"NaN, infinite or too large for float32 in {counted(len(bad), 'frame')}, first in frame {bad[0]}"
            raise InputError(Problem(rule="range", place=place, value=len(bad), message=message))
        if lengths is not None and (
            len(lengths) != len(transcript) or sum(lengths) != len(array) or min(lengths, default=0) < 0
        ):
            expected = f"{len(transcript)} lengths of at least 0 with the sum {len(array)}"
            raise InputError(Problem(rule="mismatch", place=f"{id}: lengths", value=list(lengths), expected=expected))
        return cls(
            id,
            len(array),
            array.shape[1],
            tuple(transcript),
            None if lengths is None else tuple(lengths),
            lambda: array,
            checksum=lambda: _sha256(array),
        )

    def features(self, device: torch.device | str = "cpu", dtype: torch.dtype | None = None) -> Tensor:
        """Loads the features `[T, D]` to a device and converts them there, by default to float32."""
        stored = self.stored_features(device)
        return stored.float() if dtype is None else stored.to(dtype)

    def stored_features(self, device: torch.device | str = "cpu") -> Tensor:
        """Loads the features `[T, D]` to a device in the type in which they are stored.

        For a GPU they are copied once into pinned memory, so that their transfer is asynchronous. torch uses this
        memory again as soon as the transfer is complete.
        """
        import torch  # takes longer than everything else that a sweep of known trials does

        array, device = self.read(), torch.device(device)
        if device.type != "cpu":
            kind = torch.from_numpy(np.empty(0, array.dtype)).dtype
            pinned = torch.empty(array.shape, dtype=kind, pin_memory=device.type == "cuda")
            np.copyto(pinned.numpy(), array)
            return pinned.to(device, non_blocking=True)
        return torch.from_numpy(np.ascontiguousarray(array if array.flags.writeable else array.copy()))

    @property
    def segmentation(self) -> Segmentation | None:
        """The true segmentation; None if the lengths are unknown."""
        return None if self.lengths is None else Segmentation.of(self.transcript, self.lengths)

    @property
    def truth(self) -> Truth:
        """The annotation: the segmentation, or the transcript if the lengths are unknown."""
        return self.transcript if self.segmentation is None else self.segmentation

    def frame_labels(self) -> Ints | None:
        """True labels `[T]` int64; None if the lengths are unknown."""
        truth = self.segmentation
        return None if truth is None else truth.to_frame_labels()


def _sha256(array: NDArray[Any]) -> str:
    ordered = np.ascontiguousarray(array)
    return hashlib.sha256((ordered if sys.byteorder == "little" else ordered.byteswap()).data).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The store that videos come from; None means not known.

    Attributes:
        store: absolute path or URI of the store.
        split: name of the split.
        fps: frames per second.
        window: seconds of the recording that the features of one frame cover.
        stride: seconds from one frame to the next.
        offset: seconds from the beginning of the recording to the window of the first frame.
    """

    store: str | None = None
    split: str | None = None
    fps: float | None = None
    window: float | None = None
    stride: float | None = None
    offset: float | None = None


def source_of(store: Store, split: str) -> Source:
    """The source of the videos of a split."""
    facts = store.manifest
    return Source(
        store=store.address, split=split,
        fps=facts.fps, window=facts.window, stride=facts.stride, offset=facts.offset,
    )  # fmt: skip


def vocabulary_of(store: Store) -> Vocabulary:
    """Actions and background of a store."""
    return Vocabulary(store.manifest.vocabulary, store.manifest.background)


def videos_of(store: Store, split: str, part: str) -> list[Video]:
    """The videos of one part of a split, ordered by id.

    Args:
        store: an open store.
        split: name of the split, such as `"1"`.
        part: `"train"`, `"test"`, `"validation"` (see `storage.held_out`), or another part of the store.

    Raises:
        StoreError: no such part, or a training part that is too small for a validation part.
    """
    ids = held_out(store, split).validation if part == PART else store.split(split, part)
    return [video_of(store, id) for id in ids]


def training_videos_of(store: Store, split: str, scored: str = "test") -> list[Video]:
    """The videos that models learn from, ordered by id: the training part, or what is left of it.

    Args:
        store: an open store.
        split: name of the split.
        scored: the part on which the models are compared; `"validation"` is left out of the training part.

    Raises:
        StoreError: no such split, or a training part that is too small for a validation part.
    """
    ids = held_out(store, split).rest if scored == PART else store.split(split, "train")
    return [video_of(store, id) for id in ids]


def scored_part(text: object, place: str = "part") -> ScoredPart:
    """A part that scores models, from its name.

    Raises:
        InputError: another value.
    """
    if text == "test":
        return "test"
    if text == "validation":
        return "validation"
    raise InputError(Problem(rule="unknown", place=place, value=text, expected="test or validation"))


def video_of(store: Store, id: str) -> Video:
    """A recording of a store.

    Raises:
        StoreError: unknown recording.
    """
    record = store.record(id)
    return _video(store, id, record.frames, record.transcript, record.lengths, record.sha256)


def all_videos_of(store: Store) -> list[Video]:
    """All recordings of a store, ordered by id; quicker than one after the other."""
    columns = (store.catalogue.column(name) for name in ("transcript", "lengths", "sha256"))
    return [_video(store, *known) for known in zip(store.ids, store.catalogue.frames.tolist(), *columns, strict=True)]


def _video(
    store: Store,
    id: str,
    n_frames: int,
    transcript: Sequence[int] | None,
    lengths: Sequence[int] | None,
    sha256: str,
) -> Video:
    return Video(
        id,
        n_frames,
        store.manifest.dim,
        tuple(transcript or ()),
        None if lengths is None else tuple(lengths),
        lambda: store.features(id),
        checksum=lambda: sha256,
    )


def check_training_videos(videos: Sequence[Video], vocabulary: Vocabulary) -> int:
    """Checks all videos before the first step and returns their number of features D.

    Raises:
        InputError: no video, or one problem per duplicate video, missing transcript, id outside the vocabulary, video
            with more segments than frames and other number of features.
    """
    if not videos:
        raise InputError(Problem(rule="missing", place="training videos", expected="at least one video"))
    problems: list[Problem] = []
    seen: set[str] = set()
    for video in videos:
        if video.id in seen:
            problems.append(Problem(rule="duplicate", place=video.id, value=video.id, message="duplicate video"))
        problems += _training_problems(video, vocabulary, videos[0].dim)
        seen.add(video.id)
    if problems:
        raise InputError(condensed(problems))
    return videos[0].dim


def _training_problems(video: Video, vocabulary: Vocabulary, dim: int) -> list[Problem]:
    problems: list[Problem] = []
    place, M = f"{video.id}: transcript", len(video.transcript)
    if not M:
        problems.append(Problem(rule="missing", place=place, expected="at least one action"))
    outside = sorted({action for action in video.transcript if not 0 <= action < vocabulary.n_actions})
    if outside:
        expected = f"action ids from 0 to {vocabulary.n_actions - 1}"
        problems.append(Problem(rule="range", place=place, value=outside, expected=expected))
    if video.n_frames < M:
        expected = f"at most {video.n_frames} segments (one frame each)"
        problems.append(Problem(rule="mismatch", place=place, value=M, expected=expected))
    if video.dim != dim:
        expected = f"{dim} features per frame, as the first video"
        problems.append(Problem(rule="mismatch", place=f"{video.id}: features", value=video.dim, expected=expected))
    return problems


def short_videos(videos: Sequence[Video], pooling: int) -> list[Video]:
    """The recordings that are shorter than a latent frame of `pooling` frames."""
    return [video for video in videos if video.n_frames < pooling]


def crowded_videos(videos: Sequence[Video], pooling: int) -> list[Video]:
    """The recordings with more segments than latent frames of `pooling` frames."""
    return [video for video in videos if len(video.transcript) > max(video.n_frames // pooling, 1)]


def short_video_problems(videos: Sequence[Video], pooling: int) -> list[Problem]:
    """Problems of recordings with too few latent frames to learn their segments well.

    Args:
        videos: training videos.
        pooling: frames per latent frame.

    Returns:
        At most two: recordings shorter than a latent frame, and with more segments than latent frames.
    """
    place, hint, problems = "backbone.pool_after", "use fewer pooling layers", []
    if short := short_videos(videos, pooling):
        message = (
            f"{len(short)} training videos are shorter than one latent frame ({pooling} frames), first "
            f"{short[0].id!r} with {short[0].n_frames} frames"
        )
        problems.append(Problem(rule="mismatch", place=place, value=len(short), message=message, hint=hint))
    if crowded := crowded_videos(videos, pooling):
        first = crowded[0]
        message = (
            f"{len(crowded)} training videos have more segments than latent frames, first {first.id!r} with "
            f"{len(first.transcript)} segments and {max(first.n_frames // pooling, 1)} latent frames"
        )
        problems.append(Problem(rule="mismatch", place=place, value=len(crowded), message=message, hint=hint))
    return problems


def warn_of_short_videos(videos: Sequence[Video], pooling: int) -> None:
    """Warns of recordings with too few latent frames to learn their segments well.

    Args:
        videos: training videos.
        pooling: frames per latent frame.

    Warns:
        DataWarning: each of `short_video_problems`.
    """
    for problem in short_video_problems(videos, pooling):
        warnings.warn(DataWarning(problem), stacklevel=3)


def warn_of_shared_groups(store: Store, split: str) -> None:
    """Warns of groups, such as subjects, with recordings in several parts of a split.

    Warns:
        DataWarning: scores of the test part do not show how the model does on new groups.
    """
    if groups := shared_groups(store, split):
        message = f"the parts share {counted(len(groups), 'group')}: {some(groups)}"
        problem = Problem(rule="conflict", place=f"split {split}", value=list(groups), message=message)
        warnings.warn(DataWarning(problem), stacklevel=2)


def warn_of_long_segments(videos: Sequence[Video], receptive_field: int) -> None:
    """Warns if a latent frame depends on a small part of a typical segment alone.

    Args:
        videos: training videos; their transcripts are read, no lengths.
        receptive_field: frames on which a latent frame depends.

    Warns:
        DataWarning: the mean length of a segment is more than `LONG_SEGMENT` receptive fields.
    """
    n_frames, n_segments = sum(video.n_frames for video in videos), sum(len(video.transcript) for video in videos)
    if n_frames > LONG_SEGMENT * receptive_field * n_segments:
        mean = f"{n_frames / n_segments:.0f}"
        message = (
            f"segments have {mean} frames on average, but a latent frame depends on {receptive_field} frames alone"
        )
        place, hint = "backbone.n_layers", "compare a backbone with more layers"
        problem = Problem(rule="mismatch", place=place, value=receptive_field, message=message, hint=hint)
        warnings.warn(DataWarning(problem), stacklevel=3)


def check_same_data(trained: Vocabulary, trained_dim: int, vocabulary: Vocabulary, dim: int) -> None:
    """Checks that a model fits the data.

    Args:
        trained: vocabulary of the model.
        trained_dim: features per frame of the model.
        vocabulary: vocabulary of the data.
        dim: features per frame of the data.

    Raises:
        InputError: another number of features, or other actions or another order of them.
    """
    problems: list[Problem] = []
    if trained_dim != dim:
        expected = f"{trained_dim} per frame, as the model"
        problems.append(Problem(rule="mismatch", place="features", value=dim, expected=expected))
    if trained.actions != vocabulary.actions:
        differing = sorted(set(trained.actions) ^ set(vocabulary.actions))
        difference = f"only in one of them: {some(differing)}" if differing else "the order differs"
        message = f"the actions of the data are not those of the model ({difference})"
        problems.append(Problem(rule="mismatch", place="vocabulary", value=differing, message=message))
    if problems:
        raise InputError(problems)
