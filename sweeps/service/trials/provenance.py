"""Where and with what a trial ran: recorded with it, never part of its identity."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shlex
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import mucon
from mucon.device import Precision, choose_device, cpu_name, usable_precision

PACKAGES = ("mucon", "torch", "numpy", "numba", "scipy", "safetensors", "pyarrow", "ray", "mlflow")

ROOT = Path(mucon.__file__).resolve().parent.parent
"""Where these packages lie."""
MAX_PATCH = 2**20
"""Bytes of a patch that are kept."""


@dataclass(frozen=True, slots=True)
class Source:
    """The working copy that this package lies in; all is empty where there is none.

    Attributes:
        commit: its newest.
        patch: what was changed since, as `git diff HEAD` tells it.
        untracked: modules of the packages that git does not know, which are in no patch.
    """

    commit: str = ""
    patch: bytes = b""
    untracked: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Plain values; the patch as its digest and size."""
        if not self.commit:
            return {}
        facts: dict[str, Any] = {"git_commit": self.commit, "git_changed": bool(self.patch or self.untracked)}
        if self.patch:
            facts["git_diff_sha256"] = hashlib.sha256(self.patch).hexdigest()
            facts["git_diff_bytes"] = len(self.patch)
        if self.untracked:
            facts["git_untracked"] = list(self.untracked)
        return facts

    def write_patch(self, path: Path) -> None:
        """Writes the patch, or removes an older one where nothing was changed; a long one is cut and says so."""
        if not self.patch:
            path.unlink(missing_ok=True)
            return
        kept = self.patch
        if len(kept) > MAX_PATCH:
            told = f"\n# cut: the first {MAX_PATCH} of {len(kept)} bytes\n"
            kept = kept[:MAX_PATCH] + told.encode()
        path.write_bytes(kept)


def environment(
    device: str, threads: int, precision: Precision = "float32", *, command: str = "", source: Source | None = None
) -> dict[str, Any]:
    """Versions, machine, device and source of this process, as plain values.

    Args:
        device: where the trial computes, as `cpu` or `cuda`.
        threads: processor threads of its arithmetic.
        precision: that was asked for; what is recorded is what the device can do.
        command: the command line for which the trial runs; when empty, this process's own.
        source: of the packages; looked up when it is not given.
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
        "command": command or shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        **(find_source() if source is None else source).facts(),
    }


def resolve_device(device: str) -> str:
    """`auto` as `cuda` where torch sees a graphics processor, else as `cpu`; anything else as it is."""
    return str(choose_device(device)) if device == "auto" else device


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def find_source(root: Path = ROOT) -> Source:
    """The working copy at a place, as it is now.

    Args:
        root: the folder that holds the packages.
    """
    if not (root / ".git").exists():
        return Source()
    ours = [f"{name}/*.py" for name in ("mucon", "storage", "sweeps")]
    try:
        commit = _git(root, "rev-parse", "HEAD").decode().strip()
        patch = _git(root, "diff", "--no-color", "--no-ext-diff", "HEAD")
        untracked = _git(root, "ls-files", "--others", "--exclude-standard", "--", *ours).decode()
    except (OSError, subprocess.SubprocessError):
        return Source()
    return Source(commit, patch, tuple(untracked.splitlines()))


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=True, timeout=10).stdout
