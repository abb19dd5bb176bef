"""What `mucon train` records in its run folder: one line of JSON per epoch, and one per start of the command."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import mucon
from mucon.device import process_facts
from mucon.training import EpochReport

HISTORY = "history.jsonl"
"""Numbers of each epoch."""
STARTS = "environment.jsonl"
"""Environment of each start that trained."""
PACKAGES = ("mucon", "torch", "numpy", "numba", "safetensors")


class History:
    """Records a training; a resumed run has each epoch once, with the numbers of an uninterrupted run.

    Args:
        folder: the run folder.
        device: where the network is trained.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.folder = folder
        self.device = device

    def start(self) -> None:
        """Records the environment; called when training has checked its input."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _append(self.folder / STARTS, environment(self.device))

    def epoch(self, report: EpochReport) -> None:
        """Records a finished epoch, in place of an earlier record of it or of later ones."""
        path = self.folder / HISTORY
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        kept = [line for line in lines if 0 < _epoch_of(line) < report.epoch]
        if kept != lines:
            fresh = path.with_name(f"{path.name}.new")
            fresh.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
            fresh.replace(path)
        _append(path, {"time": _now(), "epoch": report.epoch, "step": report.step, **report.metrics()})


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, machine and command of this process, as plain values."""
    return {
        "time": _now(),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        **process_facts(device, PACKAGES),
        "numerics": mucon.NUMERICS,
        "git_commit": _commit(),
    }


def _append(path: Path, value: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


def _epoch_of(line: str) -> int:
    """The epoch of a record; 0 for a line that is incomplete, as after a power cut."""
    try:
        return int(json.loads(line)["epoch"])
    except (ValueError, KeyError, TypeError):
        return 0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _commit() -> str | None:
    """HEAD of the git working copy with this package; None if it is installed elsewhere."""
    root = Path(mucon.__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    done = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        return subprocess.run(done, capture_output=True, check=True, timeout=10, text=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
