"""Identities of trials: hashes of typed, canonical values.

Device, threads and arithmetic precision are recorded with a run but are not part of its identity. Each evaluation of a
trained network has a separate identity.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

IDENTITY_DIGITS = 16
"""Hexadecimal digits of an identity; two of a million trials collide with probability 3e-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFacts:
    """The facts of a video that affect training or scores.

    Attributes:
        id: its name.
        n_frames: T.
        sha256: digest of the features' bytes.
        transcript: names of its actions.
        lengths: frames of each segment of a test video, or of a training video whose frame labels are used; None
            otherwise.
    """

    id: str
    n_frames: int
    sha256: str
    transcript: tuple[str, ...]
    lengths: tuple[int, ...] | None


def digest(value: object) -> str:
    """Hashes a value's canonical form.

    >>> digest({"a": 1, "b": (0.1,)}) == digest({"b": [0.1], "a": 1}), digest(1) == digest(1.0)
    (True, False)
    """
    text = json.dumps(canonical(value), separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:IDENTITY_DIGITS]


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
    """Hashes everything that a split's videos contribute; their order does not matter."""
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
    """The identity of a training.

    Args:
        settings: configuration path -> value of the settings that affect the trained weights and differ from the
            recipe-independent defaults, so that a new option does not change old identities. Values have the
            configuration's types: 1 and 1.0 are the same for a float setting.
        split: name of the split.
        seed: random seed.
        fingerprint: `data_fingerprint` of the split.
        numerics: version of the arithmetic.
        method: name of the training method.

    Returns:
        16 hexadecimal digits, the name of the trial's directory.
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
    """The identity of an evaluation of a trial.

    Args:
        settings: path -> value of the decoding settings that differ from the defaults.
        part: part of the split that is evaluated.
        task: `segmentation`, which does not affect the identity so that older evaluations keep theirs, or `alignment`.
    """
    more = {} if task == "segmentation" else {"task": task}
    return digest({"settings": settings, "part": part, **more})


def _facts(videos: Iterable[VideoFacts]) -> list[list[object]]:
    return [
        [video.id, video.n_frames, video.sha256, video.transcript, video.lengths]
        for video in sorted(videos, key=lambda video: video.id)
    ]
