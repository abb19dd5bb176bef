"""The exported folder: what it loads to, how its damage is found, and how it is written and replaced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import SafetensorError

import mucon
from mucon.checkpoint import Checkpoint, Progress, saved_of
from mucon.checkpoint_files import write
from mucon.export import folder as exported
from mucon.identity.checksums import FILE as SUMS
from storage.failpoints import VARIABLE
from tests.helpers.exported import changed, export, features, network
from tests.helpers.refusals import refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("export") / "model", [network(3)])


def run_folder(path: Path, checkpoint: Checkpoint) -> Path:
    write(path / "checkpoint", saved_of(checkpoint))
    return path


def test_an_exported_folder_loads_to_the_same_weights_and_predictions(folder: Path, tmp_path: Path):
    run = run_folder(tmp_path / "run", network(3))
    ours, theirs = mucon.load(folder, "cpu"), mucon.load(run, "cpu")
    assert ours.predictor.weights_sha256() == theirs.predictor.weights_sha256()
    assert ours.predict(features(50)) == theirs.predict(features(50))
    assert not (folder / "optimiser.safetensors").exists()


def test_the_same_training_is_exported_to_the_same_bytes(folder: Path, tmp_path: Path):
    again = export(tmp_path / "again", [network(3)])
    assert (again / SUMS).read_bytes() == (folder / SUMS).read_bytes()


def test_sha256sum_reads_the_checksums(folder: Path):
    done = subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=folder, check=False, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-70])


def lose_line(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(
    ("name", "damage", "rule"),
    [
        ("weights.safetensors", changed, "damaged"),
        ("vocabulary.json", cut, "damaged"),
        ("state.json", Path.unlink, "missing"),
        ("README.md", Path.unlink, "missing"),
        (SUMS, cut, "damaged"),
        (SUMS, lose_line, "damaged"),
        (exported.RECORD, cut, "damaged"),
    ],
)
def test_a_damaged_file_is_named(folder: Path, tmp_path: Path, name: str, damage: Callable[[Path], None], rule: str):
    copy = shutil.copytree(folder, tmp_path / "copy")
    damage(copy / name)
    with refused(rule, str(copy)) as refusal:
        mucon.load(copy, "cpu")
    assert refusal.places == [str(copy / name)]
    with refused(rule, str(copy)):
        exported.check(copy)


def test_a_folder_whose_checksums_are_gone_is_no_longer_intact(folder: Path, tmp_path: Path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / SUMS).unlink()
    with refused("damaged", SUMS):
        exported.check(copy)
    with refused("damaged", SUMS):
        mucon.load(copy, "cpu")


def test_only_exported_folders_are_replaced_and_only_on_request(tmp_path: Path):
    target = export(tmp_path / "model", [network(1)])
    with refused("exists", str(target)):
        export(target, [network(2)])
    export(target, [network(2)], replace_old=True)
    assert json.loads((target / exported.RECORD).read_text())["members"][0]["seed"] == 2
    other = tmp_path / "other"
    (other / "notes").mkdir(parents=True)
    with refused("exists", str(other)):
        export(other, [network(2)], replace_old=True)
    assert [path.name for path in other.iterdir()] == ["notes"]


@pytest.mark.parametrize(("point", "kept"), [("checkpoint.weights", 1), ("storage.writer.publish", 1), ("", 2)])
def test_a_killed_export_leaves_the_old_folder_and_the_next_one_removes_the_rest(tmp_path: Path, point: str, kept: int):
    target = export(tmp_path / "model", [network(1)])
    code = "import sys; from tests.helpers.exported import *; export(Path(sys.argv[1]), [network(2)], replace_old=True)"
    environment = {**os.environ, VARIABLE: f"{point}:1:kill" if point else ""}
    done = subprocess.run([sys.executable, "-c", code, target], env=environment, check=False)
    assert done.returncode == (-9 if point else 0)
    exported.check(target)
    assert json.loads((target / exported.RECORD).read_text())["members"][0]["seed"] == kept
    export(target, [network(3)], replace_old=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_unfinished_training_is_not_exported(tmp_path: Path):
    begun = network(1)
    run = run_folder(tmp_path, Checkpoint(begun.model, begun.config, begun.vocabulary, Progress(epoch=1)))
    with refused("state", str(run), 1):
        exported.finished(run / "checkpoint")


def test_the_digest_of_members_is_that_of_the_loaded_weights(folder: Path):
    member = json.loads((folder / exported.RECORD).read_text())["members"][0]
    assert member["weights_sha256"] == mucon.load(folder, "cpu").predictor.weights_sha256()


def test_weights_that_cannot_be_written_are_a_reason_and_leave_nothing(tmp_path: Path, monkeypatch):
    def full(*_: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with refused("unwritable", str(tmp_path / "model")):
        export(tmp_path / "model", [network(1)])
    assert not list(tmp_path.iterdir())
