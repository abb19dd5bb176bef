"""Checkpoints: round trips, damage named by file, and killed writers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mucon import checkpoint as checkpoints
from mucon import checkpoint_files as files
from mucon.checkpoint import Checkpoint, Progress, weights_sha256
from mucon.errors import InputError
from mucon.model import MuConNetwork, NetworkSize, build_model
from storage.fencing import SupersededError, Writer
from tests.helpers.factories import VOCABULARY, small_config
from tests.helpers.refusals import refused

ROOT = Path(__file__).parents[2]
SIZE = NetworkSize(dim=5, n_actions=4, max_segments=11)


def make(seed: int = 1, **progress: object) -> Checkpoint:
    config = small_config(seed=seed, mask__shape="bell")
    model = build_model(SIZE, config.backbone, config.segment_branch, seed=seed)
    return Checkpoint(model, config, VOCABULARY, Progress(**progress))


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path):
    saved = make(epoch=3, step_in_epoch=2, sums={"total": 0.1 + 0.2}, seconds=1.5)
    checkpoints.save(tmp_path / "checkpoint", saved)
    found = checkpoints.load(tmp_path / "checkpoint")
    assert (found.config, found.vocabulary, found.progress) == (saved.config, saved.vocabulary, saved.progress)
    assert found.model.size == SIZE
    assert weights_sha256(found.model) == weights_sha256(saved.model)
    assert not found.model.training
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"]
    names = [path.name for path in (tmp_path / "checkpoint").iterdir()]
    assert sorted(names) == ["config.json", "state.json", "vocabulary.json", "weights.safetensors"]


def test_a_new_checkpoint_takes_the_place_of_the_old_one(tmp_path: Path):
    for seed in (1, 2):
        checkpoints.save(tmp_path / "checkpoint", make(seed, epoch=seed))
    found = checkpoints.load(tmp_path / "checkpoint")
    assert (found.config.seed, found.progress.epoch) == (2, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"]


def test_the_digest_changes_with_one_bit_and_not_with_the_layout_of_a_tensor():
    model = make().model
    before = weights_sha256(model)
    with torch.no_grad():
        moved = model.frame_branch.weight.t().contiguous().t()
        model.frame_branch.weight.data = moved
    assert not model.frame_branch.weight.is_contiguous()
    assert weights_sha256(model) == before
    flip_lowest_bit(model)
    assert weights_sha256(model) != before
    flip_lowest_bit(model)
    assert weights_sha256(model) == before


def flip_lowest_bit(model: MuConNetwork) -> None:
    model.frame_branch.bias.data.view(torch.int32)[0] ^= 1


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("state.json", b"{"),
        ("state.json", b"[]"),
        ("state.json", b'{"format_version": 1, "size": {}, "progress": {}}'),
        ("state.json", b'{"format_version": 1}'),
        ("state.json", b"[" * 100_000),
        ("state.json", b'{"format_version": 1, "size": {"dim": -1}, "progress": {}}'),
        ("state.json", b'{"format_version": 1, "size": {"members": 1000000000000}, "progress": {}}'),
        ("state.json", (b'"dim": 5', b'"dim": 1000000')),
        ("state.json", (b'"dim": 5', b'"dim": 5, "members": 900000')),
        ("vocabulary.json", b"{}"),
        ("config.json", None),
        ("weights.safetensors", None),
        ("weights.safetensors", b""),
    ],
)
def test_damage_is_named_with_its_file(tmp_path: Path, file: str, content: bytes | tuple[bytes, bytes] | None):
    folder = tmp_path / "checkpoint"
    checkpoints.save(folder, make())
    if content is None:
        (folder / file).unlink()
    elif isinstance(content, tuple):
        before = (folder / file).read_bytes()
        assert content[0] in before
        (folder / file).write_bytes(before.replace(*content))
    else:
        (folder / file).write_bytes(content)
    with refused("damaged", str(folder / file), n=1) as refusal:
        checkpoints.load(folder)
    assert "\n" not in str(refusal.problems[0])
    assert "restore" in refusal.problems[0].hint


@pytest.mark.parametrize(
    ("file", "content", "place"),
    [
        ("config.json", b'{"nonsense": 3}', "nonsense"),
        ("config.json", b'{"training": {"epochs": 0}}', "training.epochs"),
        ("vocabulary.json", b'{"actions": [], "background": []}', ""),
    ],
)
def test_invalid_content_is_named_with_its_file_and_place(tmp_path: Path, file: str, content: bytes, place: str):
    folder = tmp_path / "checkpoint"
    checkpoints.save(folder, make())
    (folder / file).write_bytes(content)
    with pytest.raises(InputError) as caught:
        checkpoints.load(folder)
    (problem,) = caught.value.problems
    assert problem.place.startswith(str(folder / file))
    assert problem.place.endswith(place)


def test_weights_that_were_cut_off_or_are_of_another_model_are_refused(tmp_path: Path):
    folder = tmp_path / "checkpoint"
    checkpoints.save(folder, make())
    weights = folder / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-7])
    with refused("damaged", str(weights), n=1):
        checkpoints.load(folder)
    weights.write_bytes(whole)
    state = json.loads((folder / "state.json").read_text())
    state["size"]["n_actions"] = 9
    (folder / "state.json").write_text(json.dumps(state))
    with refused("damaged", str(weights), n=1) as refusal:
        checkpoints.load(folder)
    assert "frame_branch" in str(refusal.problems[0])


def test_another_format_version_is_refused_with_both_numbers(tmp_path: Path):
    folder = tmp_path / "checkpoint"
    checkpoints.save(folder, make())
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps(state | {"format_version": 99}))
    with refused("version", str(folder / "state.json"), 99, n=1):
        checkpoints.load(folder)


def test_a_checkpoint_without_a_method_is_one_of_mucon(tmp_path: Path):
    folder = tmp_path / "checkpoint"
    checkpoints.save(folder, make())
    state = json.loads((folder / "state.json").read_text())
    assert state.pop("method") == checkpoints.method_of(folder) == "mucon"
    (folder / "state.json").write_text(json.dumps(state))
    assert checkpoints.method_of(folder) == "mucon"
    assert weights_sha256(checkpoints.load(folder).model) == weights_sha256(make().model)


def test_a_checkpoint_of_another_method_is_refused_by_name(tmp_path: Path):
    folder = tmp_path / "checkpoint"
    checkpoints.save(folder, make())
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps(state | {"method": "ms_tcn"}))
    with refused("mismatch", str(folder), "ms_tcn", n=1):
        checkpoints.load(folder)


@pytest.mark.parametrize("inner", ["", "checkpoint", "run/checkpoint"])
def test_the_checkpoint_of_a_run_a_trial_or_itself_is_found(tmp_path: Path, inner: str):
    checkpoints.save(tmp_path / "folder" / inner, make())
    assert checkpoints.of_run(tmp_path / "folder") == tmp_path / "folder" / inner


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path, there: bool):
    if there:
        (tmp_path / "checkpoint").mkdir()
    assert not checkpoints.exists(tmp_path / "checkpoint")
    with refused("missing", str(tmp_path / "checkpoint"), n=1):
        checkpoints.load(tmp_path / "checkpoint")


SAVE_TWICE = """
import sys
from pathlib import Path
from mucon import checkpoint, checkpoint_files
from tests.mucon.test_checkpoint import make
checkpoint_files.exchange = lambda first, second: False  # as a file system that cannot exchange two folders
for seed in (1, 2):
    checkpoint.save(Path(sys.argv[1]), make(seed, epoch=seed))
"""


def test_a_writer_killed_while_it_replaces_a_checkpoint_leaves_the_old_one_whole(tmp_path: Path):
    folder = tmp_path / "checkpoint"
    environment = {**os.environ, "MUCON_FAILPOINT": "checkpoint.between:1:kill", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SAVE_TWICE, str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    found = checkpoints.load(folder)
    assert (found.progress.epoch, weights_sha256(found.model)) == (1, weights_sha256(make(1).model))
    checkpoints.save(folder, make(3, epoch=3))
    assert checkpoints.load(folder).progress.epoch == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"]


def test_a_writer_killed_at_the_first_checkpoint_leaves_none(tmp_path: Path):
    folder = tmp_path / "checkpoint"
    environment = {**os.environ, "MUCON_FAILPOINT": "checkpoint.weights:1:kill", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SAVE_TWICE, str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not checkpoints.exists(folder)
    checkpoints.save(folder, make())
    assert checkpoints.exists(folder)


def test_a_checkpoint_of_a_later_writer_is_never_replaced_by_that_of_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"

    def write(number: int) -> None:
        staging = tmp_path / f"staging {number}"
        staging.mkdir(exist_ok=True)
        files.write(folder, checkpoints.saved_of(make(number, epoch=number)), Writer(number=number, staging=staging))

    for number in (1, 3):
        write(number)
    with pytest.raises(SupersededError):
        write(2)
    assert (files.writer_of(folder), checkpoints.load(folder).progress.epoch) == (3, 3)
    checkpoints.save(folder, make(4, epoch=4))  # `mucon train` in a copy of a trial's run
    assert (files.writer_of(folder), checkpoints.load(folder).progress.epoch) == (0, 4)


def test_a_removed_staging_folder_stops_its_writer(tmp_path: Path) -> None:
    def confirm() -> None:
        if not staging.exists():
            raise SupersededError

    staging, folder = tmp_path / "staging", tmp_path / "checkpoint"
    staging.mkdir()
    writer = Writer(number=1, staging=staging, confirm=confirm)
    files.write(folder, checkpoints.saved_of(make(1, epoch=1)), writer)
    staging.rmdir()
    with pytest.raises(SupersededError):
        files.write(folder, checkpoints.saved_of(make(2, epoch=2)), writer)
    with pytest.raises(SupersededError):
        writer.write(tmp_path / "labelled.json", b"")
    assert checkpoints.load(folder).progress.epoch == 1
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_weights_have_the_permissions_of_other_files(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "checkpoint", make())
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "checkpoint").iterdir()}
    (tmp_path / "other").touch()
    assert modes == {(tmp_path / "other").stat().st_mode & 0o777}
