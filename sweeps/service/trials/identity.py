"""Identities of trials: hashes of typed, canonical values.

Device and threads are recorded with a run but are not part of its identity. Each evaluation of a trained network has a
separate identity.
"""

from __future__ import annotations

from collections.abc import Mapping

from mucon.configuration import DEFAULT_METHOD
from mucon.identity.fingerprint import digest


def training_identity(
    settings: Mapping[str, object],
    *,
    split: str,
    seed: int,
    fingerprint: str,
    numerics: int,
    method: str = DEFAULT_METHOD,
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
