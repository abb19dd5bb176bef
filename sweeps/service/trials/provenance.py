"""Environment and source of a trial: recorded with it, never part of its identity."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mucon
from mucon.device import Precision, choose_device, process_facts, usable_cpus, usable_precision
from storage.fencing import ALONE, Writer
from sweeps.service.text import digest, redacted

PACKAGES = ("mucon", "torch", "numpy", "numba", "scipy", "safetensors", "pyarrow", "ray", "mlflow")

ROOT = Path(mucon.__file__).resolve().parent.parent
"""The folder that contains the packages."""
MAX_PATCH_BYTES = 2**20
"""Longer patches are truncated."""


@dataclass(frozen=True, slots=True)
class Source:
    """The git working copy of the packages; all attributes are empty without one.

    Attributes:
        commit: hash of HEAD.
        patch: output of `git diff HEAD`.
        untracked: untracked modules of the packages, which the patch does not contain.
    """

    commit: str = ""
    patch: bytes = b""
    untracked: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Plain values, with the patch's digest and size instead of the patch."""
        if not self.commit:
            return {}
        facts: dict[str, Any] = {"git_commit": self.commit, "git_changed": bool(self.patch or self.untracked)}
        if self.patch:
            facts["git_diff_sha256"] = hashlib.sha256(self.patch).hexdigest()
            facts["git_diff_bytes"] = len(self.patch)
        if self.untracked:
            facts["git_untracked"] = list(self.untracked)
        return facts

    def write_patch(self, path: Path, writer: Writer = ALONE) -> None:
        """Writes the patch, truncated with a note if it is long; removes the file if there are no changes."""
        if not self.patch:
            writer.confirm_for(path)
            path.unlink(missing_ok=True)
            return
        patch = self.patch
        if len(patch) > MAX_PATCH_BYTES:
            note = f"\n# truncated: the first {MAX_PATCH_BYTES} of {len(patch)} bytes\n"
            patch = patch[:MAX_PATCH_BYTES] + note.encode()
        writer.write(path, patch)


def environment(
    device: str, threads: int, precision: Precision = "float32", *, command: str = "", source: Source | None = None
) -> dict[str, Any]:
    """Versions, machine, device and source of this process, as plain values.

    Args:
        device: `cpu` or `cuda`.
        threads: CPU threads of the arithmetic.
        precision: the requested one; the recorded one is what the device supports.
        command: command line of the sweep; default: that of this process.
        source: default: the current working copy.
    """
    used = choose_device(device)
    return {
        **process_facts(used, PACKAGES),
        "device": device,
        "threads": threads,
        "precision": usable_precision(precision, used),
        "numerics": mucon.NUMERICS,
        "cpus": usable_cpus(),
        "command": command or shlex.join([Path(sys.argv[0]).name, *map(redacted, sys.argv[1:])]),
        **(own_source() if source is None else source).facts(),
    }


@functools.cache
def code() -> str:
    """Digest of the version and the source of this program: the same code fails in the same way.

    Read once, because a process does not load code that changes later.
    """
    return digest(json.dumps([importlib.metadata.version("mucon"), find_source().facts()]))


def resolve_device(device: str) -> str:
    """Resolves `auto` to `cuda` if a GPU is available, otherwise to `cpu`."""
    return choose_device(device).type if device == "auto" else device


@functools.cache
def own_source() -> Source:
    """The working copy of the packages at the first call: what is changed later is not what this process runs."""
    return find_source()


def find_source(root: Path = ROOT) -> Source:
    """The current state of a working copy; an empty one if `root` is not a git repository."""
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


def changed_files(first: str, second: str, root: Path = ROOT) -> list[str]:
    """The files that differ between two commits; empty if the repository does not have both."""
    if not (root / ".git").exists() or not all(re.fullmatch("[0-9a-f]{40}", commit) for commit in (first, second)):
        return []
    try:
        return _git(root, "diff", "--name-only", "--no-ext-diff", first, second).decode().splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=True, timeout=10).stdout
