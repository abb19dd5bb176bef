"""Opens remote stores: fetches their files once into the cache of this machine."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from storage.constants import MANIFEST
from storage.errors import Problem, StoreError
from storage.failpoints import reach
from storage.folders import sync_folder
from storage.format.manifest import FileEntry, Manifest
from storage.reader import Store, opened
from storage.remote.addresses import StorePlace, place_of
from storage.remote.cache import ADDRESSES, UNFINISHED, Cache, NoRoomError, files_of, read_or_none, writing
from storage.remote.transport import CHUNK, Transport, reported, transport_of

THREADS = 4
"""Files that are fetched at the same time."""
CHECK_VARIABLE = "MUCON_CACHE_CHECK"
"""Environment variable: `1` compares all files with their checksums whenever a remote store is opened."""
MAX_MANIFEST = 64 * 2**20
"""Bytes of a manifest; larger ones are refused."""
PROGRESS_SECONDS = 0.2


class _ReplacedError(Exception):
    """The store at the address is another one than its manifest said."""


@contextmanager
def local_copy(place: StorePlace) -> Iterator[Path]:
    """Yields the folder of a store; of a remote one, its copy in the cache, which is not removed meanwhile.

    Raises:
        StoreError: see `open_remote`.
    """
    found = place_of(place)
    if isinstance(found, Path):
        yield found
    else:
        store = open_remote(found)
        yield store.path
        del store  # held until here


class _StoppedError(Exception):
    """Another file could not be fetched."""


def open_remote(uri: str, *, may_be_old: bool = False) -> Store:
    """Opens the store at a URI from the cache, after fetching what the cache lacks; see `storage.open_store`.

    Raises:
        StoreError: no such store, no access, a damaged store, or a cache that cannot be written.
    """
    address, cache = str(place_of(uri)), Cache.configured()
    try:
        return _open_current(cache, address)
    except StoreError as error:
        if not may_be_old or error.problems[0].rule != "unreachable" or (copy := _copy_of(cache, address)) is None:
            raise
        print(f"{address}: {error.problems[0].body}; using the copy in {copy.path}", file=sys.stderr, flush=True)
        return copy


def _copy_of(cache: Cache, address: str) -> Store | None:
    """Opens the complete copy of an address that was used last; None if there is none."""
    with cache.locked("room"):
        copies = [one for one in cache.stores() if one.is_complete and address in one.addresses]
        lock = cache.hold(copies[-1].sha256) if copies else None
    if lock is None:
        return None
    try:
        store = opened(cache.store(copies[-1].sha256), address)
    except BaseException:
        os.close(lock)
        raise
    weakref.finalize(store, os.close, lock)
    return store


def _open_current(cache: Cache, address: str) -> Store:
    remote, failed = transport_of(address), ""
    while True:
        manifest, text = _manifest(remote, address)
        with writing(cache.folder):
            lock = cache.hold(manifest.sha256)
        assert lock is not None
        try:
            store = _opened(_Copy(cache, remote, address, manifest, text))
        except BaseException as error:
            os.close(lock)
            if not isinstance(error, _ReplacedError):
                raise
            if manifest.sha256 == failed:  # it has not changed: the files are wrong
                raise StoreError(_damaged(address, str(error))) from error
            failed = manifest.sha256
        else:
            weakref.finalize(store, os.close, lock)
            return store


def manifest_at(uri: str) -> Manifest:
    """Reads the manifest of the store at a URI, and nothing else; that of a complete copy if the URI does not answer.

    Raises:
        StoreError: no such store, no access, or a damaged manifest.
    """
    address = str(place_of(uri))
    try:
        return _manifest(transport_of(address), address)[0]
    except StoreError as error:
        if error.problems[0].rule != "unreachable" or (copy := _copy_of(Cache.configured(), address)) is None:
            raise
        return copy.manifest


def _manifest(remote: Transport, address: str) -> tuple[Manifest, bytes]:
    try:
        with reported(address, f"read {MANIFEST}"), remote.open(MANIFEST) as file:
            text = b""
            while len(text) <= MAX_MANIFEST and (block := file.read(CHUNK)):
                text += block
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            message, hint = f"no feature store (no {MANIFEST})", "create one with `mucon store import SRC URI`"
            raise StoreError(Problem(rule="missing", place=address, message=message, hint=hint)) from error
        raise
    if len(text) > MAX_MANIFEST:
        raise StoreError(_damaged(address, f"{MANIFEST} has more than {MAX_MANIFEST} bytes"))
    manifest = Manifest.from_json(text, f"{address}: {MANIFEST}")
    names = [entry.file for entry in files_of(manifest)]
    wrong = [entry.sha256 for entry in files_of(manifest) if not re.fullmatch("[0-9a-f]{64}", entry.sha256)]
    wrong += [name for name in names if name.startswith(".") or name == MANIFEST or names.count(name) > 1]
    if wrong:
        raise StoreError(_damaged(address, f"the manifest contains the name or checksum {wrong[0]!r}"))
    return manifest, text


def _damaged(address: str, what: str) -> Problem:
    hint = "copy or import the store there again"
    return Problem(rule="damaged", place=address, value=what, message=what, hint=hint)


def _opened(copy: _Copy) -> Store:
    copy.complete()
    if os.environ.get(CHECK_VARIABLE) == "1":
        copy.repair()
    try:
        return opened(copy.folder, copy.address)
    except StoreError:  # damaged in the cache
        copy.repair()
        return opened(copy.folder, copy.address)


class _Copy:
    """The copy of a store in the cache, whose removal the caller has locked.

    Attributes:
        cache: the cache.
        address: URI of the store.
        manifest: its manifest.
        folder: its folder in the cache.
    """

    def __init__(self, cache: Cache, remote: Transport, address: str, manifest: Manifest, text: bytes) -> None:
        self.cache, self.address, self.manifest = cache, address, manifest
        self.folder = cache.store(manifest.sha256)
        self._remote, self._text = remote, text

    def complete(self) -> None:
        """Fetches what is missing; one process at a time.

        Raises:
            StoreError: no access, a damaged file, or no room.
            _ReplacedError: the store was replaced meanwhile.
        """
        if not self.cache.is_complete(self.manifest):
            name = f"{self.manifest.sha256}.fetch"
            with writing(self.cache.folder), self.cache.locked(name, wait=False) as is_free:
                if not is_free:
                    print(f"waiting for another process, which fetches {self.address}", file=sys.stderr, flush=True)
            with writing(self.cache.folder), self.cache.locked(name):
                if not self.cache.is_complete(self.manifest):
                    self._fetch()
        addresses = (read_or_none(self.folder / ADDRESSES) or b"").decode().splitlines()
        if self.address not in addresses:
            with writing(self.cache.folder), (self.folder / ADDRESSES).open("a") as file:
                file.write(f"{self.address}\n")

    def repair(self) -> None:
        """Fetches what is missing or fails its checksum, see `complete`."""
        with writing(self.cache.folder), self.cache.locked(f"{self.manifest.sha256}.fetch"):
            self.cache.remove_damaged(self.manifest)
            if read_or_none(self.folder / MANIFEST) != self._text:
                (self.folder / MANIFEST).unlink(missing_ok=True)
        self.complete()

    def _fetch(self) -> None:
        folder, cache = self.folder, self.cache
        folder.mkdir(exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        _write(folder / UNFINISHED, self._text)
        with (folder / ADDRESSES).open("a") as file:
            file.write(f"{self.address}\n")
        try:
            cache.make_room(self.manifest)
            self._fetch_files()
        except (OSError, NoRoomError):  # a beginning would take the room that other stores need
            shutil.rmtree(folder, ignore_errors=True)
            cache.remove_unlinked()
            raise
        sync_folder(cache.folder / "objects")
        sync_folder(folder)
        reach("storage.cache.publish")
        (folder / UNFINISHED).rename(folder / MANIFEST)
        sync_folder(folder)
        sync_folder(folder.parent)

    def _fetch_files(self) -> None:
        files, stop = files_of(self.manifest), threading.Event()
        meter = _Meter(self.address, sum(entry.bytes for entry in files))
        with ThreadPoolExecutor(THREADS) as pool:
            tasks = [pool.submit(self._fetch_file, entry, meter, stop) for entry in files]
            try:
                done, _ = wait(tasks, return_when=FIRST_EXCEPTION)
                failed = [task for task in done if task.exception() is not None]
            finally:
                stop.set()  # the others end before their next block
                for task in tasks:
                    task.cancel()
        meter.end()
        for task in sorted(failed, key=lambda task: isinstance(task.exception(), _ReplacedError)):
            task.result()

    def _fetch_file(self, entry: FileEntry, meter: _Meter, stop: threading.Event) -> None:
        path, known = self.folder / entry.file, self.cache.object(entry.sha256)
        part = known.with_suffix(".part")
        with self.cache.locked(f"{entry.sha256}.object"):
            if self.cache.link(entry, path):
                meter.add(entry.bytes)
                return
            try:
                self._download(entry, part, meter, stop)
                path.hardlink_to(part)
                part.rename(known)
            finally:
                part.unlink(missing_ok=True)
        reach("storage.cache.file")

    def _download(self, entry: FileEntry, part: Path, meter: _Meter, stop: threading.Event) -> None:
        digest, size = hashlib.sha256(), 0
        part.unlink(missing_ok=True)  # of a killed process, which may have linked it into a store
        with part.open("xb") as file:
            try:
                with reported(self.address, f"fetch {entry.file}"):
                    source = self._remote.open(entry.file)
            except StoreError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    raise _ReplacedError(f"missing file {entry.file}") from error
                raise
            with source:
                while not stop.is_set() and size <= entry.bytes:
                    with reported(self.address, f"fetch {entry.file}"):
                        block = source.read(CHUNK)
                    if not block:
                        break
                    file.write(block)
                    digest.update(block)
                    size += len(block)
                    meter.add(len(block))
                    reach("storage.cache.block")
            if stop.is_set():
                raise _StoppedError
            if (size, digest.hexdigest()) != (entry.bytes, entry.sha256):
                found = f"{size} bytes" if size != entry.bytes else "another checksum"
                raise _ReplacedError(f"{entry.file} has {found}, expected {entry.bytes} bytes as in {MANIFEST}")
            file.flush()
            os.fsync(file.fileno())


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


class _Meter:
    """Shows on a terminal how much of a store is fetched; prints nothing elsewhere."""

    def __init__(self, address: str, total: int) -> None:
        self._address, self._total, self._done, self._shown = address, max(total, 1), 0, 0.0
        self._lock, self._is_shown = threading.Lock(), sys.stderr is not None and sys.stderr.isatty()

    def add(self, n_bytes: int) -> None:
        """Counts bytes that were fetched."""
        with self._lock:
            self._done += n_bytes
            if self._is_shown and time.monotonic() - self._shown >= PROGRESS_SECONDS:
                self._shown = time.monotonic()
                done = f"{self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB"
                print(f"\rfetching {self._address}: {done}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Ends the line."""
        if self._is_shown and self._shown:
            print(file=sys.stderr)
