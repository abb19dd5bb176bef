"""Hashes of typed, canonical values, and of everything that recordings contribute to a training."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mucon.videos import Video
from mucon.vocabulary import Vocabulary

DIGITS = 16
"""Hexadecimal digits of a digest; two of a million values collide with probability 3e-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFacts:
    """The facts of a video that affect training or scores.

    Attributes:
        id: its name.
        n_frames: T.
        sha256: digest of the features' bytes; empty if unknown.
        transcript: names of its actions.
        lengths: frames of each segment of a test video, or of a training video whose frame labels are used; None
            otherwise.
    """

    id: str
    n_frames: int
    sha256: str
    transcript: tuple[str, ...]
    lengths: tuple[int, ...] | None

    @classmethod
    def of(cls, video: Video, vocabulary: Vocabulary, *, lengths: bool = True) -> VideoFacts:
        """The facts of a video.

        Args:
            video: its action ids are those of the vocabulary.
            vocabulary: the actions.
            lengths: include the lengths if they are known.
        """
        return cls(
            id=video.id,
            n_frames=video.n_frames,
            sha256="" if video.checksum is None else video.checksum(),
            transcript=vocabulary.names(video.transcript),
            lengths=tuple(map(int, video.lengths)) if lengths and video.lengths is not None else None,
        )


class Canonical(NamedTuple):
    """The canonical form of a value, as JSON: a part that several digests share is converted once.

    >>> digest({"seed": 1, "settings": Canonical.of({"a": 0.1})}) == digest({"seed": 1, "settings": {"a": 0.1}})
    True
    """

    json: str

    @classmethod
    def of(cls, value: object) -> Canonical:
        """The form of a value, see `canonical`."""
        return cls(_text(canonical(value)))


def digest(value: object) -> str:
    """Hashes a value's canonical form.

    >>> digest({"a": 1, "b": (0.1,)}) == digest({"b": [0.1], "a": 1}), digest(1) == digest(1.0)
    (True, False)
    """
    return hashlib.sha256(_text(canonical(value)).encode()).hexdigest()[:DIGITS]


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def canonical(value: object) -> Any:
    """Pairs every value with its type's name; sorts mappings by key, turns sequences into lists and floats into text.

    >>> canonical({"overlap": 0.1, "shape": "box", "on": True})
    ['map', [['on', ['bool', 'True']], ['overlap', ['float', '0.1']], ['shape', ['str', 'box']]]]

    Raises:
        TypeError: a value is not None, a bool, int, float, str, mapping or sequence.
        ValueError: a value is NaN, which is not equal to itself.
    """
    if value is None or isinstance(value, bool | int | str):
        return [type(value).__name__, str(value)]
    if isinstance(value, Canonical):
        return json.loads(value.json)
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError("NaN is not equal to itself and so has no identity")
        return ["float", repr(value + 0.0)]
    if isinstance(value, Mapping):
        return ["map", [[str(key), canonical(value[key])] for key in sorted(value)]]
    if isinstance(value, Sequence):
        return ["list", [canonical(item) for item in value]]
    raise TypeError(f"expected a plain value, got {type(value).__name__}")


def data_fingerprint(
    train: Iterable[VideoFacts], test: Iterable[VideoFacts], actions: Sequence[str], background: Sequence[str]
) -> str:
    """Hashes everything that videos contribute; their order does not matter."""
    return digest(
        {
            "train": _facts(train),
            "test": _facts(test),
            "actions": list(actions),
            "background": sorted(background),
        }
    )


def _facts(videos: Iterable[VideoFacts]) -> list[list[object]]:
    return [
        [video.id, video.n_frames, video.sha256, video.transcript, video.lengths]
        for video in sorted(videos, key=lambda video: video.id)
    ]
