"""The wheel contains what its commands need, and they run from it alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("mucon", "storage", "sweeps")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    alone = ["--no-deps", "--no-index"]
    build = ["wheel", *alone, "--no-build-isolation", "--wheel-dir", folder, folder / "source"]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", *alone, "--target", folder / "site", wheel], check=True)
    return folder / "site"


def files(root: Path) -> set[Path]:
    found = {path.relative_to(root) for name in PACKAGES for path in (root / name).rglob("*") if path.is_file()}
    return {path for path in found if "__pycache__" not in path.parts}


def test_the_wheel_contains_all_files_besides_those_of_clusters(site: Path) -> None:
    assert {path.parts[:2] for path in files(ROOT) ^ files(site)} == {("sweeps", "clusters")}


@pytest.mark.parametrize("words", [["mucon", "--help"], ["mucon", "recipes"], ["mucon-sweeps", "list"]])
def test_a_command_runs_from_the_wheel(site: Path, words: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    code = "import mucon, storage, sweeps; print(mucon.__file__, storage.__file__, sweeps.__file__)"
    where = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert all(path.startswith(str(site)) for path in where.stdout.split()), where
    ran = subprocess.run([site / "bin" / words[0], *words[1:]], env=environment, cwd=tmp_path, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout
