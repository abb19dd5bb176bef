"""Copies of remote stores on this machine, by their checksums; many processes read and fetch at the same time.

    objects/SHA256            a file of any store; `.part` while it is fetched
    stores/SHA256/            a store by the checksum of its manifest: hard links to its objects, and `manifest.json`,
                              which is `.manifest.json` until all files are there; `.addresses` lists its URIs
    locks/SHA256.store        shared: the store is open or fetched; exclusive: it is removed
    locks/SHA256.fetch        exclusive: a process fetches the store
    locks/SHA256.object       exclusive: a process fetches the file
    locks/room                exclusive: a process decides what is removed

A file is linked into its store before it becomes an object, so an object with one link belongs to no store.
The holder of a lock removes its file when what it locks is done or gone; who waited for it locks the next one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from storage.constants import MANIFEST
from storage.errors import Problem, StoreError
from storage.failpoints import reach
from storage.folders import is_at
from storage.format.manifest import FileEntry, Manifest
from storage.inspection.overview import size_text

FOLDER_VARIABLE = "MUCON_CACHE_DIR"
SIZE_VARIABLE = "MUCON_CACHE_SIZE"
DEFAULT_FOLDER = "~/.cache/mucon"
DEFAULT_SIZE = "200 GB"
UNFINISHED = f".{MANIFEST}"
"""The manifest of a store whose files are not all in the cache."""
ADDRESSES = ".addresses"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class NoRoomError(StoreError):
    """A store does not fit into the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedStore:
    """A store in the cache.

    Attributes:
        manifest: its manifest; None if the file is damaged.
        sha256: checksum of the manifest.
        addresses: URIs from which it was opened.
        n_bytes: size of its files.
        is_complete: whether all files are there.
        last_used: when it was last opened, in seconds since 1970.
        is_used: whether a process has it open or fetches it.
    """

    manifest: Manifest | None
    sha256: str
    addresses: tuple[str, ...]
    n_bytes: int
    is_complete: bool
    last_used: float
    is_used: bool


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache of a machine.

    Attributes:
        folder: where it is.
        limit: most bytes of all stores in it.
    """

    folder: Path
    limit: int

    @classmethod
    def configured(cls, folder: Path | None = None, size: str | None = None) -> Cache:
        """The cache that the arguments or the environment name; its folders are made.

        Raises:
            StoreError: a wrong size, or a folder that is relative in the environment or that cannot be written.
        """
        limit = size_of(size or os.environ.get(SIZE_VARIABLE) or DEFAULT_SIZE)
        given = os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER
        if folder is None and not given.startswith(("/", "~")):  # each process has a working directory of its own
            raise StoreError(Problem(rule="type", place=FOLDER_VARIABLE, value=given, expected="an absolute path"))
        place = folder or Path(given)
        with writing(place):
            try:
                cache = cls(Path(os.path.realpath(place.expanduser())), limit)
            except RuntimeError as error:  # no home folder
                raise OSError(errno.ENOENT, str(error)) from error
            for name in ("objects", "stores", "locks"):
                (cache.folder / name).mkdir(parents=True, exist_ok=True)
            with cache.locked("room", wait=False):  # a read-only file system is reported before anything is fetched
                return cache

    def store(self, sha256: str) -> Path:
        """The folder of a store."""
        return self.folder / "stores" / sha256

    def object(self, sha256: str) -> Path:
        """The place of a file."""
        return self.folder / "objects" / sha256

    def hold(self, sha256: str, *, exclusive: bool = False, marked: bool = True) -> int | None:
        """Locks a store against its removal.

        Args:
            sha256: checksum of its manifest.
            exclusive: to remove it; returns None if a process uses it.
            marked: whether a shared lock counts as the last use.

        Returns:
            File descriptor; the lock ends when it is closed.
        """
        lock = self._lock(f"{sha256}.store", fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
        if lock is not None and marked and not exclusive:
            os.utime(lock)
        return lock

    @contextmanager
    def locked(self, name: str, *, wait: bool = True) -> Iterator[bool]:
        """Locks a file of `locks/` for this thread; without `wait`, yields False if another has it."""
        lock = self._lock(name, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        try:
            yield lock is not None
        finally:
            if lock is not None:
                if name.endswith((".fetch", ".object")):
                    (self.folder / "locks" / name).unlink(missing_ok=True)
                os.close(lock)

    def _lock(self, name: str, kind: int) -> int | None:
        """Locks a file of `locks/`; returns its descriptor, or None if another has it and `kind` does not wait."""
        path = self.folder / "locks" / name
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(lock, kind)
                if is_at(lock, path):
                    return lock
            except BlockingIOError:
                os.close(lock)
                return None
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)

    def is_complete(self, manifest: Manifest) -> bool:
        """Returns whether all files of a store are there with the right sizes."""
        folder = self.store(manifest.sha256)
        return (folder / MANIFEST).exists() and all(
            size_on_disk(folder / entry.file) == entry.bytes for entry in files_of(manifest)
        )

    def link(self, entry: FileEntry, path: Path) -> bool:
        """Links a file of the cache into the folder of a store; returns whether the cache has it."""
        if size_on_disk(path) == entry.bytes:
            return True
        path.unlink(missing_ok=True)
        if size_on_disk(known := self.object(entry.sha256)) != entry.bytes:
            known.unlink(missing_ok=True)
            return False
        with suppress(FileNotFoundError):  # removed by another process at this moment
            path.hardlink_to(known)
        return path.exists()

    def stores(self) -> list[CachedStore]:
        """All stores, the one that was used the longest time ago first; the caller has locked the room."""
        return sorted(filter(None, map(self._read, (self.folder / "stores").iterdir())), key=lambda one: one.last_used)

    def _read(self, folder: Path) -> CachedStore | None:
        texts = [read_or_none(folder / name) for name in (MANIFEST, UNFINISHED, ADDRESSES)]
        text = texts[0] or texts[1]
        try:
            manifest = None if text is None else Manifest.from_json(text, str(folder))
        except StoreError:
            manifest = None
        lock = self.hold(folder.name, exclusive=True)
        if lock is not None:
            os.close(lock)
        with suppress(FileNotFoundError):
            return CachedStore(
                manifest=manifest,
                sha256=folder.name,
                addresses=tuple((texts[2] or b"").decode("utf-8", "replace").splitlines()),
                n_bytes=sum(entry.bytes for entry in files_of(manifest)) if manifest else 0,
                is_complete=manifest is not None and self.is_complete(manifest),
                last_used=(self.folder / "locks" / f"{folder.name}.store").stat().st_mtime,
                is_used=lock is None,
            )
        return None

    def remove(self, sha256: str) -> bool:
        """Removes a store that no process uses, and the files that no other store has; returns whether it did."""
        lock = self.hold(sha256, exclusive=True)
        if lock is None:
            return False
        try:
            folder = self.store(sha256)
            for name in (MANIFEST, UNFINISHED):  # from now on it is incomplete
                (folder / name).unlink(missing_ok=True)
            reach("storage.cache.remove")
            shutil.rmtree(folder, ignore_errors=True)
            (self.folder / "locks" / f"{sha256}.store").unlink(missing_ok=True)
        finally:
            os.close(lock)
        self.remove_unlinked()
        return True

    def remove_unlinked(self) -> None:
        """Removes the files of no store, and the beginnings of files that nobody fetches."""
        for path in (self.folder / "objects").iterdir():
            with suppress(FileNotFoundError):
                if path.suffix:
                    with self.locked(f"{path.stem}.object", wait=False) as is_free:
                        if is_free:
                            path.unlink()
                elif path.stat().st_nlink == 1:
                    path.unlink()

    def make_room(self, manifest: Manifest) -> None:
        """Removes stores that were not used for the longest time, until a store that is being fetched fits.

        Args:
            manifest: of the store, which the caller has locked and which is in the cache as an unfinished one.

        Raises:
            NoRoomError: it does not fit.
        """
        own = sum({entry.sha256: entry.bytes for entry in files_of(manifest)}.values())
        with self.locked("room"):
            self.remove_unlinked()
            unused = [one for one in self.stores() if not one.is_used]
            for one in unused:
                if one.manifest is None:  # of a process that was killed while it removed the store
                    self.remove(one.sha256)
            over, short = self._lacking(manifest)
            if own <= self.limit and max(over, short) <= sum(one.n_bytes for one in unused):  # else it does not fit
                while (over > 0 or short > 0) and unused:
                    self.remove(unused.pop(0).sha256)
                    over, short = self._lacking(manifest)
        if over > 0:
            sizes = f"{size_text(over)} too much for the limit of {size_text(self.limit)}"
            message = f"the store does not fit into the cache ({sizes})"
            hint = f"raise {SIZE_VARIABLE}, or end what uses the other stores (`mucon store cache list`)"
            raise NoRoomError(
                Problem(rule="unwritable", place=str(self.folder), value=over, message=message, hint=hint)
            )
        if short > 0:
            raise NoRoomError(_full(self.folder, f"{size_text(short)} are missing for the store"))

    def _lacking(self, manifest: Manifest) -> tuple[int, int]:
        """Bytes above the limit, and bytes that the disk lacks, if all files of a store are fetched."""
        folder = self.store(manifest.sha256)
        missing = {
            entry.sha256: entry.bytes
            for entry in files_of(manifest)
            if entry.bytes not in (size_on_disk(self.object(entry.sha256)), size_on_disk(folder / entry.file))
        }
        free = shutil.disk_usage(self.folder).free
        return self.used(self.stores()) - self.limit, sum(missing.values()) - free

    def used(self, stores: Sequence[CachedStore]) -> int:
        """Bytes of all files of stores, those of unfinished ones included; shared ones count once."""
        files = [entry for one in stores if one.manifest for entry in files_of(one.manifest)]
        return sum({entry.sha256: entry.bytes for entry in files}.values())

    def verify(self, manifest: Manifest) -> list[Problem]:
        """Compares a store with its checksums, see `remove_damaged`; an incomplete or removed one has no problems."""
        lock = self.hold(manifest.sha256, marked=False)
        assert lock is not None
        try:
            with self.locked(f"{manifest.sha256}.fetch"):
                return self.remove_damaged(manifest) if self.is_complete(manifest) else []
        finally:
            os.close(lock)

    def remove_damaged(self, manifest: Manifest) -> list[Problem]:
        """Compares all files of a store with their checksums and removes the damaged ones from the cache.

        Processes that have mapped a removed file keep it. The next `open_store` fetches it again. The caller has locked
        the store.
        """
        folder = self.store(manifest.sha256)
        wrong = [entry for entry in files_of(manifest) if not is_whole(folder / entry.file, entry.sha256)]
        for entry in wrong:
            (folder / MANIFEST).unlink(missing_ok=True)
            (folder / entry.file).unlink(missing_ok=True)
            self.object(entry.sha256).unlink(missing_ok=True)
        return [
            Problem(
                rule="damaged",
                place=str(folder / entry.file),
                value=entry.sha256,
                message="fails its checksum; removed from the cache",
                hint="the next command that opens the store fetches it again",
            )
            for entry in wrong
        ]


def files_of(manifest: Manifest) -> Sequence[FileEntry]:
    """The records and the features of a store."""
    return manifest.videos, *manifest.shards


def size_on_disk(path: Path) -> int:
    """Size of a file; -1 if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def read_or_none(path: Path) -> bytes | None:
    """Content of a file; None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def is_whole(path: Path, sha256: str) -> bool:
    """Returns whether a file has a checksum, or does not exist."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except FileNotFoundError:
        return True


def size_of(text: str) -> int:
    """Bytes of a size such as `200 GB`; units are powers of 1000, with an i of 1024.

    Raises:
        StoreError: not a size.

    >>> size_of("1.5GB"), size_of("2 KiB"), size_of("10")
    (1500000000, 2048, 10)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?\s*", text.upper())
    if found is None:
        expected = "a size such as 200GB"
        raise StoreError(Problem(rule="type", place=SIZE_VARIABLE, value=text, expected=expected))
    unit = _UNITS[found[2]]
    if found[3]:
        unit = 1024 ** list(_UNITS).index(found[2])
    return int(float(found[1]) * unit)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns errors of the disk into a `StoreError` that says which folder the cache is in."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError(_full(folder, error.strerror or "")) from error
        message = f"cannot write the cache of remote stores ({error.strerror or error})"
        hint = f"name a folder of a local disk that can be written: {FOLDER_VARIABLE}"
        raise StoreError(
            Problem(rule="unwritable", place=str(folder), value=error.strerror, message=message, hint=hint)
        ) from error


def _full(folder: Path, what: str) -> Problem:
    message = f"the disk of the cache of remote stores is full ({what})"
    hint = f"make room (`mucon store cache clear`), or name a larger disk: {FOLDER_VARIABLE}"
    return Problem(rule="unwritable", place=str(folder), value=what, message=message, hint=hint)
