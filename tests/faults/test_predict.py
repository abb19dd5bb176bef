"""Predictions that are killed or interrupted: complete files stay, and the same command makes the rest."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mucon.cli import main
from mucon.outputs import batch
from mucon.outputs.files import RECORD, unfinished
from tests.helpers.commands import train_line
from tests.helpers.factories import small_videos, write_store

N = 150
FEATURES = small_videos(4)[1].read()


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("killed")
    assert main(train_line(write_store(folder / "store"), folder / "run", epochs=1)) == 0
    (folder / "features").mkdir()
    for i in range(N):
        np.save(folder / "features" / f"r{i:03}.npy", FEATURES[: 3 + i % 7])
    return ["predict", str(folder / "run"), str(folder / "features"), "--device", "cpu"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def test_a_killed_command_leaves_complete_files_and_the_next_one_makes_the_rest(
    line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = [*line, "--format", "json", "--out"]
    assert main([*words, str(tmp_path / "whole")]) == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "mucon", *words, str(tmp_path / "killed")],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        deadline = time.monotonic() + 300
        while len(contents(tmp_path / "killed")) < 5 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()
    found, whole = contents(tmp_path / "killed"), contents(tmp_path / "whole")
    assert 5 <= len(found) < N
    assert found.items() <= whole.items()
    unfinished(tmp_path / "killed", process.pid).touch()
    capsys.readouterr()
    assert main([*words, str(tmp_path / "killed")]) == 0
    assert sum("already" in text for text in capsys.readouterr().out.splitlines()) == len(found)
    assert contents(tmp_path / "killed") == whole
    assert {path.name for path in (tmp_path / "killed").iterdir()} == {*whole, RECORD}


def test_an_interrupted_command_says_so_and_the_next_one_makes_the_rest(
    line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    words = [*line, "--out", str(tmp_path / "out"), "--jobs", "2"]
    predicted, names = batch.predicted, iter(range(N))

    def interrupted(*arguments):
        if next(names) == 20:
            raise KeyboardInterrupt
        return predicted(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(batch, "predicted", interrupted)
        assert main(words) == 130
    assert "interrupted: " in capsys.readouterr().err
    n = len(list((tmp_path / "out").glob("*.txt")))
    assert 0 < n < N
    assert main(words) == 0
    assert sum("already" in text for text in capsys.readouterr().out.splitlines()) == n
    assert len(list((tmp_path / "out").glob("*.txt"))) == N
