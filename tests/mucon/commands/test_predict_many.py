"""`mucon predict` on many recordings: broken files, resuming, standard input, figures, formats with seconds."""

from __future__ import annotations

import io
import json
import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mucon.cli import main
from mucon.commands.recordings import recordings_of_files
from mucon.outputs import batch
from mucon.outputs.files import RECORD
from tests.helpers.commands import call
from tests.helpers.factories import VOCABULARY, small_videos
from tests.helpers.refusals import refused

FEATURES = small_videos(4)[1].read()
BROKEN = {
    "width": np.zeros((9, 4)),
    "transposed": FEATURES.T,
    "nan": np.full((3, 5), np.nan),
    "infinite": np.full((3, 5), np.inf),
    "flat": np.zeros(5),
    "empty": np.zeros((0, 5)),
    "text": np.array([["a"] * 5]),
    "complex": np.zeros((3, 5), complex),
}


def write_many(folder: Path, n: int) -> list[str]:
    """`n` readable files of one recording and ten broken ones; returns the names of the latter."""
    folder.mkdir()
    for i in range(n):
        np.save(folder / f"r{i:04}.npy", FEATURES[: 4 + i % 5])
    for name, array in BROKEN.items():
        np.save(folder / f"broken_{name}.npy", array)
    (folder / "broken_short.npy").write_bytes((folder / "r0000.npy").read_bytes()[:-9])
    (folder / "broken_nothing.npy").touch()
    return sorted(path.name for path in folder.glob("broken_*"))


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The recordings that reach the network from now on."""
    seen: list[str] = []
    predicted = batch.predicted

    def spying(predictor, contract, video, request):
        found = predicted(predictor, contract, video, request)
        seen.append(video.id)
        return found

    monkeypatch.setattr(batch, "predicted", spying)
    return seen


def test_a_folder_of_1000_with_10_broken_files_and_nothing_repeated(
    run: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
):
    broken = write_many(tmp_path / "features", 990)
    line = ["predict", str(run), str(tmp_path / "features"), "--out", str(tmp_path / "out"), "--device", "cpu"]
    line += ["--prediction", "frames", "--format", "csv"]
    assert main(line) == 3
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 990
    errors = [text for text in captured.err.splitlines() if text.startswith("error: ")]
    assert [text.split(": ")[1] for text in errors] == [str(tmp_path / "features" / name) for name in broken]
    files = sorted((tmp_path / "out").glob("*.csv"))
    assert len(files) == 990
    before = {path: path.stat().st_mtime_ns for path in files}

    seen = counting(monkeypatch)
    assert main(line) == 3
    captured = capsys.readouterr()
    assert seen == []
    assert len(captured.out.splitlines()) == 990
    assert len([text for text in captured.err.splitlines() if text.startswith("error: ")]) == 10
    assert {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "out").glob("*.csv"))} == before


@pytest.fixture
def line(run: Path, tmp_path: Path) -> list[str]:
    """A command that has written `a.txt` and `b.txt`."""
    (tmp_path / "in").mkdir()
    for i, name in enumerate("ab"):
        np.save(tmp_path / "in" / f"{name}.npy", FEATURES[: 5 + i])
    command = ["predict", str(run), str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert main(command) == 0
    return command


def test_only_what_is_missing_is_predicted(line: list[str], tmp_path: Path, capsys, monkeypatch):
    seen = counting(monkeypatch)
    (tmp_path / "out" / "a.txt").unlink()
    np.save(tmp_path / "in" / "c.npy", FEATURES)
    capsys.readouterr()
    assert main([*line, "--json"]) == 0
    rows = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert sorted(Path(place).name for place in seen) == ["a.npy", "c.npy"]
    assert [(one["id"], one.get("skipped", False)) for one in rows] == [("b", True), ("a", False), ("c", False)]


def test_the_same_features_in_another_file_are_recognised(line: list[str], tmp_path: Path, monkeypatch):
    seen = counting(monkeypatch)
    shutil.copy(tmp_path / "in" / "a.npy", tmp_path / "copy.npy")
    (tmp_path / "copy.npy").replace(tmp_path / "in" / "a.npy")
    assert main(line) == 0
    assert seen == []


def change_features(folder: Path) -> list[str]:
    np.save(folder / "in" / "a.npy", 0.5 * FEATURES[:5])
    return []


def change_output(folder: Path) -> list[str]:
    (folder / "out" / "a.txt").write_text("rest\n")
    return []


def lose_record(folder: Path) -> list[str]:
    text = (folder / "out" / RECORD).read_text()
    (folder / "out" / RECORD).write_text("".join(part for part in text.splitlines(True) if '"a.txt"' not in part))
    return []


@pytest.mark.parametrize(
    ("change", "n"),
    [
        (change_features, 1),
        (change_output, 1),
        (lose_record, 1),
        (lambda _: ["--prediction", "frames"], 2),
        (lambda _: ["--set", "decoding.max_length=4"], 2),
        (lambda _: ["--transcript", "rest,stir"], 2),
    ],
    ids=["other features", "edited file", "file of another program", "prediction", "decoding", "transcript"],
)
def test_files_of_another_prediction_are_kept_unless_replaced(
    line: list[str], tmp_path: Path, monkeypatch, change, n: int
):
    words = change(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with refused("exists", "--out", n, n=1):
        call([*line, *words])
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    seen = counting(monkeypatch)
    assert main([*line, *words, "--replace"]) == 0
    assert len(seen) == 2
    assert main([*line, *words]) == 0


def test_an_unfinished_line_of_the_record_is_ignored_and_closed(line: list[str], tmp_path: Path):
    record = tmp_path / "out" / RECORD
    with record.open("a") as file:
        file.write('{"file": "c.t')
    np.save(tmp_path / "in" / "c.npy", FEATURES)
    assert main(line) == 0
    assert next(text for text in record.read_text().splitlines() if '"file": "c.txt"' in text).startswith(
        '{"file": "c.txt"'
    )
    assert main(line) == 0


def test_a_file_that_another_process_writes_meanwhile_is_kept(
    run: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
):
    np.save(tmp_path / "a.npy", FEATURES)
    predicted = batch.predicted

    def interfering(*arguments):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "a.txt").write_text("theirs\n")
        return predicted(*arguments)

    monkeypatch.setattr(batch, "predicted", interfering)
    with refused("exists", str(tmp_path / "out" / "a.txt"), n=1):
        call(["predict", str(run), str(tmp_path / "a.npy"), "--out", str(tmp_path / "out"), "--device", "cpu"])
    assert (tmp_path / "out" / "a.txt").read_text() == "theirs\n"


def give(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))


@pytest.mark.parametrize("separator", [b"\n", b"\r\n", b"\0"])
def test_standard_input_is_a_list_of_paths(run: Path, tmp_path: Path, capsys, monkeypatch, separator: bytes):
    paths = []
    for name in ("a", "with blank", "ö"):
        np.save(tmp_path / f"{name}.npy", FEATURES)
        paths.append(os.fsencode(tmp_path / f"{name}.npy"))
    give(monkeypatch, separator.join([*paths, b""]))
    assert main(["predict", str(run), "-", "--device", "cpu", "--json"]) == 0
    ids = [json.loads(text)["id"] for text in capsys.readouterr().out.splitlines()]
    assert ids == ["a", "with blank", "ö"]


def test_standard_input_is_an_array(run: Path, tmp_path: Path, capsys, monkeypatch):
    stream = io.BytesIO()
    np.save(stream, FEATURES)
    for _ in range(2):  # the second time nothing is repeated
        give(monkeypatch, stream.getvalue())
        assert main(["predict", str(run), "-", "--device", "cpu", "--out", str(tmp_path / "out")]) == 0
    assert len((tmp_path / "out" / "stdin.txt").read_text().splitlines()) == len(FEATURES)
    assert "already" in capsys.readouterr().out
    give(monkeypatch, stream.getvalue()[:-4])
    with refused("unreadable", "standard input", n=1):
        call(["predict", str(run), "-", "--device", "cpu"])
    give(monkeypatch, b"\n")
    with refused("missing", "standard input", n=1):
        call(["predict", str(run), "-", "--device", "cpu"])


def test_standard_input_of_another_kind_is_one_problem(monkeypatch):
    stream = io.BytesIO()
    np.savez(stream, x=FEATURES)
    for content in (stream.getvalue(), b"\x89HDF\r\n\x1a\n", b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM"):
        give(monkeypatch, content)
        with refused("type", "standard input", n=1):
            recordings_of_files([Path("-")])


def test_hidden_files_of_a_folder_are_left_out_and_links_are_followed(tmp_path: Path):
    for name in ("a.npy", "._a.npy", ".copies/a.npy", "sub/.hidden/a.npy", "sub/b.npy"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        np.save(tmp_path / name, FEATURES)
    np.save(tmp_path / ".copies" / "c.npy", FEATURES)
    (tmp_path / "sub" / "linked").symlink_to(tmp_path / ".copies")
    (tmp_path / "sub" / "back").symlink_to(tmp_path)
    found = [Path(one.place).relative_to(tmp_path) for one in recordings_of_files([tmp_path])]
    assert list(map(str, found)) == ["a.npy", "sub/b.npy", "sub/linked/a.npy", "sub/linked/c.npy"]
    assert [one.id for one in recordings_of_files([tmp_path / ".copies" / "a.npy"])] == ["a"]


def test_timelines_and_a_figure_are_drawn(line: list[str], tmp_path: Path, capsys):
    figure = tmp_path / "some.svg"
    assert main([*line, "--plot", "png", "--alternatives", "2", "--replace", "--figure", str(figure)]) == 0
    assert (tmp_path / "out" / "a.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in figure.read_bytes()
    figure.unlink()
    capsys.readouterr()
    again = [*line, "--plot", "png", "--alternatives", "2", "--figure", str(figure), "--recordings", "b"]
    assert main(again) == 0
    assert b"<svg" in figure.read_bytes()
    assert "a: already" in capsys.readouterr().out
    with refused("unknown", "--recordings", "x", n=1):
        call([*again[:-1], "x"])


def test_seconds_are_written_where_the_frame_rate_is_known(line: list[str], tmp_path: Path):
    timed = [*line[:-3], str(tmp_path / "timed"), *line[-2:], "--format", "vtt"]
    with refused("missing", "--fps", "vtt", n=1):
        call(timed)
    assert main([*timed, "--fps", "12.5"]) == 0
    assert (tmp_path / "timed" / "a.vtt").read_text().startswith("WEBVTT\n")


def test_alternatives_are_printed_with_their_scores(run: Path, tmp_path: Path, capsys):
    np.save(tmp_path / "a.npy", FEATURES)
    words = ["predict", str(run), str(tmp_path / "a.npy"), "--device", "cpu"]
    assert main([*words, "--alternatives", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < len(found["alternatives"]) <= 3
    assert {one["action"] for other in found["alternatives"] for one in other["segments"]} <= set(VOCABULARY.actions)
    with refused("unsupported", "alternatives", 3, n=1):
        call([*words, "--alternatives", "3", "--prediction", "frames"])
    with refused("conflict", "--alternatives", 3, n=1):
        call([*words, "--alternatives", "3", "--transcript", "rest"])


def test_features_unlike_those_of_training_are_named_and_predicted(run: Path, tmp_path: Path, capsys):
    np.save(tmp_path / "far.npy", 1000 * FEATURES)
    assert main(["predict", str(run), str(tmp_path / "far.npy"), "--device", "cpu", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(f"warning: {tmp_path / 'far.npy'}: features: ")
    assert json.loads(captured.out)["id"] == "far"


def test_a_named_pipe_and_long_numbers_are_read(run: Path, tmp_path: Path, capsys):
    os.mkfifo(tmp_path / "pipe.npy")
    stream = io.BytesIO()
    np.save(stream, FEATURES.astype(np.longdouble))
    writer = threading.Thread(target=(tmp_path / "pipe.npy").write_bytes, args=(stream.getvalue(),))
    writer.start()
    assert main(["predict", str(run), str(tmp_path / "pipe.npy"), "--device", "cpu", "--json"]) == 0
    writer.join()
    assert json.loads(capsys.readouterr().out)["n_frames"] == len(FEATURES)


def test_a_command_that_only_prints_ends_when_nobody_reads_it(run: Path, tmp_path: Path, monkeypatch):
    for i in range(30):
        np.save(tmp_path / f"{i:02}.npy", FEATURES)
    seen = counting(monkeypatch)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert main(["predict", str(run), str(tmp_path), "--device", "cpu", "--jobs", "1"]) == 0
    assert len(seen) == 1


def test_a_link_to_nothing_is_named(run: Path, tmp_path: Path, capsys):
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", FEATURES)
    (tmp_path / "in" / "lost.npy").symlink_to("nowhere.npy")
    assert main(["predict", str(run), str(tmp_path / "in"), "--device", "cpu"]) == 3
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'in' / 'lost.npy'}: ")


def test_files_of_other_kinds_are_predicted_like_npy(run: Path, tmp_path: Path, capsys) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    np.save(folder / "a.npy", FEATURES)
    np.savez(folder / "b.npz", rgb=FEATURES, flow=FEATURES[:2])
    torch.save(torch.from_numpy(np.array(FEATURES)), folder / "c.pt")
    np.savetxt(folder / "d.csv", FEATURES, fmt="%.9g", delimiter=",")
    np.savez(folder / "e.npz", flow=FEATURES)
    (folder / "f.pkl").touch()
    words = ["predict", str(run), str(folder), str(folder / "d.csv"), "--key", "rgb", "--device", "cpu", "--json"]
    assert main(words) == 3
    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.out.splitlines()]
    assert [one.pop("id") for one in found] == ["a", "b", "c", "d"]
    assert found == [found[0]] * 4
    assert captured.err.startswith(f"error: {folder / 'e.npz'}: ")


@pytest.mark.parametrize(
    ("words", "place"), [(["a.npy", "--key", "x"], "--key"), (["--store", "s", "--key", "x"], "--key")]
)
def test_a_key_for_recordings_without_names_is_refused(run: Path, tmp_path: Path, monkeypatch, words, place) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", FEATURES)
    with refused("conflict", place, "x", n=1):
        call(["predict", str(run), *words, "--device", "cpu"])


def test_a_pickle_is_refused_by_name(run: Path, tmp_path: Path) -> None:
    (tmp_path / "a.pkl").touch()
    with refused("type", "a.pkl", ".pkl"):
        call(["predict", str(run), str(tmp_path / "a.pkl"), "--device", "cpu"])
