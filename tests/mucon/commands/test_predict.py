"""`mucon predict`."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mucon import library
from mucon.cli import main
from mucon.commands.recordings import distinct_ids
from mucon.outputs import files
from mucon.outputs.files import OutputFolder
from tests.helpers.commands import call, error_line
from tests.helpers.factories import VOCABULARY, network_output, small_videos
from tests.helpers.refusals import refused


def write_features(folder: Path) -> list[str]:
    """The features of two recordings as files."""
    paths = []
    for video in small_videos(2):
        paths.append(str(folder / f"{video.id}.npy"))
        np.save(paths[-1], video.read())
    return paths


def test_recordings_are_segmented_from_their_features_alone(run: Path, tmp_path: Path, capsys):
    command = ["predict", str(run), *write_features(tmp_path), "--device", "cpu"]
    assert main([*command, "--prediction", "frames", "--json"]) == 0
    for video, line in zip(small_videos(2), capsys.readouterr().out.splitlines(), strict=True):
        values = json.loads(line)
        assert (values["id"], values["n_frames"]) == (video.id, video.n_frames)
        assert sum(segment["frames"] for segment in values["segments"]) == video.n_frames
        assert {segment["action"] for segment in values["segments"]} <= set(VOCABULARY.actions)
    assert main([*command, "--prediction", "frames"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^v00: \d+ frames, \d+ segments", text, re.MULTILINE)


def test_a_known_transcript_is_aligned_with_each_recording(run: Path, tmp_path: Path, capsys):
    paths = write_features(tmp_path)
    line = ["predict", str(run), *paths, "--device", "cpu", "--transcript", "rest, stir,stir ,drink"]
    for prediction in ("frames", "segments", "full"):
        assert main([*line, "--prediction", prediction, "--json"]) == 0
        for video, text in zip(small_videos(2), capsys.readouterr().out.splitlines(), strict=True):
            values = json.loads(text)
            assert [segment["action"] for segment in values["segments"]] == ["rest", "stir", "stir", "drink"]
            assert sum(segment["frames"] for segment in values["segments"]) == video.n_frames
            assert not values["cut"]


def test_a_recording_that_cannot_be_decoded_is_reported_and_the_others_are_predicted(run: Path, tmp_path: Path, capsys):
    first, second = write_features(tmp_path)
    np.save(tmp_path / "awkward.npy", np.zeros((300, 5), np.float32))
    paths = [first, str(tmp_path / "awkward.npy"), second]
    line = ["predict", str(run), *paths, "--device", "cpu", "--json", "--transcript", "rest,stir"]
    assert main([*line, "--set", "decoding.max_length=60"]) == 3
    captured = capsys.readouterr()
    assert [json.loads(text)["id"] for text in captured.out.splitlines()] == ["v00", "v01"]
    assert captured.err.startswith(f"error: {tmp_path / 'awkward.npy'}: max_length: ")
    assert len(captured.err.splitlines()) == 1
    assert main([*line, "--set", "decoding.max_length=60", "--prediction", "frames"]) == 0


def test_a_recording_that_is_too_short_for_the_transcript_is_reported_and_the_others_are_aligned(
    run: Path, tmp_path: Path, capsys
):
    np.save(tmp_path / "short.npy", np.zeros((1, 5), np.float32))
    paths = [str(tmp_path / "short.npy"), *write_features(tmp_path)]
    line = ["predict", str(run), *paths, "--device", "cpu", "--json", "--transcript", "rest,stir"]
    assert main(line) == 3
    captured = capsys.readouterr()
    assert [json.loads(text)["id"] for text in captured.out.splitlines()] == ["v00", "v01"]
    assert captured.err.startswith(f"error: {tmp_path / 'short.npy'}: transcript: ")
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("transcript", ["rest,,stir", "", ","])
def test_a_transcript_with_an_empty_name_is_one_line(run: Path, tmp_path: Path, capsys, transcript: str):
    line = ["predict", str(run), str(tmp_path / "clip.npy"), "--device", "cpu", "--transcript", transcript]
    with refused("type", "--transcript", transcript, n=1):
        call(line)
    assert repr(transcript) in error_line(capsys, line)


def test_a_transcript_that_does_not_fit_is_one_line(run: Path, tmp_path: Path, capsys):
    np.save(tmp_path / "clip.npy", np.zeros((3, 5)))
    line = ["predict", str(run), str(tmp_path / "clip.npy"), "--device", "cpu", "--transcript"]
    unknown = error_line(capsys, [*line, "rest,stirr"])
    assert "'stirr'" in unknown
    assert "'stir'" in unknown
    long = error_line(capsys, [*line, "rest,stir,rest,stir"])
    assert ["clip" in long, "4" in long, "3" in long] == [True] * 3


WRONG_FEATURES = {
    "NaN": (np.array([[0.0] * 5, [np.nan] * 5]), "NaN"),
    "transposed": (np.zeros((5, 9)), "5, 9"),
    "other width": (np.zeros((9, 4)), "9, 4"),
    "one dimension": (np.zeros(5), "[T, D]"),
    "no frame": (np.zeros((0, 5)), "0, 5"),
    "text": (np.array([["a"] * 5]), "<U1"),
}


@pytest.mark.parametrize("name", WRONG_FEATURES)
def test_features_that_are_wrong_are_one_line(run: Path, tmp_path: Path, capsys, name: str):
    array, word = WRONG_FEATURES[name]
    np.save(tmp_path / "clip.npy", array)
    text = error_line(capsys, ["predict", str(run), str(tmp_path / "clip.npy"), "--device", "cpu"])
    assert word in text


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"1,2", "objects"])
def test_a_file_that_is_no_array_of_numbers_is_one_line(run: Path, tmp_path: Path, capsys, content: bytes | str):
    path = tmp_path / "clip.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, np.array([[None] * 5], dtype=object), allow_pickle=True)
    line = ["predict", str(run), str(path), "--device", "cpu"]
    with refused("unreadable", str(path), n=1):
        call(line)
    assert error_line(capsys, line).startswith(f"{path}: ")


def test_a_missing_file_is_one_line(run: Path, tmp_path: Path, capsys):
    line = ["predict", str(run), str(tmp_path / "clip.npy"), "--device", "cpu"]
    with refused("missing", str(tmp_path / "clip.npy"), n=1):
        call(line)
    assert error_line(capsys, line).startswith(f"{tmp_path / 'clip.npy'}: ")


def predicted(capsys: pytest.CaptureFixture[str], line: list[str], status: int = 0) -> list[dict[str, Any]]:
    """The JSON lines of a command."""
    capsys.readouterr()
    assert main([*line, "--device", "cpu", "--json"]) == status
    return [json.loads(text) for text in capsys.readouterr().out.splitlines()]


def test_files_of_the_same_name_have_distinct_ids(run: Path, tmp_path: Path, capsys):
    for folder in ("1/x", "2/x", "2/y"):
        (tmp_path / folder).mkdir(parents=True)
        np.save(tmp_path / folder / "a.npy", small_videos(1)[0].read())
    np.save(tmp_path / "2" / "y" / "b.npy", small_videos(1)[0].read())
    paths = [str(path) for path in sorted(tmp_path.rglob("*.npy"))]
    ids = ["1/x/a", "2/x/a", "y/a", "b"]
    assert [one["id"] for one in predicted(capsys, ["predict", str(run), *paths])] == ids
    assert [one["id"] for one in predicted(capsys, ["predict", str(run), str(tmp_path)])] == ids
    assert [one["id"] for one in predicted(capsys, ["predict", str(run), f"{tmp_path}/*/y/[ab].npy"])] == ["a", "b"]
    twice = ["predict", str(run), paths[0], str(tmp_path / "1"), paths[0]]
    assert [one["id"] for one in predicted(capsys, twice)] == ["a"]


def test_files_that_differ_by_their_suffix_alone_have_distinct_ids():
    assert list(distinct_ids([Path("x/a.npy"), Path("x/a.bin"), Path("x/b.npy")]))[2:] == ["b"]
    assert len(distinct_ids([Path("x/a.npy"), Path("x/a.bin"), Path("y/a.npy")])) == 3


def test_a_folder_or_a_pattern_without_files_is_one_line(run: Path, tmp_path: Path):
    for path in (tmp_path, tmp_path / "*.npy", tmp_path / ("x" * 300 + "*.npy")):
        with refused("missing", str(path), n=1):
            call(["predict", str(run), str(path)])


def test_a_recording_is_read_after_the_one_before_is_printed(run: Path, tmp_path: Path, capsys, monkeypatch):
    paths = write_features(tmp_path)
    read, printed = library.read_features, []

    def reading(path: Path, key: str | None):
        printed.append(capsys.readouterr().out.count("\n"))
        return read(path, key)

    monkeypatch.setattr(library, "read_features", reading)
    assert main(["predict", str(run), *paths, "--device", "cpu", "--json", "--jobs", "1"]) == 0
    assert printed == [0, 1]


def test_a_wrong_file_is_named_and_does_not_stop_the_others(run: Path, tmp_path: Path, capsys):
    paths = write_features(tmp_path)
    np.save(tmp_path / "wide.npy", np.zeros((9, 7)))
    (tmp_path / "empty.npy").touch()
    wrong = [str(tmp_path / name) for name in ("wide.npy", "empty.npy", "missing.npy")]
    line = ["predict", str(run), wrong[0], paths[0], *wrong[1:], paths[1], "--device", "cpu", "--json"]
    assert main(line) == 3
    captured = capsys.readouterr()
    assert [json.loads(text)["id"] for text in captured.out.splitlines()] == ["v00", "v01"]
    errors = captured.err.splitlines()
    assert [text.split(": ")[:2] for text in errors] == [["error", path] for path in wrong]
    assert "[9, 7]" in errors[0]
    assert "[T, 5]" in errors[0]


def test_predictions_are_written_as_files_of_other_programs(run: Path, tmp_path: Path, capsys):
    line = ["predict", str(run), *write_features(tmp_path), "--prediction", "frames", "--fps", "10"]
    first, second = predicted(capsys, [*line, "--out", str(tmp_path / "txt")])
    labels = (tmp_path / "txt" / "v00.txt").read_text().splitlines()
    assert labels == [one["action"] for one in first["segments"] for _ in range(one["frames"])]
    assert len(labels) == first["n_frames"]
    predicted(capsys, [*line, "--out", str(tmp_path / "csv"), "--format", "csv"])
    with (tmp_path / "csv" / "v01.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{name: str(value) for name, value in one.items()} for one in second["segments"]]
    assert [(float(row["start_s"]), float(row["stop_s"])) for row in rows] == [
        (int(row["start"]) / 10, int(row["stop"]) / 10) for row in rows
    ]
    predicted(capsys, [*line, "--out", str(tmp_path / "json"), "--format", "json"])
    assert json.loads((tmp_path / "json" / "v01.json").read_text()) == second
    assert sorted(path.name for path in (tmp_path / "json").glob("*.json")) == ["v00.json", "v01.json"]
    assert main([*line, "--out", str(tmp_path / "txt"), "--replace", "--device", "cpu"]) == 0
    assert [text.split(" -> ")[1] for text in capsys.readouterr().out.splitlines()] == [
        str(tmp_path / "txt" / f"{id}.txt") for id in ("v00", "v01")
    ]


def test_files_have_the_frames_per_second_of_the_training_data(store: Path, run: Path, tmp_path: Path, capsys):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    record = copy / "checkpoint" / "contract.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "fps": 20.0}))
    (path, *_) = write_features(tmp_path)
    for words, fps in (([], 20.0), (["--fps", "5"], 5.0)):
        (found,) = predicted(capsys, ["predict", str(copy), path, *words])
        assert [one["start_s"] for one in found["segments"]] == [one["start"] / fps for one in found["segments"]]


def test_existing_files_such_as_annotations_are_not_overwritten(run: Path, tmp_path: Path):
    paths = write_features(tmp_path)
    (tmp_path / "v01.txt").write_text("rest\n")
    with refused("exists", "--out", 1, n=1):
        call(["predict", str(run), *paths, "--out", str(tmp_path), "--device", "cpu"])
    assert (tmp_path / "v01.txt").read_text() == "rest\n"
    assert not (tmp_path / "v00.txt").exists()


def test_the_confidence_of_a_segment_is_the_mean_probability_of_its_action(run: Path, tmp_path: Path, capsys):
    paths = write_features(tmp_path)
    model = library.load(run, "cpu")
    for one, path in zip(predicted(capsys, ["predict", str(run), *paths, "--confidence"]), paths, strict=True):
        log_probs, _ = network_output(model.predictor.checkpoint.model, torch.from_numpy(np.load(path)))
        probabilities = log_probs.exp().detach().numpy()
        for segment in one["segments"]:
            part = probabilities[segment["start"] : segment["stop"], VOCABULARY.actions.index(segment["action"])]
            assert segment["confidence"] == pytest.approx(float(part.mean()), abs=1e-6)
        frames = predicted(capsys, ["predict", str(run), path, "--confidence", "--prediction", "frames"])[0]
        assert all(segment["confidence"] > 0.25 for segment in frames["segments"])  # the likeliest of four actions


def test_the_recordings_of_a_store_are_predicted(store: Path, run: Path, capsys):
    test = predicted(capsys, ["predict", str(run), "--store", str(store)])
    assert [one["id"] for one in test] == [video.id for video in small_videos(8)[5:]]
    train = predicted(capsys, ["predict", str(run), "--store", str(store), "--split", "1", "--part", "train"])
    assert [one["id"] for one in train] == [video.id for video in small_videos(5)]


def test_files_may_follow_options_as_well_as_precede_them(run: Path, tmp_path: Path, capsys):
    paths = write_features(tmp_path)
    for line in ([str(run), "--prediction", "frames", *paths], ["--prediction", "frames", str(run), *paths]):
        assert [one["id"] for one in predicted(capsys, ["predict", *line])] == ["v00", "v01"]


WRONG_OPTIONS = {
    "nothing to predict": ([], "missing", "FEATURES"),
    "a store in place of files": (["s3://lab/tug"], "type", "FEATURES"),
    "two sources": (["x.npy", "--store", "s"], "conflict", "FEATURES"),
    "a part of no store": (["x.npy", "--part", "test"], "missing", "--part"),
    "a format of no file": (["x.npy", "--format", "csv"], "missing", "--format"),
    "a replacement of no file": (["x.npy", "--replace"], "missing", "--replace"),
    "no time": (["x.npy", "--fps", "0"], "range", "--fps"),
}


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_options_that_do_not_fit_together_are_refused(run: Path, name: str):
    words, rule, place = WRONG_OPTIONS[name]
    with refused(rule, place, n=1):
        call(["predict", str(run), *words])


def test_predictions_are_not_written_into_a_store_or_a_file(store: Path, run: Path, tmp_path: Path):
    (tmp_path / "file").touch()
    for rule, out in (("conflict", store / "out"), ("exists", tmp_path / "file")):
        with refused(rule, "--out", str(out), n=1):
            call(["predict", str(run), "x.npy", "--out", str(out)])


def test_an_id_that_leads_out_of_the_folder_is_refused(tmp_path: Path):
    with refused("unwritable", "../x", n=1):
        OutputFolder(tmp_path / "out", "").write("../x.txt", b"rest", stamp="", features="")
    assert not list(tmp_path.rglob("*.txt"))


def test_a_container_does_not_write_into_the_unfinished_file_of_another_one(tmp_path: Path, monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(files, "machine", lambda: "namespace of another container")
        theirs = [files.unfinished(tmp_path, process) for process in (os.getpid(), 2**22 + 1)]
    for path in theirs:
        path.touch()
    OutputFolder(tmp_path, "").write("x.txt", b"x", stamp="", features="")
    assert [path.stat().st_size for path in theirs] == [0, 0]
