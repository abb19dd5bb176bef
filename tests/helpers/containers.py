"""Dockerfile and docker-compose.yml as values, read as the engines read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
"""Name, `-` or `?`, and default or message of a variable in a compose file."""


def compose(variables: dict[str, str]) -> dict[str, Any]:
    """docker-compose.yml with the values of its variables; a required one without a value raises KeyError."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        return variables.get(name) or (rest if kind == "-" else variables[name])

    return dict(yaml.safe_load(VARIABLE.sub(value, (ROOT / "docker-compose.yml").read_text(encoding="utf-8"))))


def example() -> dict[str, str]:
    """The variables of .env.example; a secret is empty."""
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile in their order, without comments: name and arguments."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    return [(line.split()[0], line.split(maxsplit=1)[1].strip()) for line in text.splitlines() if line.strip()]
