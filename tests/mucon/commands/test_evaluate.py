"""`mucon evaluate`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mucon import checkpoint as checkpoints
from mucon.checkpoint import weights_sha256
from mucon.cli import main
from mucon.commands.printing import action_table
from mucon.evaluation import Evaluation
from storage import StoreWriter
from tests.helpers.commands import call, error_line, error_lines
from tests.helpers.factories import VOCABULARY, make_video, small_videos
from tests.helpers.refusals import refused

NAMES = {"vocabulary": VOCABULARY.actions, "background": VOCABULARY.background}


def test_an_evaluation_is_one_line_of_json(store: Path, run: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["evaluate", str(run), "--store", str(store), "--split", "1", "--device", "cpu", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    values = json.loads(line)
    assert list(values) == ["frames", "segments", "full", "weights_sha256"]
    assert values["weights_sha256"] == weights_sha256(checkpoints.load(run / "checkpoint").model)
    for prediction in ("frames", "segments", "full"):
        assert {"mof", "matching_score", "edit", "f1_at_10"} <= set(values[prediction])
        fractions = {name: value for name, value in values[prediction].items() if "boundary_error" not in name}
        assert all(0 <= value <= 1 for value in fractions.values())


def test_an_evaluation_is_a_table_for_people(store: Path, run: Path, capsys: pytest.CaptureFixture[str]):
    line = ["evaluate", str(run), "--store", str(store), "--part", "train", "--device", "cpu"]
    assert main(line) == 0
    text = capsys.readouterr().out
    assert "5 recordings" in text
    for word in ("frames", "segments", "full", "MoF-BG", "Mat Score", "F1@50", "IoU", "segments: log lengths: "):
        assert word in text
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_alignment_is_evaluated_with_details_for_people_and_for_programs(store: Path, run: Path, capsys):
    line = ["evaluate", str(run), "--store", str(store), "--device", "cpu", "--task", "alignment"]
    assert main([*line, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert list(plain) == ["frames", "segments", "full", "weights_sha256"]
    assert main([*line, "--json", "--details"]) == 0
    (text,) = capsys.readouterr().out.splitlines()
    values = json.loads(text)
    assert {name: values[name] for name in plain} == plain
    assert set(values) - set(plain) == {"task", "recall", "precision", "confusion", "true_frames"}
    assert values["task"] == "alignment"
    for prediction in ("frames", "segments", "full"):
        assert values[prediction]["matching_score"] == 1.0
        assert 0 < values[prediction]["iod_by_index"] <= 1
        assert set(values["recall"][prediction]) == set(VOCABULARY.actions)
        assert [len(row) for row in values["confusion"][prediction]] == [4] * 4
    assert main([*line, "--details"]) == 0
    text = capsys.readouterr().out
    for word in ("3 recordings, alignment", "IoD idx", "mean frames", "by index", "full: actions", "recall", "2 stir"):
        assert word in text
    assert "seconds" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_boundaries_are_shown_in_seconds_where_the_store_knows_them(run: Path, tmp_path: Path, capsys):
    with StoreWriter(tmp_path / "timed", dim=5, dtype="float32", fps=10.0, **NAMES) as writer:
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
    text = capsys.readouterr().out
    assert "frames and seconds" in text
    assert "median s" in text
    assert max(map(len, text.splitlines())) <= 80


def test_with_many_actions_the_table_names_the_most_frequent_confusions(capsys: pytest.CaptureFixture[str]):
    names = [f"action {n:02}" for n in range(48)]
    confusion = [[0] * 48 for _ in names]
    for n in range(20):
        confusion[n][n], confusion[n][n + 1], confusion[n][n + 2] = 70, 10, 20
    whole = {"full": dict.fromkeys(names)}
    evaluation = Evaluation(
        task="segmentation", scores={"full": {}}, undefined={"full": {}}, recall=whole, precision=whole,
        confusion={"full": confusion}, true_frames={name: 100 * (n < 20) for n, name in enumerate(names)},
        per_video=[], segmentations={}, seconds={},
    )  # fmt: skip
    Console(width=80).print(action_table(evaluation, "full"))
    rows = [row for row in capsys.readouterr().out.splitlines() if "action " in row and "percent" not in row]
    assert len(rows) == 23  # the heading, and the actions that are true or predicted
    assert rows[3].split() == ["action", "02", "100", "-", "-", "action", "04", "20,", "action", "03", "10"]


def test_the_largest_confusion_matrix_fits_into_80_columns(capsys: pytest.CaptureFixture[str]):
    names = [f"take the {n}th cup out" for n in range(8)]
    shares = {"full": dict.fromkeys(names, 1.0)}
    evaluation = Evaluation(
        task="segmentation", scores={"full": {}}, undefined={"full": {}}, recall=shares, precision=shares,
        confusion={"full": [[1000 * (n == m) for m in range(8)] for n in range(8)]},
        true_frames=dict.fromkeys(names, 1000), per_video=[], segmentations={}, seconds={},
    )  # fmt: skip
    Console(width=80).print(action_table(evaluation, "full"))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    (heading,) = [line for line in lines if "recall" in line]
    assert heading.split() == ["action", "frames", "recall", "precision", *"01234567"]
    (row,) = [line for line in lines if "0th" in line]
    assert row.split()[-11:] == ["1000", "100.0", "100.0", "100", *"0000000"]


@pytest.mark.parametrize(
    ("rule", "setting", "place", "value"),
    [
        ("state", "training.epochs=3", "training.epochs", "3"),
        ("unknown", "decoding.beem=3", "decoding.beem", "decoding.beem"),
        ("unknown", "beam=3", "beam", "beam"),
        ("type", "decoding.beam=many", "decoding.beam", "many"),
    ],
)
def test_only_settings_of_decoding_can_be_changed(store, run, capsys, rule, setting, place, value):
    line = ["evaluate", str(run), "--store", str(store), "--set", setting]
    with refused(rule, place, value, n=1):
        call(line)
    assert error_line(capsys, line).startswith(f"{place}: ")


def test_wrong_and_fixed_settings_are_reported_together(store: Path, run: Path):
    settings = ["decoding.beem=3", "training.epochs=3", "decoding.beam=many", "training.lr=1"]
    with refused("state", "training.epochs", "3", n=4):
        call(["evaluate", str(run), "--store", str(store), *(word for one in settings for word in ("--set", one))])


def test_a_missing_store_is_one_line(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]):
    missing = tmp_path / "nowhere"
    assert str(missing) in error_line(capsys, ["evaluate", str(run), "--store", str(missing), "--json"])


def test_an_unknown_part_is_one_line(store: Path, run: Path, capsys: pytest.CaptureFixture[str]):
    assert "dev" in error_line(capsys, ["evaluate", str(run), "--store", str(store), "--part", "dev"])


@pytest.mark.parametrize("device", ["banana", "cuda:99", "meta", "mps"])
def test_a_device_that_does_not_exist_is_one_line(store: Path, run: Path, capsys, device: str):
    assert repr(device) in error_line(capsys, ["evaluate", str(run), "--store", str(store), "--device", device])


def test_a_run_without_a_checkpoint_is_one_line(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = error_line(capsys, ["evaluate", str(tmp_path / "run"), "--store", str(store)])
    assert str(tmp_path / "run") in text


def test_a_run_its_checkpoint_and_a_trial_are_accepted(store: Path, run: Path, tmp_path: Path):
    (tmp_path / "run").symlink_to(run)  # a trial's folder contains a run
    for path in (run, run / "checkpoint", tmp_path):
        assert main(["evaluate", str(path), "--store", str(store), "--json"]) == 0


def test_what_is_no_run_is_named_with_the_right_advice(store: Path, run: Path, tmp_path: Path):
    (tmp_path / "results" / "trials").mkdir(parents=True)
    (tmp_path / "results" / "trials" / "abc").symlink_to(run)
    advice = {
        run / "checkpoint" / "config.json": str(run / "checkpoint"),
        run / "history.jsonl": f"pass {run}",
        store: f"--store {store}",
        tmp_path / "results": f"{tmp_path / 'results' / 'trials'}/ID",
        tmp_path / "results" / "trials": str(tmp_path / "results" / "trials" / "abc"),
        tmp_path / "nowhere": "mucon train",
    }
    for path, words in advice.items():
        for line in (["evaluate", str(path), "--store", str(store)], ["predict", str(path), "x.npy"]):
            with refused("missing", str(path), str(path), n=1) as refusal:
                call(line)
            assert words in refusal.problems[0].hint


def test_a_store_of_many_other_actions_is_one_short_line(run: Path, tmp_path: Path, capsys):
    names = tuple(f"action_{i}" for i in range(500))
    with StoreWriter(tmp_path / "other", dim=5, dtype="float32", vocabulary=names) as writer:
        writer.add("v", np.zeros((4, 5), np.float32), transcript=(0, 1), lengths=(2, 2), splits=("1:test",))
    assert len(error_line(capsys, ["evaluate", str(run), "--store", str(tmp_path / "other")])) < 250


def test_a_damaged_checkpoint_is_one_line(store: Path, run: Path, tmp_path: Path, capsys):
    damaged = tmp_path / "run"
    checkpoints.save(damaged / "checkpoint", checkpoints.load(run / "checkpoint"))
    (damaged / "checkpoint" / "weights.safetensors").write_bytes(b"nonsense")
    assert "weights.safetensors" in error_line(capsys, ["evaluate", str(damaged), "--store", str(store)])


def test_a_model_on_the_store_of_other_actions_is_refused(run: Path, tmp_path: Path, capsys):
    with StoreWriter(tmp_path / "other", dim=7, dtype="float32", vocabulary=("a", "b")) as writer:
        writer.add("v", np.zeros((4, 7), np.float32), transcript=(0, 1), lengths=(2, 2), splits=("1:test",))
    features, actions = error_lines(capsys, ["evaluate", str(run), "--store", str(tmp_path / "other")])
    assert ["5" in features, "7" in features, "actions" in actions] == [True] * 3


def test_recordings_that_have_only_transcripts_are_scored_by_them(run: Path, tmp_path: Path, capsys):
    with StoreWriter(tmp_path / "other", dim=5, dtype="float32", **NAMES) as writer:
        for video in small_videos(3):
            writer.add(video.id, video.read(), transcript=video.transcript, lengths=None, splits=("1:test",))
    line = ["evaluate", str(run), "--store", str(tmp_path / "other"), "--device", "cpu"]
    assert main([*line, "--details", "--figure", str(tmp_path / "bars.png")]) == 0
    text = capsys.readouterr().out
    assert (tmp_path / "bars.png").exists()
    assert "full: recordings that are undefined and excluded from the mean: 3 for MoF, MoF-BG, F1@10" in text
    assert "recordings without true lengths: 3, of which without transcript: 0" in text
    assert main([*line, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    for name in ("frames", "segments", "full"):
        assert set(values[name]) <= {"matching_score", "edit", "edit_without_background"}
        assert values[name]["matching_score"] >= 0.0
        assert values["undefined"][name]["mof"] == 3


def test_a_recording_that_cannot_be_decoded_is_reported_and_the_others_are_scored(run: Path, tmp_path: Path, capsys):
    with StoreWriter(tmp_path / "other", dim=5, dtype="float32", **NAMES) as writer:
        for video in (*small_videos(2), make_video("awkward", (1, 2), (300, 300))):
            writer.add(video.id, video.read(), transcript=video.transcript, lengths=video.lengths, splits=("1:test",))
    line = ["evaluate", str(run), "--store", str(tmp_path / "other"), "--device", "cpu", "--task", "alignment"]
    line += ["--set", "decoding.max_length=200"]
    assert main([*line, "--figure", str(tmp_path / "bars.png"), "--recordings", "awkward"]) == 0
    text = capsys.readouterr().out
    assert "full: recordings without this prediction: 1, first 'awkward': max_length: " in text
    assert (tmp_path / "bars.png").exists()
    assert main([*line, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["undefined"]["full"]["mof"] == 1
    assert list(values["not_predicted"]["full"]) == ["awkward"]
    assert values["not_predicted"]["frames"] == {}


def test_a_run_whose_training_has_not_finished_is_scored_with_a_warning(
    store: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = checkpoints.load(run / "checkpoint")
    unfinished = dataclasses.replace(trained, progress=checkpoints.Progress(epoch=1))
    checkpoints.save(tmp_path / "run" / "checkpoint", unfinished)
    assert main(["evaluate", str(tmp_path / "run"), "--store", str(store), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(f"warning: {tmp_path / 'run'}: ")
    assert json.loads(captured.out)["full"]
    assert main(["evaluate", str(run), "--store", str(store), "--json"]) == 0
    assert not capsys.readouterr().err
