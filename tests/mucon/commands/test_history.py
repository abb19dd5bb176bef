"""What `mucon train` records in its run folder and shows."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from mucon.checkpoint_files import exists
from mucon.cli import main
from mucon.commands.history import History
from mucon.commands.train import StopOnSignal
from mucon.library import load_predictor as load
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


def test_an_epoch_of_another_training_replaces_its_record_and_an_incomplete_line(tmp_path: Path):
    for epoch in (1, 2, 3):
        History(tmp_path, torch.device("cpu")).epoch(report(epoch, 0.5))
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"epoch": 4, "los')
    History(tmp_path, torch.device("cpu")).epoch(report(2, 0.25))
    assert [(one["epoch"], one["loss.total"]) for one in records(tmp_path)] == [(1, 0.5), (2, 0.25)]


def test_an_epoch_that_is_trained_again_to_the_same_numbers_keeps_its_first_record(tmp_path: Path):
    for epoch in (1, 2, 3):
        History(tmp_path, torch.device("cpu")).epoch(report(epoch, 0.5))
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"epoch": 4, "los')
    before = records_but_the_last(tmp_path)
    for epoch in (2, 3):
        again = dataclasses.replace(report(epoch, 0.5), seconds=9.0, steps_per_second=9.0, memory=9)
        History(tmp_path, torch.device("cpu")).epoch(again)
    assert records(tmp_path) == before
    History(tmp_path, torch.device("cpu")).epoch(report(4, 0.5))
    assert [one["epoch"] for one in records(tmp_path)] == [1, 2, 3, 4]


def records_but_the_last(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()[:-1]]


def test_a_run_killed_long_after_its_last_checkpoint_has_each_epoch_once(store: Path, tmp_path: Path):
    """Five videos an epoch: killed in the third, behind no checkpoint or behind those of two epochs."""
    assert main(train_line(store, tmp_path / "whole", epochs=4)) == 0
    for every in ("600", "0"):
        run = tmp_path / every
        line = [*train_line(store, run, epochs=4), "--checkpoint-every", every]
        environment = {**os.environ, "MUCON_FAILPOINT": "training.step:13:kill"}
        killed = subprocess.run([sys.executable, "-m", "mucon", *line], env=environment, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert exists(run / "checkpoint") == (every == "0")
        first = records(run)
        assert [one["epoch"] for one in first] == [1, 2]
        assert main(line) == 0
        assert records(run)[:2] == first
        assert numbers(run) == numbers(tmp_path / "whole")
        assert load(run).weights_sha256() == load(tmp_path / "whole").weights_sha256()


def test_a_time_between_checkpoints_that_is_no_time_is_refused(store: Path, tmp_path: Path):
    for value in ("-1", "soon", "nan", "inf"):
        with refused("type", "--checkpoint-every", n=1):
            call([*train_line(store, tmp_path / "run"), "--checkpoint-every", value])


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
