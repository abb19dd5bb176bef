from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import mucon
from mucon.decoding.compilation import fallback_cache

DROP_FROM_BOUNDING_SET = 24
MAY_WRITE_ANYTHING = 1
DECODE = """
import sys
from mucon.decoding.alignment import best_lengths
from mucon.decoding.length_priors import Poisson
lengths, _ = best_lengths([[-0.1, -3.0], [-0.1, -3.0], [-3.0, -0.1]], [0, 1], Poisson([2.0, 1.0]))
from mucon.decoding import kernels
print(kernels.__file__)
print(lengths.tolist())
print(sum(kernels.align.stats.cache_hits.values()))
"""


@pytest.fixture
def installation() -> Iterator[tuple[Path, Path]]:
    """A copy of the package that nobody may write, and an empty temporary folder that the child may."""
    root = Path(tempfile.mkdtemp(prefix="mucon-read-only-"))
    package, scratch = root / "site", root / "tmp"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(mucon.__file__).parent, package / "mucon", ignore=ignore)
    scratch.mkdir()
    root.chmod(0o755)
    scratch.chmod(0o777)
    folders = [path for path in [package, *package.rglob("*")] if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    yield package, scratch
    for folder in folders:
        folder.chmod(0o755)
    shutil.rmtree(root)


def obey_file_modes() -> None:
    """Root loses its right to write where the file modes forbid it (Linux: CAP_DAC_OVERRIDE)."""
    if os.getuid() == 0:
        ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, MAY_WRITE_ANYTHING, 0, 0, 0)


def decode(package: Path, scratch: Path) -> list[str]:
    """Decodes in a fresh process without a home that cannot write the package; prints file, lengths, cache hits."""
    environment = {
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.environ["PATH"],
        "HOME": "/dev/null",
        "TMPDIR": str(scratch),
    }
    command = [sys.executable, "-c", DECODE]
    done = subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, check=False, preexec_fn=obey_file_modes
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:3]


def test_a_read_only_installation_without_a_home_decodes_and_keeps_what_it_compiled(installation):
    package, scratch = installation
    first = decode(package, scratch)
    assert first[0].startswith(str(package))
    assert first[1:] == ["[2, 1]", "0"]
    (folder,) = scratch.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert decode(package, scratch)[1:] == ["[2, 1]", "1"]


@pytest.mark.parametrize("mode", [0o777, 0o750])
def test_a_cache_folder_that_others_can_enter_is_not_used(mode, tmp_path):
    folder = fallback_cache(tmp_path)
    assert folder is not None
    assert folder.parent == tmp_path
    folder.chmod(mode)
    assert fallback_cache(tmp_path) is None


def test_a_link_or_a_file_in_the_place_of_the_cache_folder_is_not_used(tmp_path):
    folder = fallback_cache(tmp_path)
    assert folder is not None
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert fallback_cache(tmp_path) is None
    folder.unlink()
    folder.write_text("")
    assert fallback_cache(tmp_path) is None
