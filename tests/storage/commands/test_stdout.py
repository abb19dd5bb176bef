"""Outputs that cannot be written: without a reader, or on a full disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from storage.commands.stdout import with_lasting_output

MODULES = ("storage", "mucon", "sweeps")
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")


@pytest.mark.parametrize("module", MODULES)
def test_errors_that_nobody_reads_keep_their_exit_status(module: str) -> None:
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", module, "no-such-command"]
    ran = subprocess.run(line, stdout=write, stderr=write, check=False)
    os.close(write)
    assert ran.returncode == 2


def test_a_store_command_lasts_without_a_reader(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "storage", "cache", "list", "--json"]
    environment = {**os.environ, "MUCON_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(line, stdout=write, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (0, b"")


@needs_full
@pytest.mark.parametrize(("status", "expected"), [(0, 2), (3, 3)])
def test_output_that_a_full_disk_loses_is_an_error_after_the_work(
    status: int, expected: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = []

    def run() -> int:
        print("x" * 100_000)
        done.append(True)
        return status

    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert with_lasting_output(run) == expected
    assert done == [True]
    assert capsys.readouterr().err.startswith("error: standard output: ")
