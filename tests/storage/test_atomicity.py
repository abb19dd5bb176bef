"""Stores are written atomically: with killed writers, full disks and concurrent writers."""

import errno
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from storage import StoreError, StoreWriter, open_store
from storage.failpoints import VARIABLE, FailpointError
from storage.folders import StagedFolder, exchange, swap_in_two_steps
from storage.format import shards
from storage.verify import verify_store
from tests.helpers.refusals import refused
from tests.storage.helpers import SMALL, clips_of, files_of, write_store

ROOT = Path(__file__).parents[2]
CLIPS = clips_of([40, 30, 60, 200, 20, 90, 100, 8])
OLD = clips_of([5, 6], seed=9)
NEW = """
import sys
from pathlib import Path
from tests.storage.helpers import clips_of, write_store
write_store(Path(sys.argv[1]), clips_of([40, 30, 60, 200, 20, 90, 100, 8]), replace=sys.argv[2] == "replace")
"""


def write_in_process(path: Path, *, replace: bool = False, failpoint: str = "", before=None) -> int:
    process = subprocess.run(
        [sys.executable, "-c", NEW, str(path), "replace" if replace else "new"],
        env={**os.environ, VARIABLE: failpoint, "PYTHONPATH": str(ROOT)},
        preexec_fn=before,
        capture_output=True,
        timeout=120,
    )
    return process.returncode


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def is_new(path: Path) -> bool:
    store = open_store(path)
    whole = not verify_store(path).problems
    return whole and store.ids == tuple(CLIPS) and all(np.array_equal(store.features(v), f) for v, f in CLIPS.items())


BEFORE = [
    "storage.writer.add:1",
    "storage.writer.add:8",
    "storage.writer.row_group:1",
    "storage.writer.row_group:4",
    "storage.writer.shard:1",
    "storage.writer.videos:1",
    "storage.writer.manifest:1",
    "storage.writer.publish:1",
]


@pytest.mark.parametrize("moment", BEFORE)
def test_a_killed_writer_leaves_no_store_and_the_next_one_removes_its_leftovers(tmp_path, moment):
    path = tmp_path / "s"
    assert write_in_process(path, failpoint=f"{moment}:kill") == -signal.SIGKILL
    assert not path.exists()
    assert len(names(tmp_path)) == 1
    with refused("missing", place=str(path), n=1, error=StoreError):
        open_store(path)
    write_store(path, CLIPS)
    assert is_new(path)
    assert names(tmp_path) == ["s"]


@pytest.mark.parametrize("moment", ["storage.writer.row_group:2", "storage.writer.publish:1"])
def test_a_writer_killed_while_replacing_leaves_the_old_store(tmp_path, moment):
    path = write_store(tmp_path / "s", OLD)
    before = files_of(path)
    assert write_in_process(path, replace=True, failpoint=f"{moment}:kill") == -signal.SIGKILL
    assert files_of(path) == before
    write_store(path, CLIPS, replace=True)
    assert is_new(path)
    assert names(tmp_path) == ["s"]


def test_a_writer_killed_after_the_exchange_leaves_the_new_store(tmp_path):
    path = write_store(tmp_path / "s", OLD)
    assert write_in_process(path, replace=True, failpoint="storage.writer.exchanged:1:kill") == -signal.SIGKILL
    assert is_new(path)
    assert len(names(tmp_path)) == 2
    write_store(path, OLD, replace=True)
    assert names(tmp_path) == ["s"]


def test_a_full_disk_leaves_no_store_and_is_one_problem(tmp_path):
    path = tmp_path / "s"

    def little_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

    code = NEW.replace("write_store(Path", "import storage\ntry: write_store(Path") + (
        "except storage.StoreError as error:\n"
        "    for p in error.problems: print(p.rule, p.place, p.value, sep='|')\n"
        "    sys.exit(2)"
    )
    process = subprocess.run(
        [sys.executable, "-B", "-c", code, str(path), "new"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=little_room,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 2, process.stderr
    (line,) = process.stdout.splitlines()
    assert line.startswith(f"unwritable|{path}|")
    assert line.endswith("File too large")
    assert names(tmp_path) == []


@pytest.mark.parametrize("failing", [1, 2])
def test_a_disk_that_fails_behind_the_writer_leaves_no_store(tmp_path, monkeypatch, failing):
    """The first flush is in a thread, after the first row group; the second one is either there or at the end."""
    calls = itertools.count(1)

    def flush(file: int, fsync=os.fsync) -> None:
        if next(calls) >= failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(file)

    monkeypatch.setattr(shards, "_FLUSH_BYTES", 1)
    monkeypatch.setattr(os, "fsync", flush)
    with refused("unwritable", str(tmp_path / "s"), os.strerror(errno.EIO), n=1, error=StoreError):
        write_store(tmp_path / "s", clips_of([100, 200, 300]))
    assert list(tmp_path.iterdir()) == []


def test_a_failure_that_the_caller_catches_is_not_published(tmp_path, monkeypatch):
    path = tmp_path / "s"
    monkeypatch.setenv(VARIABLE, "storage.writer.row_group:1:raise")
    big = np.ones((3000, 400))

    def write() -> None:
        with StoreWriter(path, dim=400, dtype="float64", vocabulary=["a"]) as new:
            with pytest.raises(FailpointError):
                new.add("a", big, transcript=(0,))
            with refused("state", place=str(path), n=1, error=StoreError):
                new.add("b", big, transcript=(0,))

    with refused("state", place=str(path), n=1, error=StoreError):
        write()
    assert names(tmp_path) == []


def test_an_exception_in_the_block_leaves_no_store(tmp_path):
    def write() -> None:
        with StoreWriter(tmp_path / "s", dim=4, dtype="float32", vocabulary=["a"]) as new:
            new.add("a", np.ones((3, 4)), transcript=(0,))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert names(tmp_path) == []


def test_a_second_interruption_while_the_writer_waits_for_its_threads_leaves_no_store(tmp_path, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def write() -> None:
        with StoreWriter(tmp_path / "s", dim=4, dtype="float32", vocabulary=["a"], limits=SMALL) as new:
            new.add("a", np.ones((300, 4)), transcript=(0,))
            monkeypatch.setattr(shards.ThreadPoolExecutor, "shutdown", interrupt)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert names(tmp_path) == []


def test_an_existing_store_is_refused_and_stays_unchanged(tmp_path):
    path = write_store(tmp_path / "s", OLD)
    before = files_of(path)
    with refused("exists", place=str(path), value="manifest.json", n=1, error=StoreError):
        write_store(path, CLIPS)
    assert files_of(path) == before
    assert names(tmp_path) == ["s"]


def test_a_store_is_replaced_when_asked_and_old_readers_keep_theirs(tmp_path):
    path = write_store(tmp_path / "s", OLD)
    old = open_store(path)
    write_store(path, CLIPS, replace=True)
    assert is_new(path)
    assert all(np.array_equal(old.features(video), features) for video, features in OLD.items())
    assert names(tmp_path) == ["s"]


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").write_text("years of work")
    for replace in (False, True):
        with refused("exists", place=str(tmp_path / "s"), value=["thesis.tex"], n=1, error=StoreError):
            write_store(tmp_path / "s", CLIPS, replace=replace)
    assert files_of(tmp_path) == {"s/thesis.tex": b"years of work"}


@pytest.mark.parametrize("target", ["/", "/proc"])
def test_a_mount_point_is_refused_before_anything_is_written(target):
    with refused("unsupported", place=target, n=1, error=StoreError):
        StagedFolder(Path(target), marker="manifest.json", replace=True)


def test_a_file_at_the_target_is_refused(tmp_path):
    (tmp_path / "s").write_text("x")
    with refused("exists", place=str(tmp_path / "s"), value="file", n=1, error=StoreError):
        write_store(tmp_path / "s", CLIPS, replace=True)


def test_an_empty_folder_at_the_target_is_filled_and_missing_parents_are_created(tmp_path):
    (tmp_path / "s").mkdir()
    assert is_new(write_store(tmp_path / "s", CLIPS))
    assert is_new(write_store(tmp_path / "a" / "b" / "s", CLIPS))


def test_a_target_behind_a_link_is_written_where_the_link_points(tmp_path):
    write_store(tmp_path / "real", OLD)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_store(tmp_path / "link", CLIPS, replace=True)
    assert (tmp_path / "link").is_symlink()
    assert is_new(tmp_path / "real")


def test_of_two_writers_the_slower_one_is_refused_and_neither_disturbs_the_other(tmp_path):
    path = tmp_path / "s"

    def write_slowly() -> None:
        with StoreWriter(path, dim=4, dtype="float32", vocabulary=["a"]) as slow:
            slow.add("a", np.ones((3, 4)), transcript=(0,))
            write_store(path, CLIPS)
            assert len(names(tmp_path)) == 2
            slow.add("b", np.ones((3, 4)), transcript=(0,))

    with refused("exists", place=str(path), value="manifest.json", n=1, error=StoreError):
        write_slowly()
    assert is_new(path)
    assert names(tmp_path) == ["s"]


def test_a_path_where_nothing_can_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("x")
    with refused("unwritable", place=str(tmp_path / "file" / "s"), n=1, error=StoreError):
        write_store(tmp_path / "file" / "s", CLIPS)


def test_without_an_exchange_a_kill_between_the_two_steps_leaves_the_old_store_aside(tmp_path):
    path = write_store(tmp_path / "s", OLD)
    before = files_of(path)
    write_store(tmp_path / "new", CLIPS)
    code = (
        "import sys; from pathlib import Path; from storage.folders import swap_in_two_steps\n"
        "swap_in_two_steps(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "new"), str(path)],
        env={**os.environ, VARIABLE: "storage.writer.aside:1:kill", "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert process.returncode == -signal.SIGKILL
    (aside,) = tmp_path.glob(".s.replaced-*")
    assert files_of(aside) == before
    with refused("missing", place=str(path), n=1, error=StoreError) as refusal:
        open_store(path)
    assert str(aside) in refusal.problems[0].hint
    write_store(path, CLIPS)
    assert is_new(path)
    assert names(tmp_path) == ["new", "s"]


def test_the_two_steps_end_like_the_exchange(tmp_path):
    for swap in (exchange, swap_in_two_steps):
        first = write_store(tmp_path / f"{swap.__name__}-new", CLIPS)
        second = write_store(tmp_path / f"{swap.__name__}-old", OLD)
        swap(first, second)
        assert is_new(second)
        assert open_store(first).ids == tuple(OLD)
    assert len(names(tmp_path)) == 4


def test_a_folder_that_is_being_written_is_not_removed_as_a_leftover(tmp_path):
    writing = StagedFolder(tmp_path / "s", marker="manifest.json", replace=False)
    StagedFolder(tmp_path / "s", marker="manifest.json", replace=False).discard()
    assert writing.path.is_dir()
    writing.discard()
    assert names(tmp_path) == []


def test_only_folders_with_the_marker_file_are_replaced(tmp_path):
    target = tmp_path / "run"
    first = StagedFolder(target, marker="weights.txt", replace=True)
    (first.path / "weights.txt").write_text("1")
    first.publish()
    second = StagedFolder(target, marker="weights.txt", replace=True)
    (second.path / "weights.txt").write_text("2")
    second.publish()
    assert files_of(tmp_path) == {"run/weights.txt": b"2"}
    with refused("exists", place=str(target), value=["weights.txt"], n=1, error=StoreError):
        StagedFolder(target, marker="manifest.json", replace=True)


def test_a_leftover_without_an_owner_is_removed(tmp_path):
    left = tmp_path / ".s.writing-00000000"
    left.mkdir()
    (left / "features-00000.parquet").write_text("half")
    other = tmp_path / ".other.writing-00000000"
    other.mkdir()
    write_store(tmp_path / "s", CLIPS)
    assert names(tmp_path) == [other.name, "s"]
    shutil.rmtree(other)
