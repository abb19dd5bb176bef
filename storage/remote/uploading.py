"""Writes stores to URIs: every file under a new name, the manifest last, so readers see the old or the new store.

A writer marks its upload by `writing-ID.json`; the names of its files end in `-ID.parquet`. After its manifest is
written, it removes the files that are in no manifest and whose writer has ended.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from storage.constants import MANIFEST
from storage.errors import Problem, StoreError, some
from storage.failpoints import reach
from storage.fencing import machine
from storage.folders import locked_folder, try_lock
from storage.format.manifest import FileEntry, Manifest
from storage.remote.addresses import StorePlace, place_of
from storage.remote.cache import Cache, files_of, writing
from storage.remote.transport import Transport, reported, transport_of

THREADS = 4
"""Files that are sent at the same time."""
STALE_SECONDS = 24 * 3600.0
"""After which time without a new file the writer of another machine is taken for dead."""
_OURS = re.compile(
    r"(?:(?:videos|features-\d+)-[0-9a-f]{16}-([0-9a-f]{8})\.parquet|writing-([0-9a-f]{8})\.json)(?:\.unfinished)?"
)


@contextmanager
def target_of(place: StorePlace, *, replace: bool = False) -> Iterator[Path]:
    """Yields the folder into which a store for a place is written: the path itself, or a temporary one for a URI.

    The temporary store is sent to the URI when the block ends without an exception.

    Args:
        place: a path or a URI.
        replace: whether to replace an existing store at a URI.

    Raises:
        StoreError: a store exists at the URI, other files do, it cannot be written, or no room in the cache.
    """
    if isinstance(place, Path):
        yield place
        return
    address = str(place_of(place))
    remote = transport_of(address)
    _check(remote, address, replace=replace)
    with _temporary(Cache.configured()) as folder:
        yield folder
        upload(folder, address, replace=replace)


@contextmanager
def _temporary(cache: Cache) -> Iterator[Path]:
    """Yields a path for a store in the cache's folder; removes it at the end, and those of killed processes before."""
    uploads = cache.folder / "uploads"
    with writing(cache.folder):
        uploads.mkdir(exist_ok=True)
        for old in uploads.iterdir():
            if (lock := try_lock(old)) is not None:
                shutil.rmtree(old, ignore_errors=True)
                os.close(lock)
        folder, lock = locked_folder(uploads, "")
    try:
        yield folder / "store"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def upload(folder: Path, address: str, *, replace: bool = False) -> None:
    """Sends a local store to a URI.

    Args:
        folder: folder of the store.
        address: a URI from `place_of`.
        replace: whether to replace an existing store.

    Raises:
        StoreError: no local store, a store or other files exist at the URI, or it cannot be written.
    """
    manifest = Manifest.from_json((folder / MANIFEST).read_bytes(), str(folder / MANIFEST))
    remote, id = transport_of(address), secrets.token_hex(4)
    _check(remote, address, replace=replace)
    with reported(address, "write"):
        mark = f"writing-{id}.json"
        _send_mark(remote, mark)
        entries = [_renamed(entry, id) for entry in files_of(manifest)]
        with ThreadPoolExecutor(THREADS) as pool:
            tasks = [
                pool.submit(_send, remote, folder / old.file, new.file)
                for old, new in zip(files_of(manifest), entries, strict=True)
            ]
            try:
                for task in tasks:
                    task.result()
                    _send_mark(remote, mark)  # says that the writer lives
            finally:
                for task in tasks:
                    task.cancel()
        _check(remote, address, replace=replace)
        reach("storage.upload.publish")
        new = replaced(manifest, entries)
        remote.write(MANIFEST, io.BytesIO(new.to_json().encode()))
        reach("storage.upload.published")
    with reported(address, "remove the files of earlier writers"):  # the store is complete
        remote.remove(mark)
        _remove_leftovers(remote)


def replaced(manifest: Manifest, entries: list[FileEntry]) -> Manifest:
    """The manifest with other names of its files."""
    shards = [replace(shard, file=entry.file) for shard, entry in zip(manifest.shards, entries[1:], strict=True)]
    return replace(manifest, videos=entries[0], shards=tuple(shards))


def _renamed(entry: FileEntry, id: str) -> FileEntry:
    stem = re.sub(r"-[0-9a-f]{16}-[0-9a-f]{8}$", "", Path(entry.file).stem)
    return replace(entry, file=f"{stem}-{entry.sha256[:16]}-{id}.parquet")


def _send(remote: Transport, path: Path, name: str) -> None:
    with path.open("rb") as file:
        remote.write(name, file)
    reach("storage.upload.file")


def _send_mark(remote: Transport, name: str) -> None:
    owner = {"host": socket.gethostname(), "machine": machine(), "process": os.getpid(), "time": time.time()}
    remote.write(name, io.BytesIO(json.dumps(owner).encode()))


def _check(remote: Transport, address: str, *, replace: bool) -> None:
    """Checks that a store may be written at a URI."""
    with reported(address, "list the files"):
        names = remote.names()
    others = sorted(name for name in names if not _OURS.fullmatch(name) and not name.startswith(MANIFEST))
    if MANIFEST not in names and others:
        message = f"contains other files and no {MANIFEST} ({some(others)})"
        raise StoreError(
            Problem(rule="exists", place=address, value=others, message=message, hint="choose another URI")
        )
    if MANIFEST in names and not replace:
        hint = "choose another URI or replace it (--replace)"
        raise StoreError(Problem(rule="exists", place=address, value=MANIFEST, message="already exists", hint=hint))


def _remove_leftovers(remote: Transport) -> None:
    """Removes the files that are in no manifest and that no other writer is sending.

    Marks are read before the manifest: a writer without a mark has written its manifest already.
    """
    names = remote.names()
    living = {mark[2] for name, changed in names.items() if (mark := _OURS.fullmatch(name)) and mark[2]
              and _lives(remote, name, changed)}  # fmt: skip
    with remote.open(MANIFEST) as file:
        current = Manifest.from_json(file.read(), MANIFEST)
    kept = {entry.file for entry in files_of(current)}
    plain = re.compile(r"videos\.parquet|features-\d+\.parquet")  # of a store that was copied there
    for name in names:
        ours = _OURS.fullmatch(name)
        is_old = plain.fullmatch(name) if ours is None else not {ours[1], ours[2]} & living
        if is_old and name not in kept:
            with suppress(FileNotFoundError):
                remote.remove(name)


def _lives(remote: Transport, mark: str, changed: float) -> bool:
    try:
        with remote.open(mark) as file:
            owner = json.loads(file.read())
    except FileNotFoundError:  # it has just ended
        return True
    except ValueError:
        owner = {}
    if owner.get("machine") == machine():  # two containers may have one host name
        return _is_running(int(owner["process"]))
    renewed = max(changed, owner.get("time", 0.0))  # some file systems of fsspec know no times
    return bool(time.time() - renewed < STALE_SECONDS)


def _is_running(process: int) -> bool:
    """Returns whether another process of this machine runs; an upload of this one has failed."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return process != os.getpid()
