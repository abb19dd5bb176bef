"""What makes a trial the same trial: a hash of typed, canonical values.

Not part of an identity: where and how fast it runs (device, threads, precision of arithmetic; recorded with the run),
and how the trained network is evaluated, which has an identity of its own under the trial's.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DIGITS = 16
"""Hexadecimal digits of an identity: among a million trials two are equal with a probability of 3e-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFacts:
    """What of a video decides what is learnt from it or measured on it.

    Attributes:
        id: its name.
        n_frames: T.
        sha256: of its features' bytes.
        transcript: names of its actions.
        lengths: frames of each segment, where they are used: in the test part for the scores, in the training part
            only for videos whose frame labels are shown to the training. None otherwise.
    """

    id: str
    n_frames: int
    sha256: str
    transcript: tuple[str, ...]
    lengths: tuple[int, ...] | None


def digest(value: object) -> str:
    """A hash of a value's canonical form.

    >>> digest({"a": 1, "b": (0.1,)}) == digest({"b": [0.1], "a": 1}), digest(1) == digest(1.0)
    (True, False)
    """
    text = json.dumps(canonical(value), separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def canonical(value: object) -> Any:
    """Every value with its type's name, mappings sorted by key, sequences as lists, floats by their shortest repr.

    >>> canonical({"overlap": 0.1, "shape": "box", "on": True})
    ['map', [['on', ['bool', 'True']], ['overlap', ['float', '0.1']], ['shape', ['str', 'box']]]]

    Raises:
        TypeError: a value that is none of None, bool, int, float, str, mapping, sequence.
        ValueError: a NaN, which equals nothing.
    """
    if value is None or isinstance(value, bool | int | str):
        return [type(value).__name__, str(value)]
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError("NaN is equal to nothing, so no trial can be the same trial: set a number")
        return ["float", repr(value + 0.0)]
    if isinstance(value, Mapping):
        return ["map", [[str(key), canonical(value[key])] for key in sorted(value)]]
    if isinstance(value, Sequence):
        return ["list", [canonical(item) for item in value]]
    raise TypeError(f"an identity is made of plain values, not of {type(value).__name__}")


def data_fingerprint(
    train: Iterable[VideoFacts], test: Iterable[VideoFacts], actions: Sequence[str], background: Sequence[str]
) -> str:
    """A hash of everything that a split's videos contribute, whatever the order in which they are given."""
    return digest(
        {
            "train": _facts(train),
            "test": _facts(test),
            "actions": list(actions),
            "background": sorted(background),
        }
    )


def training_identity(
    settings: Mapping[str, object], *, split: str, seed: int, fingerprint: str, numerics: int, method: str = "mucon"
) -> str:
    """The identity of a trial.

    Args:
        settings: configuration path -> value of what decides the trained weights and differs from the
            recipe-independent defaults (so that a new option makes no old trial stale), typed as the configuration
            types it: 1 and 1.0 are the same where the setting is a float.
        split: name of the split.
        seed: the trial's.
        fingerprint: `data_fingerprint` of that split.
        numerics: the version of the arithmetic.
        method: what is trained.

    Returns:
        16 hexadecimal digits, the name of the trial's folder.
    """
    return digest(
        {
            "method": method,
            "settings": settings,
            "split": split,
            "seed": seed,
            "data": fingerprint,
            "numerics": numerics,
        }
    )


def evaluation_identity(settings: Mapping[str, object], *, part: str = "test", task: str = "segmentation") -> str:
    """The identity of an evaluation under a trial.

    Args:
        settings: the decoding choices that differ from the defaults.
        part: of the split.
        task: what the network is asked for; the usual one leaves no trace, so that older evaluations stay known.
    """
    more = {} if task == "segmentation" else {"task": task}
    return digest({"settings": settings, "part": part, **more})


def _facts(videos: Iterable[VideoFacts]) -> list[list[object]]:
    return [
        [video.id, video.n_frames, video.sha256, video.transcript, video.lengths]
        for video in sorted(videos, key=lambda video: video.id)
    ]
