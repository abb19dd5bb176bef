"""What `mucon train` records in its run folder: one line of JSON per epoch, and one per start of the command."""

from __future__ import annotations

import contextlib
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
MEASURED = ("time", "seconds", "steps_per_second", "memory_mib")
"""Entries of an epoch that differ when it is trained again."""
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
        """Records a finished epoch.

        An epoch after the last checkpoint that is trained again to the same numbers keeps its first record. Other
        numbers are those of another training: they replace the record of the epoch and of all later ones.
        """
        path = self.folder / HISTORY
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        records = {line: _record(line) for line in lines}
        record = {"time": _now(), "epoch": report.epoch, "step": report.step, **report.metrics()}
        is_known = any(_trained(earlier) == _trained(record) for earlier in records.values())
        last = report.epoch if not is_known else max(earlier["epoch"] for earlier in records.values()) + 1
        kept = [line for line, earlier in records.items() if 0 < earlier["epoch"] < last]
        if kept != lines:
            fresh = path.with_name(f"{path.name}.new")
            fresh.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
            fresh.replace(path)
        if not is_known:
            _append(path, record)


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, machine and command of this process, as plain values."""
    return {
        "time": _now(),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        **process_facts(device, PACKAGES),
        "numerics": mucon.NUMERICS,
        "git_commit": _commit(),
    }


def last_environment(run: Path) -> dict[str, Any]:
    """What `History.start` recorded last in a run folder; empty if nothing readable is there."""
    path = run / STARTS
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    for line in reversed(lines):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                return {name: value for name, value in found.items() if value is not None}
    return {}


def _append(path: Path, value: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


def _record(line: str) -> dict[str, Any]:
    """The record of a line; of epoch 0 for a line that is incomplete, as after a power cut."""
    try:
        record = json.loads(line)
        return {**record, "epoch": int(record["epoch"])}
    except (ValueError, KeyError, TypeError):
        return {"epoch": 0}


def _trained(record: dict[str, Any]) -> dict[str, Any]:
    """The numbers of an epoch that are the same whenever and wherever it is trained."""
    return {name: value for name, value in record.items() if name not in MEASURED}


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
