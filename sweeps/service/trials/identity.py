"""Identities of trials: hashes of typed, canonical values.

Device and threads are recorded with a run but are not part of its identity. Each evaluation of a trained network has a
separate identity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import mucon
from mucon.configuration import DEFAULT_METHOD
from mucon.identity.fingerprint import DIGITS, Canonical, digest


def is_identity(text: object) -> bool:
    """Whether a value is an identity of a trial or an evaluation, which are parts of paths.

    >>> is_identity("0123456789abcdef"), is_identity("../../elsewhere")
    (True, False)
    """
    return isinstance(text, str) and re.fullmatch(f"[0-9a-f]{{{DIGITS}}}", text) is not None


def training_identity(
    settings: Mapping[str, object] | Canonical,
    *,
    split: str,
    seed: int,
    fingerprint: str,
    numerics: int,
    method: str = DEFAULT_METHOD,
) -> str:
    """The identity of a training.

    Args:
        settings: configuration path -> value of the settings that affect the trained weights, in their canonical form
            (`Config.canonical`), and differ from the recipe-independent defaults, so that a new option does not change
            old identities. Values have the configuration's types: 1 and 1.0 are the same for a float setting.
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

    `mucon.EVALUATION` affects it from version 2 on.
    """
    more: dict[str, object] = {} if task == "segmentation" else {"task": task}
    if mucon.EVALUATION > 1:
        more["version"] = mucon.EVALUATION
    return digest({"settings": settings, "part": part, **more})


def earlier_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a configuration, canonical or not, that were in the identities of earlier versions."""
    ignored = {"training.precision"}
    if "training.lr_drop_epoch" in settings:
        ignored.add("training.lr_drop_fraction")
    return {path: value for path, value in settings.items() if path not in ignored}
