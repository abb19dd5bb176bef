"""Budgets and notices on the command line: refusals, the header, and what a dry run says."""

from pathlib import Path

import pytest

from sweeps.ablation_masks import EXPERIMENT
from sweeps.service.cli import main

SECRET = "s3cr3t"


@pytest.fixture
def words(tiny_store: Path, tmp_path: Path) -> list[str]:
    line = ["--store", str(tiny_store), "--results", str(tmp_path / "results"), "--device", "cpu"]
    return [*line, "--set", "training.epochs=2", "--seeds", "2", "--dry-run"]


def test_wrong_limits_and_addresses_are_refused_together_with_their_places(
    capsys: pytest.CaptureFixture[str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUCON_MAX_TRIALS", "some")
    assert main(EXPERIMENT, [*words, "--time-budget", "90", "--cpu-hours", "0"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["--time-budget", "--cpu-hours", "MUCON_MAX_TRIALS"]
    monkeypatch.delenv("MUCON_MAX_TRIALS")
    assert main(EXPERIMENT, [*words, "--notify", f"ftp://{SECRET}/a"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.split(": ")[1] == "--notify"
    assert SECRET not in line
    assert main(EXPERIMENT, [*words, "--gpu-hours", "3"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.split(": ")[1] == "--gpu-hours"


def test_a_dry_run_marks_the_cells_beyond_the_budget(
    capsys: pytest.CaptureFixture[str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUCON_MAX_TRIALS", "8")
    assert main(EXPERIMENT, [*words, "--max-trials", "10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (budget,) = (line for line in lines if line.startswith("budget: "))
    assert budget.split() == ["budget:", "8", "trainings", "(MUCON_MAX_TRIALS)"]
    cells = [line for line in lines if "split 1, seed" in line]
    assert [line.endswith("beyond the budget") for line in cells] == [False] * 8 + [True] * 4
    assert lines[-1].split()[-4:] == ["8", "of", "12", "trainings"]
    monkeypatch.delenv("MUCON_MAX_TRIALS")
    assert main(EXPERIMENT, [*words, "--cpu-hours", "1e-9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.endswith("beyond the budget") for line in lines) == 12
