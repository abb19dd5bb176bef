"""The description of a sweep on the page of its run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from mucon.config import flatten
from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.text import param_text

MAX_DESCRIPTION_CHARACTERS = 7500
"""The server truncates descriptions at 8,000 characters."""


def description(sweep: SweepInfo, tables: Mapping[str, Path]) -> str:
    """A sweep in Markdown: title, command, tables and settings; parts that do not fit are left out.

    Args:
        sweep: the sweep.
        tables: name -> file; only Markdown files are included.
    """
    parts = [f"**{sweep.title}**", f"```\n{sweep.command}\n```"]
    parts += [path.read_text(encoding="utf-8").strip() for path in tables.values() if path.suffix == ".md"]
    settings = [f"| {path} | {_cell(param_text(value))} |" for path, value in sorted(flatten(sweep.config).items())]
    parts.append("\n".join(["| common to all trials | |", "|---|---|", *settings]))
    text = ""
    for part in parts:
        if len(text) + len(part) <= MAX_DESCRIPTION_CHARACTERS:
            text += f"{part}\n\n"
    return text.strip()


def script_of(command: str) -> str:
    """The program in a command line, for the server's column Source.

    >>> script_of("python sweeps/ablation_masks.py --seeds 3")
    'sweeps/ablation_masks.py'
    """
    words = shlex.split(command)
    return next((word for word in words if word.endswith(".py")), words[0] if words else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
