"""A virtual environment with chosen packages and those that they require, made without a network."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def required(names: Iterable[str]) -> dict[str, importlib.metadata.Distribution]:
    """The installed distributions of these names and of everything that they require, by normalised name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # an optional one, such as CUDA's on another platform
            continue
        needed = [Requirement(line) for line in found[name].requires or []]
        waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def make_environment(folder: Path, names: Iterable[str], ours: Iterable[str] = ("mucon", "storage")) -> Path:
    """Creates the environment and returns its interpreter.

    The packages are links to the installed ones, and those of the project to its sources.

    Args:
        folder: new folder.
        names: distributions.
        ours: packages of the project.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    for distribution in required(names).values():
        tops = {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution.locate_file(top))))
    for name in ours:
        (site / name).symlink_to(ROOT / name)
    return folder / "bin" / "python"
