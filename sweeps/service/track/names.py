"""Names and values as every tracking server takes them: the one place where they are made safe."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

MAX_NAME = 250
MAX_PARAM = 500
"""Characters of a parameter's value; old servers refuse more, and a table column shows less."""
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


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with paths as keys; lists stay values.

    >>> flatten({"mask": {"shape": "box", "overlap": 0.1}, "seed": 1})
    {'mask.shape': 'box', 'mask.overlap': 0.1, 'seed': 1}
    """
    flat: dict[str, Any] = {}
    for key, item in value.items():
        path = f"{prefix}{key}"
        if isinstance(item, Mapping) and item:
            flat.update(flatten(item, f"{path}."))
        else:
            flat[path] = item
    return flat


def param_text(value: object) -> str:
    """A value as text that is equal exactly where the values are equal.

    Longer than 500 characters: the beginning and a digest of the whole, which stands in the artifact config.json.

    >>> param_text(0.1), param_text(True), param_text("box"), param_text([1, 2]), param_text(None)
    ('0.1', 'true', 'box', '[1, 2]', 'null')
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_PARAM else f"{text[: MAX_PARAM - 24]} ... sha256:{digest(text)}"


def digest(text: str) -> str:
    """Twelve hexadecimal digits that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
