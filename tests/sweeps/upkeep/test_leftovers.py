"""Temporary folders of Ray sessions whose processes were killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from sweeps.service.upkeep.leftovers import OWNER, claim, remove_leftovers
from tests.sweeps import small

DRIVER = """
import subprocess, sys
from pathlib import Path
from sweeps.service.upkeep.leftovers import claim
held = claim(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "60"], pass_fds=[held])
print(child.pid, flush=True)
child.wait()
"""


def open_files(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []


def test_a_folder_is_removed_once_its_driver_and_the_process_of_ray_are_dead(tmp_path: Path) -> None:
    folder = tmp_path / "ray-x"
    folder.mkdir()
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    child = int(driver.stdout.readline())
    remove_leftovers([folder])
    assert folder.exists()
    driver.kill()
    driver.wait()
    remove_leftovers([folder])
    assert folder.exists(), "the other process still uses it"
    subprocess.run(["kill", f"-{signal.SIGKILL:d}", str(child)], check=True)
    small.wait_until(lambda: not open_files(child))
    remove_leftovers([folder])
    assert not folder.exists()


def test_folders_of_others_and_links_are_left_alone(tmp_path: Path) -> None:
    elsewhere, strange, link = (tmp_path / name for name in ("elsewhere", "ray-strange", "ray-link"))
    for folder in (elsewhere, strange):
        folder.mkdir()
    (elsewhere / OWNER).touch()
    link.symlink_to(elsewhere)
    remove_leftovers([strange, link, tmp_path / "gone"])
    assert (elsewhere / OWNER).exists()
    assert strange.exists()
    assert link.is_symlink()
    assert claim(strange) > 2
