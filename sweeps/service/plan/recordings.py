"""What a sweep needs to know of its store before and beside training; no feature is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mucon.baselines import alignment_baseline, blind_baseline, pooling_ceiling
from mucon.config import TrainConfig
from mucon.errors import InputError
from mucon.metrics.alignment import alignment_scores
from mucon.metrics.boundaries import boundary_scores
from mucon.metrics.scores import Scores, score
from mucon.segments import Segmentation
from mucon.training.supervision import labelled_of
from mucon.videos import Video, videos_of, vocabulary_of
from storage import Store
from sweeps.service.trials.identity import VideoFacts, data_fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitData:
    """A split of a store.

    Attributes:
        fingerprint: of its videos where no training video is labelled, see `sweeps.service.identity`.
        blind: metric -> value of the prediction that sees no feature: the commonest training transcript with equal
            lengths.
        blind_alignment: the same where the transcript is given: the true one with equal lengths.
        ceilings: frames of a latent frame -> the best MoF that `frames` can reach.
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
    blind_alignment: Mapping[str, float] = field(default_factory=dict)
    ceilings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFacts:
    """What a split's videos contribute to what is learnt and measured.

    Attributes:
        train: with the lengths that are known, seen by the training or not.
        test: with lengths.
        actions: names.
        background: names.
    """

    train: tuple[VideoFacts, ...]
    test: tuple[VideoFacts, ...]
    actions: tuple[str, ...]
    background: tuple[str, ...]

    def fingerprint(self, config: TrainConfig | None = None) -> str:
        """The fingerprint for a configuration.

        The test part's lengths are in it, because the scores come from them. Of the training part only those that
        the training sees are: of the videos that the configuration's `training.labelled` and seed choose.
        """
        labelled: set[str] = set()
        if config is not None and config.training.labelled:
            known = [video.id for video in self.train if video.lengths is not None]
            labelled = set(labelled_of(known, len(self.train), config.training.labelled, config.seed))
        train = (video if video.id in labelled else replace(video, lengths=None) for video in self.train)
        return data_fingerprint(train, self.test, self.actions, self.background)


def split_facts(store: Store, split: str) -> SplitFacts:
    """What the store says of a split's videos.

    Raises:
        StoreError: no such split.
    """
    vocabulary = vocabulary_of(store)
    train, test = (
        tuple(_facts(store, video, vocabulary.names(video.transcript)) for video in videos_of(store, split, part))
        for part in ("train", "test")
    )
    return SplitFacts(train=train, test=test, actions=vocabulary.actions, background=vocabulary.background)


def split_data(store: Store, split: str, facts: SplitFacts | None = None, poolings: Collection[int] = ()) -> SplitData:
    """Counts, baselines and ceilings of a split.

    Args:
        store: the recordings.
        split: its name.
        facts: facts of the split; read if None.
        poolings: frames per latent frame, for the ceilings.

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
    background, fps = vocabulary.background_ids, store.manifest.fps

    def scores(predicted: Sequence[Segmentation]) -> Scores:
        return score(truth, predicted, background) | boundary_scores(truth, predicted, fps=fps)

    aligned = alignment_baseline(test)
    return SplitData(
        fingerprint=(facts or split_facts(store, split)).fingerprint(),
        blind=scores(blind_baseline(train, test)).values,
        blind_alignment=(scores(aligned) | alignment_scores(truth, aligned, background, fps=fps)).values,
        ceilings={str(factor): score(truth, pooling_ceiling(test, factor)).values["mof"] for factor in set(poolings)},
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


def _facts(store: Store, video: Video, transcript: tuple[str, ...]) -> VideoFacts:
    return VideoFacts(
        id=video.id,
        n_frames=video.n_frames,
        sha256=store.record(video.id).sha256,
        transcript=transcript,
        lengths=video.lengths,
    )
