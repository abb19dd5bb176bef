"""Processes that share the cores of a machine."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mucon.errors import Interrupted
from sweeps.service.run.executor.cores import VARIABLE, shared_cores
from tests.sweeps import small

HOLDING = """
import sys, time
from sweeps.service.run.executor.cores import shared_cores
with shared_cores(float(sys.argv[1]), 2, lambda: False, lambda: None):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def holding(cores: float) -> Iterator[subprocess.Popen[str]]:
    """A process that holds some of two cores."""
    line = [sys.executable, "-c", HOLDING, str(cores)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=small.ROOT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(autouse=True)
def own_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))


def asks(cores: float, *, until: int = 2) -> tuple[bool, int]:
    """Whether some of two cores are obtained, and the number of notices; gives up after some looks."""
    looks, notices = [], []

    def give_up() -> bool:
        looks.append(None)
        return len(looks) >= until

    try:
        with shared_cores(cores, 2, give_up, lambda: notices.append(None)):
            return True, len(notices)
    except Interrupted:
        return False, len(notices)


def test_cores_are_shared_up_to_their_number_and_freed_by_a_death() -> None:
    with holding(1.5) as other:
        assert asks(0.5) == (True, 0)
        assert asks(1) == (False, 1)
        other.send_signal(signal.SIGSTOP)
        assert asks(1) == (False, 1)
        other.kill()
        other.wait()
        assert asks(2) == (True, 0)
    assert asks(8) == (True, 0), "a trial that needs more than all cores runs alone"


def test_without_a_folder_for_temporary_files_nothing_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    with holding(2):
        assert asks(2) == (True, 0)
