"""`mucon train`."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon import checkpoint as checkpoints
from mucon import device as devices
from mucon.checkpoint import weights_sha256
from mucon.cli import build_parser, main
from mucon.commands.printing import EpochPrinter
from mucon.commands.train import StopOnSignal, config_of
from mucon.device import training_line
from mucon.library import load_predictor
from mucon.methods import METHODS, method_named
from mucon.training import EpochReport, train
from mucon.videos import videos_of, vocabulary_of
from storage import StoreWriter, open_store
from storage.held_out import held_out
from tests.helpers.commands import SETTINGS, call, error_line, train_line
from tests.helpers.factories import VOCABULARY, small_videos, write_store
from tests.helpers.refusals import refused
from tests.storage.helpers import change_manifest

ROOT = Path(__file__).parents[3]


def test_the_command_trains_what_the_library_trains(store: Path, run: Path, tmp_path: Path):
    trained = checkpoints.load(run / "checkpoint")
    assert trained.config.training.epochs == 2
    opened = open_store(store)
    train(trained.config, videos_of(opened, "1", "train"), vocabulary_of(opened), folder=tmp_path, device="cpu")
    assert weights_sha256(checkpoints.load(tmp_path / "checkpoint").model) == weights_sha256(trained.model)


def test_settings_win_over_the_recipe_and_schedule_points_follow_the_epochs(store: Path, tmp_path: Path):
    line = train_line(store, tmp_path / "run", "--seed", "7", "--set", "mask.shape=bell", "--set", "loss.smoothing=0.2")
    assert main(line) == 0
    config = checkpoints.load(tmp_path / "run" / "checkpoint").config
    assert (config.seed, config.mask.shape, config.loss.smoothing, config.training.drop_after) == (7, "bell", 0.2, 1)
    absolute = train_line(store, tmp_path / "other", "--set", "training.lr_drop_epoch=0")
    assert main(absolute) == 0
    assert checkpoints.load(tmp_path / "other" / "checkpoint").config.training.drop_after == 0


@pytest.mark.parametrize("method", ["mucon", "frame_mlp"])
def test_training_begins_with_a_line_about_device_and_size(store: Path, tmp_path: Path, capsys, method: str):
    line = train_line(store, tmp_path / "run", epochs=1)
    if method != "mucon":
        line = ["train", "full", *(word for word in line[2:] if word not in SETTINGS), "--method", method]
    assert main(line) == 0
    predictor = load_predictor(tmp_path / "run", "cpu")
    network = predictor.checkpoint.model if method == "mucon" else predictor.classifier
    n_weights = sum(parameter.numel() for parameter in network.parameters())
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in rest if line.startswith("background")] == ["background"] * (
        method == "mucon"
    )
    assert second.startswith("context of ") == (method == "mucon")
    assert first == training_line(torch.device("cpu"), "float32", n_videos=5, n_parameters=n_weights)
    assert {"(cpu)", "float32:", "5", f"{n_weights:,}"} <= set(first.split())
    assert main(line) == 0
    assert first not in capsys.readouterr().out, "a finished run"


def test_a_card_that_torch_cannot_use_is_one_line_of_training_and_prediction(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.setattr(devices, "nvidia_driver", lambda: "470.57.02")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    features = tmp_path / "features.npy"
    np.save(features, small_videos(1)[0].read())
    run = tmp_path / "run"
    lines = (
        [*train_line(store, run, epochs=1), "--device", "auto"],
        ["evaluate", str(run), "--store", str(store)],
        ["predict", str(run), str(features)],
    )
    for line in lines:
        assert main(line) == 0
        warned = [text for text in capsys.readouterr().err.splitlines() if text.startswith("warning: --device: ")]
        assert len(warned) == 1, line
        assert "470.57.02" in warned[0]


def test_scores_without_labels_are_printed_as_they_are_and_accuracies_in_percent(capsys):
    report = EpochReport(
        epoch=1,
        epochs=2,
        step=3,
        losses={"total": 1.0},
        gradient_norms={},
        learning_rate=0.01,
        seconds=1.0,
        steps_per_second=1.0,
        memory=1,
        progress={"full.mof": 0.5, "label_free.likelihood": -1.2944},
    )
    with EpochPrinter(2, 3) as printer:
        printer.epoch(report)
    printed = capsys.readouterr().err
    assert " full.mof 50.0 " in printed
    assert " label_free.likelihood -1.294 " in printed


def test_training_without_a_terminal_prints_a_line_per_epoch(store: Path, tmp_path: Path, capsys):
    assert main(train_line(store, tmp_path / "run", epochs=3)) == 0
    captured = capsys.readouterr()
    epochs = [line for line in captured.err.splitlines() if line.startswith("epoch ")]
    assert [line.split()[1] for line in epochs] == ["1/3", "2/3", "3/3"]
    assert all("total" in line for line in epochs)
    assert str(tmp_path / "run" / "checkpoint") in captured.out
    assert f"mucon evaluate {tmp_path / 'run'} --store {store} --split 1" in captured.out


@pytest.mark.parametrize(
    ("rule", "setting", "place", "value", "suggestion"),
    [
        ("unknown", "loss.smooting=1", "loss.smooting", "loss.smooting", "'loss.smoothing'"),
        ("type", "loss.smoothing=much", "loss.smoothing", "much", "'much'"),
        ("type", "training.threads=1.5", "training.threads", "1.5", "'1.5'"),
        ("type", "mask.shape=boxx", "mask.shape", "boxx", "box, bell, trapezoid"),
        ("type", "mask.shape", "--set", "mask.shape", "PATH=VALUE"),
    ],
)
def test_a_setting_that_is_wrong_is_one_line(
    store: Path, tmp_path: Path, capsys, rule: str, setting: str, place: str, value: str, suggestion: str
):
    line = train_line(store, tmp_path / "run", "--set", setting)
    with refused(rule, place, value, n=1):
        call(line)
    text = error_line(capsys, line)
    assert place in text
    assert suggestion in text
    assert not (tmp_path / "run").exists()


def test_a_setting_out_of_range_is_one_line(store: Path, tmp_path: Path, capsys):
    text = error_line(capsys, train_line(store, tmp_path / "run", "--set", "mask.overlap=3"))
    assert "mask.overlap" in text
    assert "3.0" in text
    assert not (tmp_path / "run").exists()


def test_a_missing_store_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    missing = tmp_path / "nowhere"
    assert str(missing) in error_line(capsys, train_line(missing, tmp_path / "out"))


def test_a_store_of_another_format_version_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    other = write_store(tmp_path / "store", n_train=1, n_test=1)
    change_manifest(other, lambda value: value.update(format_version=99))
    text = error_line(capsys, train_line(other, tmp_path / "run"))
    assert "99" in text
    assert str(other) in text


def test_an_unknown_split_is_one_line(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "nine" in error_line(capsys, train_line(store, tmp_path / "out", "--split", "nine"))


@pytest.mark.parametrize("device", ["banana", "cuda:99", "meta", "mps"])
def test_a_device_that_does_not_exist_is_one_line(store: Path, tmp_path: Path, capsys, device: str):
    assert repr(device) in error_line(capsys, [*train_line(store, tmp_path / "out"), "--device", device])


def test_the_folder_of_another_run_is_one_line(store: Path, run: Path, capsys: pytest.CaptureFixture[str]):
    assert "mask.shape" in error_line(capsys, train_line(store, run, "--set", "mask.shape=bell"))


def test_a_run_that_diverges_is_one_line_and_status_3(store: Path, tmp_path: Path, capsys):
    more = ["--set", "training.learning_rate=1e38", "--set", "training.clip_norm=1e30"]
    assert main(train_line(store, tmp_path / "run", *more, epochs=9)) == 3
    (text,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "diverged" in text


def test_former_names_of_recipes_are_accepted_for_each_method(store: Path, tmp_path: Path):
    line = train_line(store, tmp_path / "run")
    for method in ("mucon", "ms_tcn", "ms_tcn_pp", "frame_mlp"):
        args = build_parser().parse(["train", "breakfast", *line[2:10], "--method", method])
        assert config_of(args).override("training.epochs", 7) == method_named(method).config().override(
            "training.epochs", 7
        )
    with refused("unknown", "RECIPE", "hollywood", n=1):
        call(["train", "hollywood", *line[2:10], "--method", "ms_tcn"])


def test_signal_handlers_are_restored(store: Path, tmp_path: Path):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert main(train_line(store, tmp_path / "run", epochs=1)) == 0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_request_and_the_second_interrupts(number: signal.Signals):
    with StopOnSignal() as stop:
        assert not stop.requested()
        signal.raise_signal(number)
        assert stop.requested()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_control_c_stops_with_a_checkpoint_and_the_same_command_resumes_to_the_same_bits(store: Path, tmp_path: Path):
    line = [sys.executable, "-m", "mucon", *train_line(store, tmp_path / "run", epochs=25)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "run" / "history.jsonl").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert len([text for text in errors.splitlines() if not text.startswith("epoch ")]) == 2
    assert errors.splitlines()[-1].startswith("interrupted: ")
    assert str(tmp_path / "run" / "checkpoint") in errors.splitlines()[-1]
    assert not checkpoints.load(tmp_path / "run" / "checkpoint").progress.finished
    assert main(line[3:]) == 0
    assert main(train_line(store, tmp_path / "whole", epochs=25)) == 0
    stopped, whole = (checkpoints.load(tmp_path / name / "checkpoint") for name in ("run", "whole"))
    assert stopped.progress.finished
    assert weights_sha256(stopped.model) == weights_sha256(whole.model)


def test_another_split_in_the_folder_of_a_run_is_one_line_with_both(tmp_path: Path, capsys):
    store = write_splits(tmp_path / "store")
    run = tmp_path / "run"
    assert main(train_line(store, run, epochs=1)) == 0
    assert "--split 1" in capsys.readouterr().out
    for split in ("2", "3"):
        line = [*train_line(store, run, epochs=1), "--split", split]
        with refused("conflict", str(run), n=1):
            call(line)
        text = error_line(capsys, line)
        assert "split 1" in text
        assert f"split {split}" in text


def test_scores_on_trained_recordings_are_a_warning(tmp_path: Path, capsys):
    store, run = write_splits(tmp_path / "store"), tmp_path / "run"
    assert main(train_line(store, run, epochs=1)) == 0
    capsys.readouterr()
    evaluate = ["evaluate", str(run), "--store", str(store), "--device", "cpu", "--json", "--split"]
    for split, seen in (("1", []), ("2", ["v00"])):
        assert main([*evaluate, split]) == 0
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
        assert len(lines) == len(seen)
        assert all(repr(id) in line for id, line in zip(seen, lines, strict=True))
    (run / "checkpoint" / "data.json").unlink()
    assert main([*evaluate, "1"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert str(run) in line


def test_a_warm_start_that_has_seen_test_recordings_is_a_warning(tmp_path: Path, capsys):
    store, start = write_splits(tmp_path / "store"), tmp_path / "start"
    assert main(train_line(store, start, epochs=1)) == 0
    for split, n in (("1", 0), ("2", 1)):
        capsys.readouterr()
        more = ["--split", split, "--set", f"training.warm_start={start}"]
        assert main([*train_line(store, tmp_path / split, epochs=1), *more]) == 0
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
        assert len(lines) == n
        assert all("training.warm_start" in line for line in lines)


def write_splits(path: Path) -> Path:
    """Three recordings: split 2 trains on other ones than split 1, split 3 on the same ones."""
    parts = {"v00": ("1:train", "2:test", "3:train"), "v01": ("1:train", "2:train", "3:train")}
    with StoreWriter(path, dim=5, dtype="float32", vocabulary=VOCABULARY.actions) as writer:
        for video in small_videos(3):
            splits = parts.get(video.id, ("1:test", "2:train", "3:test"))
            writer.add(video.id, video.read(), transcript=video.transcript, lengths=video.lengths, splits=splits)
    return path


def test_a_training_without_the_validation_part_is_evaluated_on_it(store: Path, tmp_path: Path, capsys):
    run = tmp_path / "run"
    assert main(train_line(store, run, "--hold-out-validation", epochs=1)) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next:")]
    words = shlex.split(line.partition(":")[2])
    assert words[-2:] == ["--part", "validation"]
    held = held_out(open_store(store), "1")
    trained = load_predictor(run, "cpu").trained_on
    assert trained is not None
    assert tuple(trained.recordings) == held.rest
    assert main([*words[1:], "--device", "cpu"]) == 0


def test_a_method_has_recipes_of_its_own(store: Path, tmp_path: Path):
    line = train_line(store, tmp_path / "run")
    for method in METHODS:
        for recipe in method_named(method).recipes:
            args = build_parser().parse(["train", recipe, *line[2:10], "--method", method])
            assert isinstance(config_of(args), method_named(method).config)
        with refused("unknown", "RECIPE", "nope", n=1):
            call(["train", "nope", *line[2:10], "--method", method])
