"""Which training videos are labelled; weak, mixed and full supervision differ in nothing else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np

from mucon.arrays import Ints
from mucon.errors import InputError, Problem
from mucon.videos import Video

LABELLED = 0x1AB
"""Word of the seed that belongs to the order of the labelled videos alone."""


def labelled_of(annotated: Iterable[str], n_videos: int, share: float, seed: int) -> tuple[str, ...]:
    """The first ceil(share · n_videos) names of one order: a larger share contains all names of a smaller one.

    The order depends on nothing but the names and the seed.

    Args:
        annotated: names of the videos with known lengths.
        n_videos: number of all training videos.
        share: from 0 to 1.
        seed: seed of the run.

    Raises:
        InputError: too few videos have known lengths.

    >>> few, many = (labelled_of("abcdefgh", 8, share, seed=1) for share in (0.2, 0.5))
    >>> len(few), len(many), many[:2] == few
    (2, 4, True)
    """
    names = sorted(annotated)
    count = math.ceil(round(share * n_videos, 9))  # 0.07 of 100 is 7.000000000000001 in binary
    if count > len(names):
        message = f"{share:g} of {n_videos} training videos are {count}, but only {len(names)} have frame labels"
        hint = "annotate more videos or lower the share"
        raise InputError(Problem(rule="range", place="training.labelled", value=share, message=message, hint=hint))
    order = np.random.default_rng([seed, 0, LABELLED]).permutation(len(names))  # no epoch has three words
    return tuple(names[i] for i in order[:count])


def with_labels(videos: Sequence[Video], share: float, seed: int) -> list[Video]:
    """The videos with a share of them labelled, in addition to those that already are.

    Raises:
        InputError: too few videos have known lengths.
    """
    annotated = [video.id for video in videos if video.lengths is not None]
    chosen = set(labelled_of(annotated, len(videos), share, seed))
    return [dataclasses.replace(video, labelled=video.labelled or video.id in chosen) for video in videos]


def true_labels(video: Video) -> Ints:
    """The action `[T]` of each frame of a labelled video.

    Raises:
        InputError: its lengths are unknown.
    """
    labels = video.frame_labels()
    if labels is None:
        message, hint = "a labelled video without lengths", "annotate it or do not mark it as labelled"
        raise InputError(Problem(rule="missing", place=video.id, message=message, hint=hint))
    return labels
