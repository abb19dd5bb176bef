import argparse
import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from storage import open_store
from storage.cli import add_store_commands, main
from storage.layouts.table import LAYOUTS
from tests.storage.helpers import DataSet, change_manifest, flip

ROOT = Path(__file__).parents[2]


@pytest.fixture
def source(tmp_path):
    return DataSet.example().write(tmp_path / "src")


@pytest.fixture
def store(source, tmp_path, capsys):
    assert main(["import", str(source), str(tmp_path / "store"), "--background", "SIL", "--fps", "10"]) == 0
    capsys.readouterr()
    return tmp_path / "store"


def refused(arguments, capsys) -> list[str]:
    """The problems on standard error of a command that fails with exit status 2, without their common prefix."""
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    lines = err.splitlines()
    assert all(line.startswith("error: ") for line in lines)
    return [line.removeprefix("error: ") for line in lines]


def test_import_creates_a_store_and_shows_it(source, tmp_path, capsys):
    arguments = ["import", source, tmp_path / "s", "--background", "SIL", "--group-regex", r"v\d", "--stride", "0.1"]
    assert main([str(argument) for argument in arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "videos       4\n" in out
    manifest = open_store(tmp_path / "s").manifest
    assert (manifest.background, manifest.stride, manifest.fps) == (("SIL",), 0.1, None)
    assert open_store(tmp_path / "s").record("v001").group == "v0"


def test_import_prints_its_notes_and_the_largest_relative_error(source, tmp_path, capsys):
    assert main(["import", str(source), str(tmp_path / "s"), "--dtype", "float16"]) == 0
    layout, note, conversion, *_ = capsys.readouterr().out.splitlines()
    assert layout.startswith("note: layout ms-tcn, ")
    assert note.startswith("note: 'SIL' ")
    assert note.endswith("--background SIL")
    assert conversion.startswith("converted to float16: ")
    assert " 0.0004" in conversion
    assert open_store(tmp_path / "s").manifest.dtype == "float16"


def test_problems_are_one_line_each_on_standard_error_with_status_2(tmp_path, capsys):
    data = DataSet.example()
    data.features["v001"][3] = np.nan
    data.labels["v002"][0] = "sitr"
    source = data.write(tmp_path / "src")
    first, second = refused(["import", source, tmp_path / "s"], capsys)
    assert first.startswith(f"{source}/groundTruth/v002.txt:1: ")
    assert "'sitr'" in first
    assert second.startswith("v001, row 3: ")
    assert not (tmp_path / "s").exists()


def test_a_store_is_replaced_only_on_request(source, store, capsys):
    (line,) = refused(["import", source, store], capsys)
    assert line.startswith(f"{store}: ")
    assert "--replace" in line
    assert main(["import", str(source), str(store), "--replace"]) == 0


def test_length_options_reach_the_import(tmp_path, capsys):
    data = DataSet.example()
    data.labels["v001"].append("SIL")
    source = data.write(tmp_path / "src")
    (line,) = refused(["import", source, tmp_path / "s"], capsys)
    assert line.startswith("v001: 41 ")
    assert "--length-tolerance" in line
    assert main(["import", str(source), str(tmp_path / "s"), "--length-tolerance", "1"]) == 0
    note = capsys.readouterr().out.splitlines()[2]
    assert note.startswith("note: v001: 41 ")
    assert {"42", "last", "1"} <= set(note.split())
    assert main(["import", str(source), str(tmp_path / "t"), "--length-policy", "crop"]) == 0


def test_the_option_orientation_is_used(tmp_path, capsys):
    data = DataSet.example((6,), dim=6)
    data.splits = {}
    data.transposed = True
    source = data.write(tmp_path / "src")
    assert refused(["import", source, tmp_path / "s"], capsys)[0].startswith("--orientation: ")
    assert main(["import", str(source), str(tmp_path / "s"), "--orientation", "DxT"]) == 0
    assert np.array_equal(open_store(tmp_path / "s").features("v000"), data.features["v000"])


def rows_of(out: str) -> dict[str, str]:
    """The printed overview by the names of its rows."""
    return {name.strip(): text for name, text in (line.split("  ", 1) for line in out.splitlines() if "  " in line)}


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", text)


def test_inspect_shows_the_contents_of_the_store(store, capsys):
    assert main(["inspect", str(store)]) == 0
    out = capsys.readouterr().out
    assert len({len(line) - len(line.split("  ", 1)[1].lstrip()) for line in out.splitlines()}) == 1
    rows = {name: text.strip() for name, text in rows_of(out).items()}
    size = sum(file.stat().st_size for file in store.iterdir())
    assert numbers(rows.pop("frames")) == ["148", "25", "35.5", "52", "0.00", "10"]
    assert numbers(rows.pop("annotation")) == ["4", "4"]
    assert numbers(rows.pop("transcripts")) == ["1", "4", "4"]
    assert rows.pop("top action").startswith("SIL, 50.7 %")
    assert rows.pop("on disk").startswith(f"{size / 1000:.3g} kB, 1 file ")
    assert numbers(rows.pop("pooling"))[:4] == ["93.2", "2", "90.5", "4"]
    for part in ("1:test", "1:train"):
        assert rows.pop(f"values {part}").startswith("mean ")
    assert rows.pop("split 1").startswith("2 of 2 test videos (100 %) ")
    assert rows == {
        "store": f"{store} (format 1)",
        "videos": "4",
        "features": "D = 6, float32",
        "actions": "3: SIL, pour, stir",
        "background": "SIL",
        "splits": "1:test 2, 1:train 2",
    }


def test_inspect_prints_the_same_as_json(store, capsys):
    assert main(["inspect", str(store), "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    value = json.loads(line)
    assert (value["videos"], value["frames"], value["shortest"], value["longest"]) == (4, 148, 25, 52)
    assert value["splits"] == {"1:test": 2, "1:train": 2}
    assert value["bytes"] == sum(file.stat().st_size for file in store.iterdir())
    assert value["distinct_transcripts"] == 1
    assert (value["format_version"], value["store_format"], value["warnings"]) == (1, 1, [])
    assert value["sharing"]["1"]["parts"]["test"] == {"transcripts": 2, "seen_transcripts": 2, "unseen_actions": {}}
    assert list(value["features"]["values"]) == ["1:test", "1:train"]
    assert value["pooling"]["ceiling"]["1"] == 1
    assert list(value["action_frames"]) == ["SIL", "pour", "stir"]
    assert sum(value["action_frames"].values()) == pytest.approx(1)


def test_a_store_without_annotation_is_shown(tmp_path, capsys):
    from storage import StoreWriter

    with StoreWriter(tmp_path / "s", dim=2, dtype="float16", vocabulary=["a"]) as new:
        new.add("x", np.ones((3, 2)), transcript=None)
    assert main(["inspect", str(tmp_path / "s")]) == 0
    out = capsys.readouterr().out
    rows = rows_of(out)
    assert rows["splits"].strip() == "none"
    assert numbers(rows["annotation"]) == ["0", "0"]
    assert "top action" not in rows
    assert out.splitlines()[-1].startswith("warning: features: ")


def test_verify_reports_an_intact_store(store, capsys):
    assert main(["verify", str(store)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{store}: 4 videos, 4.17 kB ")
    assert "nothing damaged" in out


def test_verify_reports_the_damaged_clip(store, capsys):
    data = open_store(store).features("v002").tobytes()
    file = store / "features-00000.parquet"
    flip(file, file.read_bytes().index(data) + 9)
    (line,) = refused(["verify", store], capsys)
    assert line.startswith(f"{file}: v002: ")


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_missing_store_and_another_version_are_one_line(store, tmp_path, capsys, command):
    (line,) = refused([command, tmp_path / "stre"], capsys)
    assert line.startswith(f"{tmp_path / 'stre'}: ")
    assert "'store', 'src'" in line
    change_manifest(store, lambda value: value.update(format_version=3))
    (line,) = refused([command, store], capsys)
    assert line.startswith(f"{store / 'manifest.json'}: ")
    assert " 3, expected 1" in line


def test_the_commands_can_be_added_to_another_parser(store, capsys):
    parser = argparse.ArgumentParser(prog="mucon")
    store_parser = parser.add_subparsers(required=True).add_parser("store")
    subparsers = store_parser.add_subparsers(required=True)
    add_store_commands(subparsers)
    subparsers.add_parser("synthesize").set_defaults(run=lambda _: 7)
    args = parser.parse_args(["store", "inspect", str(store)])
    assert args.run(args) == 0
    assert "videos          4" in capsys.readouterr().out
    args = parser.parse_args(["store", "synthesize"])
    assert args.run(args) == 7


@pytest.mark.parametrize("command", ["import", "inspect", "verify", "fetch"])
def test_the_example_in_the_help_of_a_command_can_be_parsed(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = " ".join(capsys.readouterr().out.partition("example")[2].splitlines()[1:])
    examples = text.split("python -m storage ")[1:]
    assert examples
    parser = argparse.ArgumentParser()
    add_store_commands(parser.add_subparsers(required=True))
    for example in examples:
        assert example.startswith(f"{command} ")
        parser.parse_args(shlex.split(example))


def test_help_explains_the_layout_and_every_option(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["import", "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    for row in LAYOUTS:
        assert f"  {row.name} " in out
    for file in ("features/NAME.npy", "groundTruth/NAME.txt", "mapping.txt", "splits/*.bundle"):
        assert file in out
    for option in ("--background", "--dtype", "--length-policy", "--length-tolerance", "--fps", "--replace"):
        assert option in out


def test_the_package_runs_as_a_program(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "storage", "inspect", str(tmp_path / "x")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {tmp_path / 'x'}: ")


def test_an_interrupted_import_leaves_nothing_and_exits_with_130(source, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "storage", "import", str(source), str(tmp_path / "s")],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MUCON_FAILPOINT": "storage.writer.add:2:hang"},
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".s.writing-*/")) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["src"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["import", "SRC", "LONG"],
        ["import", "LONG", "NEW"],
        ["inspect", "LONG"],
        ["verify", "LONG"],
        ["append", "LONG", "STORE"],
        ["append", "STORE", "LONG"],
        ["remove", "LONG", "v000"],
        ["remove", "STORE", "--from", "LONG"],
        ["rename-actions", "LONG", "SIL=x"],
        ["merge", "STORE", "LONG", "--out", "NEW"],
        ["merge", "STORE", "LONG", "--out", "LONG2"],
        ["export", "LONG", "NEW"],
        ["export", "STORE", "LONG"],
        ["cache", "list", "--cache-dir", "LONG"],
    ],
)
def test_a_path_that_the_system_refuses_is_one_line(arguments, source, store, tmp_path, capsys):
    places = {"SRC": source, "STORE": store, "NEW": tmp_path / "new"}
    places |= {"LONG": tmp_path / ("x" * 300), "LONG2": tmp_path / ("y" * 300)}
    (line, *_) = refused([places.get(argument, argument) for argument in arguments], capsys)
    assert os.strerror(errno.ENAMETOOLONG) in line
    assert not (tmp_path / "new").exists()
