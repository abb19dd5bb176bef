"""Which training videos show their frame labels: weak, mixed and full supervision are this one fact."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np

from mucon.errors import InputError
from mucon.videos import Video


def labelled_of(known: Iterable[str], n_videos: int, share: float, seed: int) -> tuple[str, ...]:
    """The first ceil(share · n_videos) of one order of the names: a larger share holds all of a smaller one.

    The order depends on nothing but the names and the seed.

    Args:
        known: names of the videos with known lengths.
        n_videos: all training videos.
        share: from 0 to 1.
        seed: the run's.

    Raises:
        InputError: there are not so many.

    >>> few, many = (labelled_of("abcdefgh", 8, share, seed=1) for share in (0.2, 0.5))
    >>> len(few), len(many), many[:2] == few
    (2, 4, True)
    """
    names = sorted(known)
    count = math.ceil(round(share * n_videos, 9))  # 0.07 of 100 is 7.000000000000001 in binary
    if count > len(names):
        raise InputError(
            f"training.labelled={share:g} shows the frame labels of {count} of {n_videos} training videos, "
            f"{len(names)} have any: annotate more, or lower the share"
        )
    order = np.random.default_rng([seed, 0x1AB]).permutation(len(names))
    return tuple(names[i] for i in order[:count])


def with_labels(videos: Sequence[Video], share: float, seed: int) -> list[Video]:
    """The videos, of which a share is labelled; those that are labelled already stay so.

    Raises:
        InputError: too few have known lengths.
    """
    known = [video.id for video in videos if video.lengths is not None]
    chosen = set(labelled_of(known, len(videos), share, seed))
    return [dataclasses.replace(video, labelled=video.labelled or video.id in chosen) for video in videos]
