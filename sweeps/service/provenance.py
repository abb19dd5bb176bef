"""Where and with what a trial ran: recorded with it, never part of its identity."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import subprocess
from pathlib import Path
from typing import Any

import torch

import mucon
from mucon.device import Precision, choose_device, usable_precision
from mucon.machine import cpu_name

PACKAGES = ("mucon", "torch", "numpy", "numba", "scipy", "safetensors", "pyarrow", "ray", "mlflow")


def environment(device: str, threads: int, precision: Precision = "float32") -> dict[str, Any]:
    """Versions, machine, device and source of this process, as plain values.

    Args:
        device: where the trial computes, as `cpu` or `cuda`.
        threads: processor threads of its arithmetic.
        precision: that was asked for; what is recorded is what the device can do.
    """
    return {
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "device": device,
        "device_name": torch.cuda.get_device_name() if device.startswith("cuda") else cpu_name(),
        "threads": threads,
        "precision": usable_precision(precision, choose_device(device)),
        "numerics": mucon.NUMERICS,
        "cpus": os.cpu_count(),
        **_source(),
    }


def resolve_device(device: str) -> str:
    """`auto` as `cuda` where torch sees a graphics processor, else as `cpu`; anything else as it is."""
    return str(choose_device(device)) if device == "auto" else device


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _source() -> dict[str, Any]:
    """The commit of the working copy that this package lies in, and whether it was changed; nothing elsewhere."""
    root = Path(mucon.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return {}
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"git_commit": commit, "git_changed": bool(changed)}


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
