"""The command line: what it prints, and that every wrong input is one clear line and exit status 2."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mucon import checkpoint as checkpoints
from mucon.checkpoint import weights_sha256
from mucon.cli import main
from mucon.commands.printing import action_table
from mucon.evaluation import Evaluation
from mucon.recipes import RECIPES
from mucon.training import train
from mucon.videos import videos_of, vocabulary_of
from storage import StoreWriter, open_store
from tests.helpers.factories import SMALL, VOCABULARY, small_videos, write_store
from tests.storage.helpers import change_manifest

ROOT = Path(__file__).parents[2]
SETTINGS = [
    word
    for path, value in SMALL.items()
    if path != "training.epochs"
    for word in ("--set", f"{path}={','.join(map(str, value)) if isinstance(value, tuple) else value}")
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("store") / "store")


@pytest.fixture(scope="module")
def run(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that the command line trained for two epochs."""
    folder = tmp_path_factory.mktemp("run") / "run"
    assert main(train_line(store, folder)) == 0
    return folder


def train_line(store: Path, out: Path, *more: str, epochs: int = 2) -> list[str]:
    line = ["train", "breakfast", "--store", str(store), "--out", str(out), "--epochs", str(epochs), "--device", "cpu"]
    return [*line, *SETTINGS, *more]


def refused(capsys: pytest.CaptureFixture[str], line: list[str]) -> str:
    """Runs a command that must fail with status 2 and one line, and gives that line."""
    assert main(line) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (said,) = captured.err.splitlines()
    assert said.startswith("mucon: ")
    return said


COMMANDS = ["train", "evaluate", "predict", "recipes", "store", "store import", "store inspect", "store verify"]


@pytest.mark.parametrize("command", ["", *COMMANDS, "store synthesize"])
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], command: str):
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: mucon {command}".strip())
    assert len(shown.splitlines()) > 5


@pytest.mark.parametrize("line", [[], ["fly"], ["train"], ["train", "nonsense", "--store", "s", "--out", "o"]])
def test_a_line_that_cannot_be_understood_has_status_2(capsys: pytest.CaptureFixture[str], line: list[str]):
    with pytest.raises(SystemExit) as stopped:
        main(line)
    assert stopped.value.code == 2
    assert "mucon" in capsys.readouterr().err


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


def test_training_without_a_terminal_prints_a_line_per_epoch(store: Path, tmp_path: Path, capsys):
    assert main(train_line(store, tmp_path / "run", epochs=3)) == 0
    captured = capsys.readouterr()
    epochs = [line for line in captured.err.splitlines() if line.startswith("epoch ")]
    assert [line.split()[1] for line in epochs] == ["1/3", "2/3", "3/3"]
    assert all("total" in line for line in epochs)
    assert str(tmp_path / "run" / "checkpoint") in captured.out
    assert f"mucon evaluate {tmp_path / 'run'} --store {store} --split 1" in captured.out


def test_an_evaluation_is_one_line_of_json(store: Path, run: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["evaluate", str(run), "--store", str(store), "--split", "1", "--device", "cpu", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert list(found) == ["frames", "segments", "full", "weights_sha256"]
    assert found["weights_sha256"] == weights_sha256(checkpoints.load(run / "checkpoint").model)
    for prediction in ("frames", "segments", "full"):
        assert {"mof", "matching_score", "edit", "f1_at_10"} <= set(found[prediction])
        fractions = {name: value for name, value in found[prediction].items() if "boundary_error" not in name}
        assert all(0 <= value <= 1 for value in fractions.values())


def test_an_evaluation_is_a_table_for_people(store: Path, run: Path, capsys: pytest.CaptureFixture[str]):
    line = ["evaluate", str(run), "--store", str(store), "--part", "train", "--device", "cpu"]
    assert main(line) == 0
    shown = capsys.readouterr().out
    assert "5 recordings" in shown
    for word in ("frames", "segments", "full", "MoF-BG", "matching", "F1@50", "IoU"):
        assert word in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown


def test_alignment_is_evaluated_with_details_for_people_and_for_programs(store: Path, run: Path, capsys):
    line = ["evaluate", str(run), "--store", str(store), "--device", "cpu", "--task", "alignment"]
    assert main([*line, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert list(plain) == ["frames", "segments", "full", "weights_sha256"]
    assert main([*line, "--json", "--details"]) == 0
    (text,) = capsys.readouterr().out.splitlines()
    found = json.loads(text)
    assert {name: found[name] for name in plain} == plain
    assert set(found) - set(plain) == {"task", "recall", "precision", "confusion", "true_frames"}
    assert found["task"] == "alignment"
    for prediction in ("frames", "segments", "full"):
        assert found[prediction]["matching_score"] == 1.0
        assert 0 < found[prediction]["iod_by_index"] <= 1
        assert set(found["recall"][prediction]) == set(VOCABULARY.actions)
        assert [len(row) for row in found["confusion"][prediction]] == [4] * 4
    assert main([*line, "--details"]) == 0
    shown = capsys.readouterr().out
    for word in ("3 recordings, alignment", "IoD idx", "mean frames", "by index", "full: actions", "recall", "2 stir"):
        assert word in shown
    assert "seconds" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown


def test_boundaries_are_shown_in_seconds_where_the_store_knows_them(run: Path, tmp_path: Path, capsys):
    names = {"vocabulary": VOCABULARY.actions, "background": VOCABULARY.background}
    with StoreWriter(tmp_path / "timed", dim=5, dtype="float32", fps=10.0, **names) as writer:
        for video in small_videos(3):
            writer.add(video.id, video.read(), transcript=video.transcript, lengths=video.lengths, splits=("1:test",))
    line = ["evaluate", str(run), "--store", str(tmp_path / "timed"), "--device", "cpu", "--task", "alignment"]
    assert main([*line, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["full"]
    for name in (
        "boundary_error",
        "boundary_error_median",
        "boundary_error_by_index",
        "boundary_error_by_index_median",
    ):
        assert scores[f"{name}_seconds"] == pytest.approx(scores[f"{name}_frames"] / 10)
    assert main([*line, "--details"]) == 0
    shown = capsys.readouterr().out
    assert "boundary errors, frames and seconds" in shown
    assert "median s" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_with_many_actions_the_table_names_what_each_is_taken_for(capsys: pytest.CaptureFixture[str]):
    names = [f"action {n:02}" for n in range(48)]
    confusion = [[0] * 48 for _ in names]
    for n in range(20):
        confusion[n][n], confusion[n][n + 1], confusion[n][n + 2] = 70, 10, 20
    whole = {"full": dict.fromkeys(names)}
    found = Evaluation(
        task="segmentation", scores={"full": {}}, undefined={"full": {}}, recall=whole, precision=whole,
        confusion={"full": confusion}, true_frames={name: 100 * (n < 20) for n, name in enumerate(names)},
        per_video=[], segmentations={}, seconds={},
    )  # fmt: skip
    Console(width=80).print(action_table(found, "full"))
    rows = [row for row in capsys.readouterr().out.splitlines() if "action " in row and "percent" not in row]
    assert len(rows) == 23  # the heading, and the actions that are true or predicted
    assert rows[3].split() == ["action", "02", "100", "-", "-", "action", "04", "20,", "action", "03", "10"]


def test_recordings_are_segmented_from_their_features_alone(run: Path, tmp_path: Path, capsys):
    paths = []
    for video in small_videos(2):
        paths.append(tmp_path / f"{video.id}.npy")
        np.save(paths[-1], video.read())
    command = ["predict", str(run), *map(str, paths), "--device", "cpu"]
    assert main([*command, "--prediction", "frames", "--json"]) == 0
    for video, line in zip(small_videos(2), capsys.readouterr().out.splitlines(), strict=True):
        found = json.loads(line)
        assert (found["id"], found["n_frames"]) == (video.id, video.n_frames)
        assert sum(segment["frames"] for segment in found["segments"]) == video.n_frames
        assert {segment["action"] for segment in found["segments"]} <= set(VOCABULARY.actions)
    assert main([*command, "--prediction", "frames"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^v00: \d+ frames, \d+ segments", shown, re.MULTILINE)


def test_a_known_transcript_is_aligned_with_each_recording(run: Path, tmp_path: Path, capsys):
    paths = [tmp_path / f"{video.id}.npy" for video in small_videos(2)]
    for path, video in zip(paths, small_videos(2), strict=True):
        np.save(path, video.read())
    line = ["predict", str(run), *map(str, paths), "--device", "cpu", "--transcript", "rest, stir,stir ,drink"]
    for prediction in ("frames", "segments", "full"):
        assert main([*line, "--prediction", prediction, "--json"]) == 0
        for video, text in zip(small_videos(2), capsys.readouterr().out.splitlines(), strict=True):
            found = json.loads(text)
            assert [segment["action"] for segment in found["segments"]] == ["rest", "stir", "stir", "drink"]
            assert sum(segment["frames"] for segment in found["segments"]) == video.n_frames
            assert not found["cut"]


def test_a_transcript_that_is_wrong_is_one_line(run: Path, tmp_path: Path, capsys):
    np.save(tmp_path / "clip.npy", np.zeros((3, 5)))
    line = ["predict", str(run), str(tmp_path / "clip.npy"), "--device", "cpu", "--transcript"]
    assert "'stirr' is not an action of the vocabulary (did you mean 'stir'" in refused(capsys, [*line, "rest,stirr"])
    assert "between commas, not 'rest,,stir': write as" in refused(capsys, [*line, "rest,,stir"])
    assert "between commas, not ''" in refused(capsys, [*line, ""])
    assert "'clip' has 4 segments and 3 frames" in refused(capsys, [*line, "rest,stir,rest,stir"])
    assert "frames, segments, full, not 'y'" in refused(capsys, [*line, "rest,stir", "--prediction", "y"])


def test_all_settings_and_recipes_are_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["recipes"]) == 0
    shown = capsys.readouterr().out
    for word in (*RECIPES, "mask.shape = box", "backbone.pool_after = 1,2,4,8", "training.lr_drop_epoch = none"):
        assert word in shown


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("loss.smooting=1", "'loss.smooting' is not a setting (did you mean 'loss.smoothing'"),
        ("loss.smoothing=much", "loss.smoothing is a finite number, not 'much'"),
        ("training.threads=1.5", "training.threads is a whole number, not '1.5'"),
        ("mask.shape=boxx", "mask.shape is one of box, bell, trapezoid, not 'boxx'"),
        ("mask.overlap=3", "mask.overlap is a share with 0 <= overlap < 1, not 3.0"),
        ("mask.shape", "--set takes PATH=VALUE, not 'mask.shape'"),
    ],
)
def test_a_setting_that_is_wrong_is_one_line(store: Path, tmp_path: Path, capsys, setting: str, said: str):
    assert said in refused(capsys, train_line(store, tmp_path / "run", "--set", setting))
    assert not (tmp_path / "run").exists()


def test_a_missing_store_is_one_line(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]):
    missing = tmp_path / "nowhere"
    assert str(missing) in refused(capsys, train_line(missing, tmp_path / "out"))
    assert str(missing) in refused(capsys, ["evaluate", str(run), "--store", str(missing), "--json"])


def test_a_store_of_another_format_version_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    other = write_store(tmp_path / "store", n_train=1, n_test=1)
    change_manifest(other, lambda value: value.update(format_version=99))
    said = refused(capsys, train_line(other, tmp_path / "run"))
    assert "99" in said
    assert str(other) in said


def test_an_unknown_split_is_one_line(store: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "9" in refused(capsys, train_line(store, tmp_path / "out", "--split", "9"))
    assert "dev" in refused(capsys, ["evaluate", str(run), "--store", str(store), "--part", "dev"])


@pytest.mark.parametrize("device", ["banana", "cuda:99", "meta", "mps"])
def test_a_device_that_is_not_here_is_one_line(store: Path, run: Path, tmp_path: Path, capsys, device: str):
    assert repr(device) in refused(capsys, [*train_line(store, tmp_path / "out"), "--device", device])
    assert repr(device) in refused(capsys, ["evaluate", str(run), "--store", str(store), "--device", device])


def test_a_run_without_a_checkpoint_is_one_line(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    said = refused(capsys, ["evaluate", str(tmp_path / "run"), "--store", str(store)])
    assert f"no checkpoint in {tmp_path / 'run' / 'checkpoint'}" in said


def test_a_damaged_checkpoint_is_one_line(store: Path, run: Path, tmp_path: Path, capsys):
    damaged = tmp_path / "run"
    checkpoints.save(damaged / "checkpoint", checkpoints.load(run / "checkpoint"))
    (damaged / "checkpoint" / "weights.safetensors").write_bytes(b"nonsense")
    assert "weights.safetensors" in refused(capsys, ["evaluate", str(damaged), "--store", str(store)])


def test_the_folder_of_another_run_is_one_line(store: Path, run: Path, capsys: pytest.CaptureFixture[str]):
    assert "mask.shape" in refused(capsys, train_line(store, run, "--set", "mask.shape=bell"))


def test_a_model_on_the_store_of_other_actions_is_refused(run: Path, tmp_path: Path, capsys):
    with StoreWriter(tmp_path / "other", dim=7, dtype="float32", vocabulary=("a", "b")) as writer:
        writer.add("v", np.zeros((4, 7), np.float32), transcript=(0, 1), lengths=(2, 2), splits=("1:test",))
    assert main(["evaluate", str(run), "--store", str(tmp_path / "other")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert ["reads 5 features" in said[0], "model's actions" in said[1], len(said)] == [True, True, 2]


def test_recordings_that_have_only_transcripts_cannot_be_scored(run: Path, tmp_path: Path, capsys):
    names = {"vocabulary": VOCABULARY.actions, "background": VOCABULARY.background}
    with StoreWriter(tmp_path / "other", dim=5, dtype="float32", **names) as writer:
        writer.add("silent", np.zeros((4, 5), np.float32), transcript=(0, 1), lengths=None, splits=("1:test",))
    assert "'silent' has only a transcript" in refused(
        capsys, ["evaluate", str(run), "--store", str(tmp_path / "other")]
    )


WRONG_FEATURES = {
    "NaN": (np.array([[0.0] * 5, [np.nan] * 5]), "'clip' are NaN, infinite or too large in 1 frames (first 1)"),
    "transposed": (np.zeros((5, 9)), "not [5, 9]; it looks transposed"),
    "other width": (np.zeros((9, 4)), "reads features [T, 5], not [9, 4]"),
    "one dimension": (np.zeros(5), "features are an array [T, D]"),
    "no frame": (np.zeros((0, 5)), "with T >= 1"),
    "objects": (np.array([[None] * 5], dtype=object), "is no readable .npy file of numbers"),
    "text": (np.array([["a"] * 5]), "features are an array [T, D] of numbers"),
}


@pytest.mark.parametrize("name", WRONG_FEATURES)
def test_features_that_are_wrong_are_one_line(run: Path, tmp_path: Path, capsys, name: str):
    array, said = WRONG_FEATURES[name]
    np.save(tmp_path / "clip.npy", array, allow_pickle=True)
    assert said in refused(capsys, ["predict", str(run), str(tmp_path / "clip.npy"), "--device", "cpu"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist"),
        (b"", "no readable .npy"),
        (b"\x93NUMPY\x01\x00", "no readable .npy"),
        (b"1,2", "no re"),
    ],
)
def test_a_file_that_is_no_array_is_one_line(run: Path, tmp_path: Path, capsys, content: bytes | None, said: str):
    path = tmp_path / "clip.npy"
    if content is not None:
        path.write_bytes(content)
    line = refused(capsys, ["predict", str(run), str(path), "--device", "cpu"])
    assert said in line
    assert str(path) in line


def test_an_unknown_prediction_is_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    np.save(tmp_path / "clip.npy", np.zeros((9, 5)))
    said = refused(capsys, ["predict", str(run), str(tmp_path / "clip.npy"), "--prediction", "y"])
    assert "frames, segments, full, not 'y'" in said


def test_a_run_that_diverges_is_one_line_and_status_3(store: Path, tmp_path: Path, capsys):
    more = ["--set", "training.learning_rate=1e38", "--set", "training.clip_norm=1e30"]
    assert main(train_line(store, tmp_path / "run", *more, epochs=9)) == 3
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mucon: ")]
    assert len(said) == 1
    assert "diverged in epoch" in said[0]


def test_signal_handlers_are_given_back(store: Path, tmp_path: Path):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert main(train_line(store, tmp_path / "run", epochs=1)) == 0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_control_c_stops_with_a_checkpoint_and_the_same_command_goes_on_to_the_same_bits(store: Path, tmp_path: Path):
    line = [sys.executable, "-m", "mucon", *train_line(store, tmp_path / "run", epochs=25)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not checkpoints.exists(tmp_path / "run" / "checkpoint") and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "stopping after this step with a checkpoint" in said
    assert said.splitlines()[-1].endswith("the same command goes on from there")
    assert not checkpoints.load(tmp_path / "run" / "checkpoint").progress.finished
    assert main(line[3:]) == 0
    assert main(train_line(store, tmp_path / "whole", epochs=25)) == 0
    stopped, whole = (checkpoints.load(tmp_path / name / "checkpoint") for name in ("run", "whole"))
    assert stopped.progress.finished
    assert weights_sha256(stopped.model) == weights_sha256(whole.model)
