"""Output paths are checked before any work."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mucon.commands.outputs import check_file, check_folder
from tests.helpers.commands import call, error_line, train_line
from tests.helpers.refusals import refused

NOT_WRITABLE = Path("/proc/self/fd")
"""A folder into which not even root can write."""


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Files can be created, but not written beyond a thousand bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def wrong_folders(tmp_path: Path, store: Path) -> dict[str, tuple[str, Path]]:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    return {
        "a file": ("exists", tmp_path / "file"),
        "below a file": ("unwritable", tmp_path / "file" / "run"),
        "a link to nothing": ("exists", tmp_path / "link"),
        "not writable": ("unwritable", NOT_WRITABLE / "run"),
        "too long": ("unwritable", tmp_path / ("x" * 300)),
        "a store": ("conflict", store),
        "inside a store": ("conflict", store / "runs" / "one"),
    }


NAMES = ("a file", "below a file", "a link to nothing", "not writable", "too long", "a store", "inside a store")


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_into_which_nothing_can_be_written_is_refused(tmp_path: Path, store: Path, name: str):
    rule, path = wrong_folders(tmp_path, store)[name]
    before = sorted(tmp_path.rglob("*"))
    with refused(rule, "--out", str(path), n=1):
        check_folder(path, "--out")
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "kept"


def test_a_check_creates_nothing(tmp_path: Path):
    check_folder(tmp_path / "a" / "b", "--out")
    check_file(tmp_path / "x.png", "--figure")
    assert not list(tmp_path.iterdir())
    (tmp_path / "y.png").write_text("kept")
    check_file(tmp_path / "y.png", "--figure")
    check_folder(tmp_path, "--out")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("check", [check_folder, check_file])
@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_is_found_before_any_work(tmp_path: Path, check: Callable[[Path, str], None]):
    with refused("unwritable", "--out", n=1):
        check(tmp_path / "x.png", "--out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_training_does_not_begin_without_a_place_for_its_checkpoint(tmp_path, store, capsys, name):
    rule, path = wrong_folders(tmp_path, store)[name]
    line = train_line(store, path)
    with refused(rule, "--out", str(path), n=1):
        call(line)
    assert error_line(capsys, line).startswith("--out: ")


def test_training_is_refused_where_a_file_takes_the_place_of_the_checkpoint(tmp_path, store):
    (tmp_path / "checkpoint").write_text("a file")
    with refused("exists", "--out", str(tmp_path / "checkpoint"), n=1):
        call(train_line(store, tmp_path))


WRONG_FIGURES = {
    "missing folder": ("missing", "nowhere/x.png"),
    "folder": ("exists", "folder.png"),
    "unknown suffix": ("unsupported", "x.banana"),
    "no suffix": ("unsupported", "x"),
    "below a file": ("missing", "file/x.png"),
    "too long": ("unwritable", f"{'x' * 300}.png"),
    "in a store": ("conflict", "store/x.png"),
}


@pytest.mark.parametrize("name", WRONG_FIGURES)
def test_a_figure_that_cannot_be_written_is_refused_before_the_evaluation(tmp_path, store, run, monkeypatch, name):
    rule, file = WRONG_FIGURES[name]
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "store").symlink_to(store)
    monkeypatch.setattr("mucon.evaluation.evaluate", lambda *_, **__: pytest.fail("evaluated"))
    with refused(rule, "--figure", str(tmp_path / file), n=1):
        call(["evaluate", str(run), "--store", str(store), "--figure", str(tmp_path / file)])


def test_recordings_to_draw_are_checked_before_the_evaluation(tmp_path, store, run, monkeypatch):
    monkeypatch.setattr("mucon.evaluation.evaluate", lambda *_, **__: pytest.fail("evaluated"))
    line = ["evaluate", str(run), "--store", str(store), "--figure", str(tmp_path / "x.png"), "--recordings"]
    with refused("unknown", "--recordings", "s99", n=2) as refusal:
        call([*line, "s99", "s98"])
    assert refusal.values == ["s99", "s98"]
    with refused("missing", "--recordings", n=1):
        call(["evaluate", str(run), "--store", str(store), "--recordings", "s99"])


def test_scores_are_printed_although_the_figure_cannot_be_drawn(tmp_path, store, run, monkeypatch, capsys):
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with refused("unwritable", "--figure", str(tmp_path / "x.png"), n=1):
        call(["evaluate", str(run), "--store", str(store), "--figure", str(tmp_path / "x.png")])
    assert "full" in capsys.readouterr().out


def test_imported_weights_need_a_folder_before_the_weights_are_read(tmp_path, store):
    (tmp_path / "file").touch()
    for rule, out in (("exists", tmp_path / "file"), ("conflict", store)):
        with refused(rule, "RUN", str(out), n=1):
            call(["import-weights", "missing.trc", str(out)])
