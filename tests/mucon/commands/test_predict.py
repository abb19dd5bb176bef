"""`mucon predict`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from mucon.cli import main
from tests.helpers.commands import call, error_line
from tests.helpers.factories import VOCABULARY, small_videos
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
    assert captured.err.startswith("error: awkward: max_length: ")
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
    assert captured.err.startswith("error: short: transcript: ")
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
