"""The descriptions of sweeps and trials on the pages of their runs, and where the runs come from."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from mucon.config import flatten
from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.text import in_markdown, param_text
from sweeps.service.track.content.records import TrialRecord

MAX_DESCRIPTION_CHARACTERS = 7500
"""The server truncates descriptions at 8,000 characters."""


def description(sweep: SweepInfo, tables: Mapping[str, Path]) -> str:
    """A sweep in Markdown: title, command, tables and settings; parts that do not fit are left out.

    Args:
        sweep: the sweep.
        tables: name -> file; only Markdown files are included.
    """
    parts = [f"**{in_markdown(sweep.title)}**", f"```\n{sweep.command}\n```"]
    shown = [path for path in tables.values() if path.suffix == ".md"]
    parts += [path.read_text(encoding="utf-8", errors="replace").strip() for path in shown]
    settings = [
        f"| {path} | {in_markdown(param_text(value))} |" for path, value in sorted(flatten(sweep.config).items())
    ]
    parts.append("\n".join(["| common to all trials | |", "|---|---|", *settings]))
    text = ""
    for part in parts:
        if len(text) + len(part) <= MAX_DESCRIPTION_CHARACTERS:
            text += f"{part}\n\n"
    return text.strip()


def trial_description(record: TrialRecord, row: str, run: Path) -> str:
    """A trial in Markdown: state and reason, row, split, seed, and for a finished trial its MoF and a command.

    Args:
        record: the trial's record.
        row: its row in the table of the sweep that trained it; may be empty.
        run: folder of its checkpoint.
    """
    reason = record.tags.get("reason")
    parts = [f"**{record.state}**: {in_markdown(reason)}"] if reason else []
    parts.append(
        ", ".join(
            word for word in (row and f"**{in_markdown(row)}**", f"split {record.split}", f"seed {record.seed}") if word
        )
    )
    mofs = {point.name: point.value for point in record.scores if point.name.endswith("/mof")}
    if mofs:
        name = next((name for name in mofs if name.endswith("/full/mof")), next(iter(mofs)))
        parts.append(f"{name.removesuffix('/mof').replace('/', ' ')} MoF {100 * mofs[name]:.1f} %")
        parts.append(f"```\n{shlex.join(['mucon', 'predict', str(run), 'FEATURES.npy'])}\n```")
    return "\n\n".join(parts)


def source_tags(command: str) -> dict[str, str]:
    """User and program, for the server's columns User and Source.

    >>> source_tags("python sweeps/ablation_masks.py --seeds 3")["mlflow.source.name"]
    'sweeps/ablation_masks.py'
    """
    try:
        words = shlex.split(command)
    except ValueError:  # quotes that do not match, in the record of another program
        words = command.split()
    script = next((word for word in words if word.endswith(".py")), words[0] if words else "")
    return {"mlflow.user": _user(), "mlflow.source.type": "LOCAL", "mlflow.source.name": script}


def _user() -> str:
    """Name of the user; the number of one without an entry in the password database, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
