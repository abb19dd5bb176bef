"""Stores that a process opens again, and clips found by their names."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from storage import StoreError, folders, open_store, reader
from storage.folders import exchange
from storage.reader import load
from storage.verify import verify_store
from tests.helpers.refusals import refused
from tests.storage.helpers import change_manifest, clips_of, flip, write_store

CLIPS = clips_of([5, 30, 12, 9])


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store whose files count as old, so that the process remembers them."""
    monkeypatch.setattr(reader, "_SETTLED_NS", -(10**18))
    monkeypatch.setattr(reader, "_RECENT", {})
    return write_store(tmp_path / "s", CLIPS)


def mapped_files(folder):
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sorted(link.name for link in links if link.parent == folder.resolve() and link.suffix == ".parquet")


def test_a_store_is_read_once_and_mapped_while_it_is_open(store):
    first = open_store(store)
    shards = [shard.file for shard in first.manifest.shards]
    again = open_store(store)
    assert (again.catalogue, again.manifest) == (first.catalogue, first.manifest)
    assert again.catalogue is first.catalogue
    assert mapped_files(store) == [*shards, "videos.parquet"]
    catalogue = first.catalogue
    del first, again
    assert mapped_files(store) == ["videos.parquet"]
    assert open_store(store).catalogue is catalogue


def test_a_clip_is_read_without_its_record_or_the_names_of_the_others(store):
    opened = open_store(store)
    assert (opened.features("v002") == CLIPS["v002"]).all()
    assert "ids" not in vars(opened.catalogue)
    assert set(opened.catalogue._columns) == {"id", "frames", "shard", "row_group", "first_row"}
    assert opened.record("v002").lengths == (1, 11)


def test_files_that_may_change_within_the_resolution_of_their_times_are_read_again(store, monkeypatch):
    monkeypatch.setattr(reader, "_SETTLED_NS", 10**18)
    assert open_store(store).catalogue is not open_store(store).catalogue


def test_a_file_system_with_whole_seconds_needs_more_time_than_one_with_fractions():
    second, now = 10**9, 100 * 10**9
    assert reader._is_settled((0, 0, 0, now - second + 1, now - second + 1), now)
    assert not reader._is_settled((0, 0, 0, now - second, now - second), now)
    assert reader._is_settled((0, 0, 0, now - 4 * second, now - 4 * second), now)
    assert not reader._is_settled((0, 0, 0, now - second + 1, now - 10**7), now)


def test_only_the_last_stores_are_remembered(store):
    copies = [Path(shutil.copytree(store, store.with_name(f"copy{n}"))) for n in range(6)]
    for copy in copies:
        open_store(copy)
    assert list(reader._RECENT) == [copy.resolve() for copy in copies[2:]]


def test_a_replaced_store_is_noticed(store):
    before = open_store(store)
    write_store(store, clips_of([7, 8], seed=1), replace=True)
    assert open_store(store).ids == ("v000", "v001")
    assert (open_store(store).features("v001") == clips_of([7, 8], seed=1)["v001"]).all()
    assert (before.features("v003") == CLIPS["v003"]).all()
    shutil.rmtree(store)
    with refused("missing", str(store.resolve()), error=StoreError):
        open_store(store)


@pytest.mark.parametrize("left", ["features-00000.parquet", "manifest.json"])
def test_a_reader_between_two_stores_reads_the_new_one(store, tmp_path, monkeypatch, left):
    """A writer replaces the store and removes the files of the old one after the reader has opened its folder."""
    new = write_store(tmp_path / "new", clips_of([7, 8]))
    replaced = []

    def replace(name):
        if name == "storage.reader.opened" and not replaced:
            replaced.append(exchange(new, store))
            (new / left).unlink()

    monkeypatch.setattr(reader, "reach", replace)
    assert open_store(store).ids == ("v000", "v001")
    replaced.clear()
    new = write_store(tmp_path / "newer", clips_of([9]))
    assert load(store).catalogue.ids == ("v000",)


def test_a_reader_waits_while_a_store_is_replaced_in_two_steps(store, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_TWO_STEPS_SECONDS", 60)
    aside = tmp_path / ".s.replaced-0123"
    store.rename(aside)
    writer = threading.Timer(0.05, aside.rename, (store,))
    writer.start()
    assert open_store(store).ids == tuple(CLIPS)
    writer.join()


def test_an_error_of_the_disk_is_one_problem_unless_the_store_was_replaced(store, tmp_path, monkeypatch):
    """On NFS, files of a folder that another machine has removed are stale."""
    new = write_store(tmp_path / "new", clips_of([7, 8]))
    mapped, errors = reader._mapped, [errno.ESTALE, errno.EIO]

    def fail(handle, name):
        if errors:
            if (number := errors.pop(0)) == errno.ESTALE:
                exchange(new, store)
            raise OSError(number, os.strerror(number), name)
        return mapped(handle, name)

    monkeypatch.setattr(reader, "_mapped", fail)
    with refused("unreadable", place=str(store / "manifest.json"), value=os.strerror(errno.EIO), error=StoreError):
        open_store(store)
    errors.append(errno.ESTALE)
    assert open_store(store).ids == tuple(CLIPS)


@pytest.mark.parametrize("file", ["manifest.json", "videos.parquet"])
def test_damage_after_the_first_opening_is_found(store, file):
    open_store(store)
    flip(store / file, (store / file).stat().st_size // 2, 0x01)
    with pytest.raises(StoreError):
        open_store(store)


def test_a_changed_or_truncated_file_of_an_open_store_is_found(store):
    held = open_store(store)
    change_manifest(store, lambda value: value.update(fps=12.0))
    assert (held.manifest.fps, open_store(store).manifest.fps) == (None, 12.0)
    file = store / "features-00000.parquet"
    size = file.stat().st_size
    with file.open("ab") as more:
        more.write(b"x")
    with refused("damaged", str(file.resolve()), size + 1, error=StoreError):
        open_store(store)


def test_verification_reads_a_remembered_store_again(store):
    held = open_store(store)
    flip(store / "videos.parquet", 200)
    os.utime(store / "videos.parquet")
    assert [problem.rule for problem in verify_store(store).problems] == ["damaged"]
    assert len(held) == 4


NAMES = ["a", "aa", "ab", "B", "é", "éa", "z", "ﬀ", "�", "\U00010000", "\U0001f3b5 song", "日本"]


def test_clips_are_found_by_name_like_in_a_sorted_list(tmp_path):
    clips = dict(zip(NAMES, clips_of([3] * len(NAMES)).values(), strict=True))
    catalogue = open_store(write_store(tmp_path / "s", clips)).catalogue
    assert catalogue.ids == tuple(sorted(NAMES))
    assert [catalogue.index(name) for name in catalogue.ids] == list(range(len(NAMES)))
    assert catalogue.index("e\u0301a") == catalogue.index("éa")
    for name in ("", "A", "aaa", "b", "zz", "\ud800", "\uffff", "\U0010ffff"):
        assert not catalogue.has(name)
        with refused("unknown", str(tmp_path), name, error=StoreError):
            catalogue.index(name)
    assert catalogue.column("frames", ["z", "a"]) == [3, 3]
    assert catalogue.column("frames", []) == []
