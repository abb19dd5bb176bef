"""What `mucon train` records in its run folder and shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from mucon.cli import main
from mucon.commands.history import History
from mucon.commands.train import StopOnSignal
from mucon.training import EpochReport
from tests.helpers.commands import call, train_line
from tests.helpers.refusals import refused

OF_TIME = ("time", "seconds", "steps_per_second", "memory_mib")


def records(run: Path, name: str = "history.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def numbers(run: Path) -> list[dict[str, Any]]:
    """The records without what depends on the clock."""
    return [{key: value for key, value in one.items() if key not in OF_TIME} for one in records(run)]


def test_an_interrupted_run_leaves_the_history_of_an_uninterrupted_one(store, tmp_path, monkeypatch):
    assert main(train_line(store, tmp_path / "whole", epochs=3)) == 0
    steps = iter(range(100))
    with monkeypatch.context() as patch:
        patch.setattr(StopOnSignal, "requested", lambda _: next(steps) == 7)
        assert main(train_line(store, tmp_path / "stopped", epochs=3)) == 130
    assert [one["epoch"] for one in records(tmp_path / "stopped")] == [1]
    assert main(train_line(store, tmp_path / "stopped", epochs=3)) == 0
    assert numbers(tmp_path / "stopped") == numbers(tmp_path / "whole")
    last = records(tmp_path / "whole")[-1]
    assert (last["epoch"], last["step"], last["learning_rate"]) == (3, 15, pytest.approx(0.001))
    assert {"loss.total", "gradient_norm.encoder", "progress.full.mof"} <= set(last)


def test_each_start_that_trains_records_its_environment(store: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/mucon", "train", "a b"])
    for _ in range(2):  # the second finds a finished run
        assert main(train_line(store, tmp_path / "run", epochs=1)) == 0
    (start,) = records(tmp_path / "run", "environment.jsonl")
    assert (start["command"], start["device"]) == ("mucon train 'a b'", "cpu")
    assert {"python", "packages", "numerics", "git_commit", "host", "platform", "time"} <= set(start)
    assert start["packages"]["torch"]
    with refused("conflict"):
        call(train_line(store, tmp_path / "run", "--seed", "9", epochs=1))
    assert len(records(tmp_path / "run", "environment.jsonl")) == 1


def report(epoch: int, loss: float) -> EpochReport:
    return EpochReport(
        epoch=epoch, epochs=9, step=epoch, losses={"total": loss}, gradient_norms={}, learning_rate=0.1, seconds=1.0,
        steps_per_second=1.0, memory=1,
    )  # fmt: skip


def test_a_repeated_epoch_replaces_its_record_and_an_incomplete_line(tmp_path: Path):
    for epoch in (1, 2, 3):
        History(tmp_path, torch.device("cpu")).epoch(report(epoch, 0.5))
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"epoch": 4, "los')
    History(tmp_path, torch.device("cpu")).epoch(report(2, 0.25))
    assert [(one["epoch"], one["loss.total"]) for one in records(tmp_path)] == [(1, 0.5), (2, 0.25)]


def test_a_finished_run_that_is_asked_for_more_epochs_names_the_way_out(store: Path, run: Path):
    with refused("conflict", str(run), ("training.epochs",), n=1) as refusal:
        call(train_line(store, run, epochs=5))
    assert f"training.warm_start={run}" in refusal.problems[0].hint


def test_lines_show_losses_rate_and_scores_on_training_videos(store: Path, tmp_path: Path, capsys):
    assert main(train_line(store, tmp_path / "run")) == 0
    first, second = [line for line in capsys.readouterr().err.splitlines() if line.startswith("epoch ")]
    assert "rate 0.01 " in first
    assert "rate 0.001 " in second
    assert "full.mof" in second


def test_a_terminal_shows_videos_scores_and_the_drop_of_the_rate(store: Path, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    assert main(train_line(store, tmp_path / "run", "--set", "training.progress_every=1")) == 0
    text = capsys.readouterr().err
    for words in ("10/10", "epoch 2/2", "MoF ", "learning rate"):
        assert words in text
