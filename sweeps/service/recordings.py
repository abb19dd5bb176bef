"""What a sweep needs to know of its store before and beside training; no feature is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mucon.baselines import blind_baseline
from mucon.errors import InputError
from mucon.metrics.scores import score
from mucon.segments import Segmentation
from mucon.videos import Video, videos_of, vocabulary_of
from storage import Store
from sweeps.service.identity import VideoFacts, data_fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitData:
    """A split of a store.

    Attributes:
        fingerprint: of its videos, see `sweeps.service.identity`.
        blind: metric -> fraction of the prediction that sees no feature: the commonest training transcript with equal
            lengths.
        commonest: name of the action with most test frames.
        commonest_share: of the test frames, a fraction.
        n_train: training videos.
        n_test: test videos.
    """

    fingerprint: str
    blind: Mapping[str, float]
    commonest: str
    commonest_share: float
    n_train: int
    n_test: int


def split_data(store: Store, split: str) -> SplitData:
    """Looks at a split.

    Weak training never sees the lengths of its videos' segments, so those of the training part are no part of the
    fingerprint; the test part's are, because the scores come from them.

    Raises:
        StoreError: no such split.
        InputError: a training video without transcript or a test video without lengths, all told at once.
    """
    train, test = videos_of(store, split, "train"), videos_of(store, split, "test")
    problems = [
        f"a training video has a transcript, {video.id!r} of {store.path} has none: annotate it or leave it out"
        for video in train
        if not video.transcript
    ]
    problems += [
        f"a test video has the lengths of its segments, {video.id!r} of {store.path} has none: its scores need them"
        for video in test
        if video.lengths is None
    ]
    if problems:
        raise InputError(problems)
    vocabulary = vocabulary_of(store)
    truth = [Segmentation.of(video.transcript, video.lengths or ()) for video in test]
    frames = np.zeros(vocabulary.n_actions, dtype=np.int64)
    for segmentation in truth:
        np.add.at(frames, segmentation.transcript, segmentation.lengths)
    return SplitData(
        fingerprint=data_fingerprint(
            (_facts(store, video, vocabulary.names(video.transcript), with_lengths=False) for video in train),
            (_facts(store, video, vocabulary.names(video.transcript), with_lengths=True) for video in test),
            vocabulary.actions,
            vocabulary.background,
        ),
        blind=score(truth, blind_baseline(train, test), vocabulary.background_ids).values,
        commonest=vocabulary.actions[int(frames.argmax())],
        commonest_share=float(frames.max() / frames.sum()),
        n_train=len(train),
        n_test=len(test),
    )


def split_names(store: Store) -> tuple[str, ...]:
    """The splits that have a training and a test part, sorted."""
    parts = {name.rpartition(":")[::2] for name in store.parts}
    return tuple(sorted(name for name, part in parts if part == "train" and (name, "test") in parts))


def absolute(path: Path) -> str:
    """A store's place as trials remember it."""
    return str(path.expanduser().absolute())


def _facts(store: Store, video: Video, transcript: tuple[str, ...], *, with_lengths: bool) -> VideoFacts:
    return VideoFacts(
        id=video.id,
        n_frames=video.n_frames,
        sha256=store.record(video.id).sha256,
        transcript=transcript,
        lengths=video.lengths if with_lengths else None,
    )
