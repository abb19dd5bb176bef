"""One recording with what is known of it, and where it comes from."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mucon.errors import DataWarning, InputError
from mucon.segments import IntArray, Segmentation
from mucon.vocabulary import Vocabulary

if TYPE_CHECKING:
    from storage import Store


@dataclass(frozen=True, slots=True)
class Video:
    """A recording: its size and annotation, and a way to its features.

    Attributes:
        id: its name.
        n_frames: T, at least 1.
        dim: D.
        transcript: `[M]` action ids in order; empty where nothing is known (prediction only).
        lengths: `[M]` frames of each segment that sum to T, or None where only the transcript is known.
        read: gives the features `[T, D]`.
        labelled: training may use the lengths. Weak, mixed and full supervision are this one fact.
    """

    id: str
    n_frames: int
    dim: int
    transcript: tuple[int, ...]
    lengths: tuple[int, ...] | None
    read: Callable[[], NDArray[Any]]
    labelled: bool = False

    @classmethod
    def from_arrays(
        cls,
        id: str,
        features: ArrayLike,
        transcript: Sequence[int] = (),
        lengths: Sequence[int] | None = None,
    ) -> Video:
        """A video whose features `[T, D]` are in memory.

        Raises:
            InputError: features that are not a `[T, D]` array of numbers that float32 can hold, or lengths that do
                not fit.
        """
        array = np.asarray(features)
        if array.ndim != 2 or not array.size or array.dtype.kind not in "fiu":
            raise InputError(
                f"features are an array [T, D] of numbers with T >= 1 and D >= 1, those of {id!r} are "
                f"{array.dtype} {list(array.shape)}: give one row per frame"
            )
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        with np.errstate(over="ignore"):
            bad = np.flatnonzero(~np.isfinite(array.astype(np.float32, copy=False)).all(axis=1))
        if len(bad):
            raise InputError(
                f"features are finite float32 numbers, those of {id!r} are NaN, infinite or too large in {len(bad)} "
                f"frames (first {int(bad[0])}): repair them"
            )
        if lengths is not None and (
            len(lengths) != len(transcript) or sum(lengths) != len(array) or min(lengths, default=0) < 0
        ):
            raise InputError(
                f"lengths are one per segment, at least 0, and sum to T, those of {id!r} are {list(lengths)} (sum "
                f"{sum(lengths)}) for {len(transcript)} segments and {len(array)} frames: correct them"
            )
        return cls(
            id,
            len(array),
            array.shape[1],
            tuple(transcript),
            None if lengths is None else tuple(lengths),
            lambda: array,
        )

    def features(self, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
        """Features `[T, D]` on a device, converted there."""
        array = self.read()
        if not array.flags.writeable:
            array = array.copy()
        source = torch.from_numpy(np.ascontiguousarray(array))
        if torch.device(device).type == "cuda":
            source = source.pin_memory()  # so that the copy need not be waited for
        return source.to(device, non_blocking=True).to(dtype)

    @property
    def segmentation(self) -> Segmentation | None:
        """The true segmentation, or None where the lengths are not known."""
        return None if self.lengths is None else Segmentation.of(self.transcript, self.lengths)

    def frame_labels(self) -> IntArray | None:
        """True labels `[T]` int64, or None."""
        truth = self.segmentation
        return None if truth is None else truth.to_frame_labels()


def vocabulary_of(store: Store) -> Vocabulary:
    """The store's actions and background."""
    return Vocabulary(store.manifest.vocabulary, store.manifest.background)


def videos_of(store: Store, split: str, part: str) -> list[Video]:
    """The videos of a split's part, ordered by id.

    Args:
        store: an open store.
        split: its name, as `"1"`.
        part: `"train"` or `"test"`.
    """
    return [_video(store, id) for id in store.split(split, part)]


def _video(store: Store, id: str) -> Video:
    record = store.record(id)

    def read() -> NDArray[Any]:
        return store.features(id)

    return Video(id, record.frames, store.manifest.dim, tuple(record.transcript or ()), record.lengths, read)


def check_training_videos(videos: Sequence[Video], vocabulary: Vocabulary) -> int:
    """Looks at all videos before the first step, and gives their number of features D.

    Raises:
        InputError: no video, no transcript, an id outside the vocabulary, more segments than frames, a repeated name
            or different numbers of features; all told at once.
    """
    problems = [] if videos else ["training needs at least one video, the list is empty: choose another split"]
    seen: set[str] = set()
    for video in videos:
        outside = sorted({a for a in video.transcript if not 0 <= a < vocabulary.n_actions})
        if video.id in seen:
            problems.append(f"a video is listed once, {video.id!r} stands twice: remove one")
        if not video.transcript:
            problems.append(f"a training video has a transcript, {video.id!r} has none: annotate it or leave it out")
        if outside:
            problems.append(f"action ids are below {vocabulary.n_actions}, {video.id!r} has {outside}: correct them")
        if len(video.transcript) > video.n_frames:
            problems.append(
                f"a video has at least one frame per segment, {video.id!r} has {len(video.transcript)} segments and "
                f"{video.n_frames} frames: correct its transcript"
            )
        if video.dim != videos[0].dim:
            problems.append(
                f"all videos have the same number of features, {video.id!r} has {video.dim} and "
                f"{videos[0].id!r} has {videos[0].dim}: leave one out"
            )
        seen.add(video.id)
    if problems:
        raise InputError(problems)
    return videos[0].dim


def warn_of_short_videos(videos: Sequence[Video], pooling: int) -> None:
    """Tells of recordings that can be learnt from, but hardly.

    Args:
        videos: those of the training.
        pooling: frames for each latent frame.

    Warns:
        DataWarning: recordings shorter than a latent frame, or with more segments than latent frames.
    """
    short = [video for video in videos if video.n_frames < pooling]
    crowded = [video for video in videos if len(video.transcript) > max(video.n_frames // pooling, 1)]
    if short:
        warnings.warn(
            f"{len(short)} training videos are shorter than one latent frame ({pooling} frames), first "
            f"{short[0].id!r} with {short[0].n_frames}: set fewer layers in backbone.pool_after",
            DataWarning,
            stacklevel=3,
        )
    if crowded:
        warnings.warn(
            f"{len(crowded)} training videos have more segments than latent frames, first {crowded[0].id!r} with "
            f"{len(crowded[0].transcript)} segments and {max(crowded[0].n_frames // pooling, 1)} latent frames: set "
            "fewer layers in backbone.pool_after",
            DataWarning,
            stacklevel=3,
        )


def check_same_data(trained: Vocabulary, trained_dim: int, found: Vocabulary, found_dim: int) -> None:
    """A model is used on data of the kind it was trained on.

    Raises:
        InputError: another number of features or other actions.
    """
    problems = []
    if trained_dim != found_dim:
        problems.append(
            f"the model reads {trained_dim} features per frame, the store has {found_dim}: choose its store"
        )
    if trained.actions != found.actions:
        differing = sorted(set(trained.actions) ^ set(found.actions))
        problems.append(
            f"the model's actions are not those of the store (only on one side: {', '.join(differing) or 'none'}; "
            "their order counts too): choose the store that it was trained on"
        )
    if problems:
        raise InputError(problems)
