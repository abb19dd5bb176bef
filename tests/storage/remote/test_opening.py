"""Remote stores are fetched once into a cache, whole or not at all."""

from __future__ import annotations

import base64
import errno
import gc
import json
import os
import pickle
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest

from storage import StoreError, open_store
from storage.editing.merging import merge_stores
from storage.fencing import machine
from storage.remote.cache import Cache, files_of, size_of
from storage.remote.uploading import target_of, upload
from storage.verify import verify_store
from tests.helpers.refusals import refused
from tests.helpers.remote_stores import Site, site_of
from tests.helpers.services import wait_until
from tests.storage.helpers import change_manifest, clips_of, flip, write_store

CLIPS = clips_of([30, 40, 50, 60, 70] * 3)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A web server of stores; the cache is empty."""
    monkeypatch.setenv("MUCON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("MUCON_CACHE_SIZE", raising=False)
    (tmp_path / "site").mkdir()
    write_store(tmp_path / "site" / "tug", CLIPS)
    with site_of(tmp_path / "site") as site:
        yield site


def complete_stores() -> list[str]:
    return [one.addresses[0] for one in Cache.configured().stores() if one.is_complete]


def cached_files() -> list[str]:
    return sorted(path.name for path in (Cache.configured().folder / "objects").iterdir())


def test_a_store_is_fetched_once_and_mapped_from_the_cache(site: Site, tmp_path: Path) -> None:
    local = open_store(tmp_path / "site" / "tug")
    for _ in range(2):
        store = open_store(site.uri("tug/"))
        assert store.address == site.uri("tug")
        assert store.manifest.sha256 == local.manifest.sha256
        assert all(np.array_equal(store.features(id), CLIPS[id]) and store.is_mapped(id) for id in store.ids)
    assert site.asked.pop("manifest.json") == 2
    assert set(site.asked.values()) == {1}
    assert not verify_store(store.path).problems
    site.cut.add("manifest.json")  # a process that is sent a store opens the same one, also without the server
    assert pickle.loads(pickle.dumps(store)).address == site.uri("tug")


def test_two_versions_of_a_store_share_the_files_that_are_equal(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(site.uri("tug"))
    write_store(tmp_path / "site" / "tug", {**CLIPS, "x": CLIPS["v000"]}, replace=True)
    monkeypatch.setenv("MUCON_CACHE_CHECK", "1")  # also if all files are compared
    store = open_store(site.uri("tug"))
    assert len(store) == len(CLIPS) + 1
    assert site.asked["features-00000.parquet"] == 1
    assert site.asked["videos.parquet"] == 2


def test_a_connection_that_ends_early_leaves_nothing_half_cached_and_the_next_open_goes_on(site: Site) -> None:
    def after_another_file(name: str) -> None:
        if name in site.cut:
            wait_until(lambda: any(not name.endswith(".part") for name in cached_files()), 60, "another file")

    site.cut.add("features-00001.parquet")
    site.before = after_another_file
    with refused("unreachable", place=site.uri("tug"), n=1, error=StoreError):
        open_store(site.uri("tug"))
    assert complete_stores() == []
    assert all(not name.endswith(".part") for name in cached_files())
    kept = len(cached_files())
    assert kept
    site.cut.clear()
    asked = sum(site.asked.values())
    store = open_store(site.uri("tug"))
    assert complete_stores() == [site.uri("tug")]
    assert sum(site.asked.values()) == asked + 1 + len(files_of(store.manifest)) - kept


def test_a_file_with_another_checksum_is_refused(site: Site, tmp_path: Path) -> None:
    flip(tmp_path / "site" / "tug" / "features-00000.parquet", 100)
    with refused("damaged", place=site.uri("tug"), n=1, error=StoreError):
        open_store(site.uri("tug"))
    assert complete_stores() == []


def test_a_store_that_is_replaced_while_it_is_fetched_is_fetched_as_the_new_one(site: Site, tmp_path: Path) -> None:
    served, new = tmp_path / "site" / "tug", write_store(tmp_path / "new", clips_of([20, 30], seed=1))
    old = (served / "manifest.json").read_bytes()
    shutil.rmtree(served)
    shutil.copytree(new, served)
    (served / "manifest.json").write_bytes(old)

    def finish(name: str) -> None:
        if name == "videos.parquet":
            shutil.copy(new / "manifest.json", served)

    site.before = finish
    assert open_store(site.uri("tug")).ids == ("v000", "v001")


def test_a_damaged_file_of_the_cache_is_found_and_fetched_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(site.uri("tug"))
    shard = store.path / "features-00000.parquet"
    whole = shard.read_bytes()
    flip(shard, len(whole) // 2)
    monkeypatch.setenv("MUCON_CACHE_CHECK", "1")
    again = open_store(site.uri("tug"))
    assert site.asked[shard.name] == 2
    assert shard.read_bytes() == whole
    monkeypatch.delenv("MUCON_CACHE_CHECK")
    for name, change in (("videos.parquet", lambda path: flip(path, 50)), (shard.name, lambda path: path.unlink())):
        change(again.path / name)
        if name == shard.name:
            (Cache.configured().folder / "objects" / again.manifest.shards[0].sha256).write_bytes(b"")
        assert open_store(site.uri("tug")).ids == store.ids
    (store.path / "manifest.json").write_bytes(b"")
    assert open_store(site.uri("tug")).ids == store.ids
    assert not verify_store(store.path).problems


def test_the_store_used_the_longest_time_ago_makes_room_but_none_that_is_open(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "c"):
        write_store(tmp_path / "site" / name, clips_of([30, 40, 50, 60, 70] * 3, seed=ord(name)))
    sizes = sum(path.stat().st_size for path in (tmp_path / "site" / "tug").iterdir())
    monkeypatch.setenv("MUCON_CACHE_SIZE", str(2 * sizes + 1000))
    store = open_store(site.uri("tug"))
    open_store(site.uri("b"))
    gc.collect()
    open_store(site.uri("c"))
    assert complete_stores() == [site.uri("tug"), site.uri("c")]
    assert not (Cache.configured().folder / "objects" / open_store(site.uri("c")).manifest.sha256).exists()
    monkeypatch.setenv("MUCON_CACHE_SIZE", str(sizes + 1000))
    before = complete_stores()
    with refused("unwritable", place=str(tmp_path / "cache"), n=1, error=StoreError):
        open_store(site.uri("b"))
    assert complete_stores() == before, "what does not make enough room is kept"
    del store
    gc.collect()
    open_store(site.uri("b"))
    assert complete_stores() == [site.uri("b")]
    assert len(cached_files()) == len(files_of(open_store(site.uri("b")).manifest))
    monkeypatch.setenv("MUCON_CACHE_SIZE", "10 kB")  # it never fits: nothing is removed for it
    with refused("unwritable", n=1, error=StoreError):
        open_store(site.uri("c"))
    assert [one.addresses for one in Cache.configured().stores()] == [(site.uri("b"),)]


def test_a_cache_that_cannot_be_written_is_one_problem(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MUCON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with refused("unwritable", place=str(tmp_path / "file"), value=os.strerror(errno.ENOTDIR), n=1, error=StoreError):
        open_store(site.uri("tug"))
    monkeypatch.setenv("MUCON_CACHE_DIR", "cache")
    with refused("type", place="MUCON_CACHE_DIR", value="cache", n=1, error=StoreError):
        open_store(site.uri("tug"))
    monkeypatch.setenv("MUCON_CACHE_SIZE", "much")
    with refused("type", place="MUCON_CACHE_SIZE", value="much", n=1, error=StoreError):
        open_store(site.uri("tug"))
    assert size_of("1 KiB") == 1024


def test_a_web_server_takes_the_login_of_the_netrc_file_and_no_stores(
    site: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    site.login = "Basic " + base64.b64encode(b"me:hunter2").decode()
    with refused("unreachable", place=site.uri("tug"), n=1, error=StoreError):
        open_store(site.uri("tug"))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    (tmp_path / "netrc").chmod(0o600)
    assert open_store(site.uri("tug")).ids
    with refused("unsupported", place=site.uri("new"), n=1, error=StoreError), target_of(site.uri("new")):
        raise AssertionError
    assert "hunter2" not in "".join(capfd.readouterr())


def test_a_manifest_of_another_server_cannot_name_files_outside_of_the_cache(site: Site, tmp_path: Path) -> None:
    change_manifest(tmp_path / "site" / "tug", lambda value: value["videos"].update(sha256="../../outside"))
    with refused("damaged", place=site.uri("tug"), n=1, error=StoreError):
        open_store(site.uri("tug"))


def test_a_server_that_sends_more_than_the_store_has_is_not_read_to_the_end(site: Site, tmp_path: Path) -> None:
    served = tmp_path / "site" / "tug"
    os.truncate(served / "features-00001.parquet", 2**40)
    with refused("damaged", place=site.uri("tug"), n=1, error=StoreError):
        open_store(site.uri("tug"))
    os.truncate(served / "manifest.json", 2**40)
    with refused("damaged", place=site.uri("tug"), n=1, error=StoreError):
        open_store(site.uri("tug"))


def test_any_file_system_of_fsspec_is_read_and_written(site: Site, tmp_path: Path) -> None:
    uri = "memory://bucket/tug"
    fsspec.filesystem("memory").pipe("/bucket/tug/features-00000-0123456789abcdef-01234567.parquet.unfinished", b"x")
    for clips, replace in ((CLIPS, False), (clips_of([20, 30], seed=1), True)):
        with target_of(uri, replace=replace) as folder:
            write_store(folder, clips)
        assert open_store(uri).ids == tuple(clips)
    with refused("exists", place=uri, n=1, error=StoreError), target_of(uri):
        raise AssertionError
    assert len(fsspec.filesystem("memory").ls("/bucket/tug")) == 1 + len(files_of(open_store(uri).manifest))
    assert list((tmp_path / "cache" / "uploads").iterdir()) == []


def test_an_edit_with_a_remote_store_names_its_address_and_not_its_copy(site: Site, tmp_path: Path) -> None:
    other = write_store(tmp_path / "other", {"w": np.ones((9, 4), np.float32)}, metadata={"k": 1})
    merge_stores([site.uri("tug"), other], tmp_path / "m")
    store = open_store(tmp_path / "m")
    assert [one["name"] for one in store.manifest.metadata["united"]] == ["tug", "other"]
    assert not verify_store(store.path).problems
    other = write_store(tmp_path / "x", clips_of([5]))
    with refused("duplicate", place=f"{site.uri('tug')} and {other}: v000", error=StoreError):
        merge_stores([other, site.uri("tug")], tmp_path / "n")


@pytest.mark.parametrize("is_living", [True, False])
def test_the_files_of_a_writer_in_another_container_stay(site: Site, tmp_path: Path, is_living: bool) -> None:
    """Containers may share the name of the host; each has process numbers of its own, here one that is not used."""
    files, folder = fsspec.filesystem("memory"), f"/bucket/containers{is_living}"
    place = "another kernel 1" if is_living else machine()
    mark = {"host": socket.gethostname(), "machine": place, "process": 2**22 + 1, "time": time.time()}
    names = ["writing-01234567.json", "features-00000-0123456789abcdef-01234567.parquet"]
    for name, content in zip(names, [json.dumps(mark).encode(), b"x"], strict=True):
        files.pipe(f"{folder}/{name}", content)
    upload(tmp_path / "site" / "tug", f"memory:/{folder}")
    assert [files.exists(f"{folder}/{name}") for name in names] == [is_living, is_living]
