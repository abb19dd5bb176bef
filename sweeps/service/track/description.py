"""A sweep in Markdown, as the parent run's page shows it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from mucon.config import flatten
from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.text import param_text

MAX_DESCRIPTION = 7500
"""Characters of a run's description; the server cuts at 8,000."""


def description(sweep: SweepInfo, tables: Mapping[str, Path]) -> str:
    """A sweep in Markdown, as the parent run's page shows it: title, command, tables as far as they fit, settings.

    Args:
        sweep: what is described.
        tables: name -> file; those that end with `.md` are shown.
    """
    parts = [f"**{sweep.title}**", f"```\n{sweep.command}\n```"]
    parts += [path.read_text(encoding="utf-8").strip() for path in tables.values() if path.suffix == ".md"]
    settings = [f"| {path} | {_cell(param_text(value))} |" for path, value in sorted(flatten(sweep.config).items())]
    parts.append("\n".join(["| common to all trials | |", "|---|---|", *settings]))
    text = ""
    for part in parts:
        if len(text) + len(part) <= MAX_DESCRIPTION:
            text += f"{part}\n\n"
    return text.strip()


def script_of(command: str) -> str:
    """The program that a command line starts, as the server's column Source shows it.

    >>> script_of("python sweeps/ablation_masks.py --seeds 3")
    'sweeps/ablation_masks.py'
    """
    words = shlex.split(command)
    return next((word for word in words if word.endswith(".py")), words[0] if words else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
