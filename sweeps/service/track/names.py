"""Names and values as every tracking server takes them: the one place where they are made safe."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sweeps.service.text import digest

MAX_NAME = 250
FORBIDDEN = re.compile(r"[^0-9A-Za-z_\-. :/]")


def safe_name(name: str) -> str:
    """A name that every tracking server takes for a metric, a parameter or a tag.

    Servers allow letters, digits and `_ - . space : /`, and no name that is another one when read as a path. A name
    that is cut at 250 characters ends with a digest of the whole.

    >>> safe_name("F1@10"), safe_name("loss/../µ"), safe_name("full.mof")
    ('F1_at_10', 'loss/_', 'full.mof')
    """
    text = FORBIDDEN.sub("_", name.replace("@", "_at_"))
    parts = [part for part in text.split("/") if part not in ("", ".", "..")]
    safe = "/".join(parts) or "_"
    return safe if len(safe) <= MAX_NAME else f"{safe[: MAX_NAME - 13]}-{digest(name)}"


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """Name -> safe name, distinct for distinct names: of two that become the same, the changed one gets a digest.

    >>> safe_names(["f1_at_10", "f1@10"])
    {'f1_at_10': 'f1_at_10', 'f1@10': 'f1_at_10-1813bcd3c1b6'}
    """
    every = list(names)
    safe = {name: safe_name(name) for name in every}
    taken: dict[str, str] = {}
    for name in sorted(every, key=lambda name: (safe[name] != name, name)):
        if safe[name] in taken:
            safe[name] = f"{safe[name][: MAX_NAME - 13]}-{digest(name)}"
        taken[safe[name]] = name
    return safe
