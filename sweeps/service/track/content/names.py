"""Names of metrics, parameters and tags that every tracking server accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sweeps.service.text import digest

METRIC_NAMES = "3"
"""Version of the names of metrics; runs with names of version 1 (`full.mof`) or 2 (`test/full/mof`) are replaced."""
MAX_NAME_CHARACTERS = 250
FORBIDDEN_CHARACTERS = re.compile(r"[^0-9A-Za-z_\-. :/]")


def curve_name(name: str) -> str:
    """The name of a metric of an epoch; the server's pages group metrics by the part before the last slash.

    >>> curve_name("loss.total"), curve_name("progress.full.mof"), curve_name("learning_rate")
    ('train/loss/total', 'train/score/full.mof', 'train/learning_rate')
    >>> curve_name("system.cpu_percent")  # MLflow's pages have a tab for this group
    'system/cpu_percent'
    """
    group, dot, rest = name.partition(".")
    if not (group and dot and rest):
        return f"train/{name}"
    if group == "system":
        return f"{group}/{rest}"
    return f"train/{'score' if group == 'progress' else group}/{rest}"


def score_name(group: str, evaluation: str, prediction: str, metric: str) -> str:
    """The name of a score in a group; `evaluation` is empty for the first of a trial.

    >>> score_name("final_test", "", "full", "mof"), score_name("final_test", "beam 10", "full", "mof")
    ('final_test/full/mof', 'final_test/beam 10/full/mof')
    """
    return "/".join(word for word in (group, evaluation, prediction, metric) if word)


def safe_name(name: str) -> str:
    """A name that every tracking server accepts for a metric, a parameter or a tag.

    Servers allow letters, digits and `_ - . space : /`, in names that are normalised paths. A name longer than 250
    characters is truncated and ends with a digest of the whole.

    >>> safe_name("F1@10"), safe_name("loss/../µ"), safe_name("full.mof")
    ('F1_at_10', 'loss/_', 'full.mof')
    """
    text = FORBIDDEN_CHARACTERS.sub("_", name.replace("@", "_at_"))
    parts = [part for part in text.split("/") if part not in ("", ".", "..")]
    safe = "/".join(parts) or "_"
    return safe if len(safe) <= MAX_NAME_CHARACTERS else f"{safe[: MAX_NAME_CHARACTERS - 13]}-{digest(name)}"


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """Name -> safe name, distinct for distinct names: if two would be equal, a digest is appended to the changed one.

    >>> safe_names(["f1_at_10", "f1@10"])
    {'f1_at_10': 'f1_at_10', 'f1@10': 'f1_at_10-1813bcd3c1b6'}
    """
    every = list(names)
    safe = {name: safe_name(name) for name in every}
    taken: dict[str, str] = {}
    for name in sorted(every, key=lambda name: (safe[name] != name, name)):
        if safe[name] in taken:
            safe[name] = f"{safe[name][: MAX_NAME_CHARACTERS - 13]}-{digest(name)}"
        taken[safe[name]] = name
    return safe
