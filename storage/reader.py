"""Reads clips, or ranges of their frames, from a store; maps them into memory where the file layout allows."""

from __future__ import annotations

import hashlib
import mmap
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from numpy.typing import NDArray

from storage.constants import MANIFEST, RESTORE_HINT
from storage.errors import Problem, StoreError, some
from storage.failpoints import reach
from storage.folders import is_at, missing_store, open_folder
from storage.format.manifest import FileEntry, Manifest
from storage.format.records import Catalogue, Record
from storage.format.schema import little_endian
from storage.format.shards import ShardReader
from storage.remote.addresses import place_of


class Store:
    """An open store, see `open_store`.

    Safe to use from several threads and after a fork. Pickles as its path and is opened again when it is unpickled.
    An open store stays readable and unchanged when a writer replaces it on disk.

    Attributes:
        path: absolute path of its folder; of a remote store, in the cache.
        address: the path, or the URI of a remote store.
        manifest: properties of the whole store.
        catalogue: records of the clips.
    """

    def __init__(
        self, path: Path, manifest: Manifest, catalogue: Catalogue, shards: list[memoryview], address: str = ""
    ) -> None:
        self.path = path
        self.address = address or str(path)
        self.manifest = manifest
        self.catalogue = catalogue
        self._dtype = little_endian(manifest.dtype)
        self._width = self._dtype.itemsize * manifest.dim
        self._data = shards
        self._shards: dict[int, ShardReader] = {}
        self._parts: dict[str, tuple[str, ...]] | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Sorted names of the clips."""
        return self.catalogue.ids

    def __len__(self) -> int:
        return len(self.catalogue)

    def __contains__(self, video: object) -> bool:
        return isinstance(video, str) and self.catalogue.has(video)

    def __repr__(self) -> str:
        return f"Store({self.address!r}, {len(self)} videos)"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _reopened, (self.address, self.manifest.sha256)

    def record(self, video: str) -> Record:
        """Returns the record of a clip.

        Raises:
            StoreError: unknown clip.
        """
        return self.catalogue.record(video)

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """Sorted ids of each split part, such as `1:train`."""
        if self._parts is None:
            self._parts = self.catalogue.parts()
        return self._parts

    def split(self, name: str, part: str) -> tuple[str, ...]:
        """Returns the sorted ids of a split part.

        Args:
            name: name of the split, such as `1`.
            part: name of the part, such as `train` or `test`.

        Raises:
            StoreError: unknown split part.
        """
        ids = self.parts.get(f"{name}:{part}")
        if ids is None:
            raise StoreError(
                Problem(
                    rule="unknown",
                    place=self.address,
                    value=f"{name}:{part}",
                    message=f"unknown split part {name}:{part}",
                    hint=f"expected one of {some(self.parts, 20)}" if self.parts else "the store has no splits",
                )
            )
        return ids

    def features(self, video: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Returns the frames `start` to `stop` (exclusive) of a clip.

        Args:
            video: name of the clip.
            start: at least 0.
            stop: from `start` to T; default T.

        Returns:
            `[stop-start D]` of the dtype of the store, read-only and C-ordered; a view of the file where its layout
            allows.

        Raises:
            StoreError: unknown clip, frames out of range, or a damaged file.
        """
        index = self.catalogue.index(video)
        frames = int(self.catalogue.frames[index])
        end = frames if stop is None else stop
        if not 0 <= start <= end <= frames:
            expected = f"a range of frames within 0 to {frames}"
            raise StoreError(Problem(rule="range", place=video, value=(start, end), expected=expected))
        first = int(self.catalogue.shard_row[index])
        data = self.shard(int(self.catalogue.shard[index])).rows(first + start, first + end)
        values = data.view(self._dtype)
        if not values.flags.aligned:  # a shard rewritten by another tool
            values = values.copy()
            values.flags.writeable = False
        return values.reshape(end - start, self.manifest.dim)

    def is_mapped(self, video: str) -> bool:
        """Returns whether `features` of this clip are a view of the file.

        Raises:
            StoreError: unknown clip, or a damaged file.
        """
        index = self.catalogue.index(video)
        first = int(self.catalogue.shard_row[index])
        return self.shard(int(self.catalogue.shard[index])).is_mapped(first, self._dtype.itemsize)

    def shard(self, index: int) -> ShardReader:
        """Returns the reader of a file of features; the first call reads the footer of the file.

        Raises:
            StoreError: unknown shard, or a damaged file.
        """
        reader = self._shards.get(index)
        if reader is None:
            if not 0 <= index < len(self._data):
                raise StoreError(
                    Problem(
                        rule="mismatch",
                        place=str(self.path),
                        value=index,
                        message=f"a record refers to shard {index} of {len(self._data)}",
                        hint=RESTORE_HINT,
                    )
                )
            place = str(self.path / self.manifest.shards[index].file)
            # No lock, which a fork could leave locked: at worst two threads read the same footer.
            reader = self._shards.setdefault(index, ShardReader(self._data[index], self._width, place))
        return reader


def open_store(path: str | os.PathLike[str], *, may_be_old: bool = False) -> Store:
    """Opens the store in a folder or at a URI; reads its manifest and records, but no features.

    The files of a store at a URI are fetched once into the cache of this machine, see `storage.remote`. If the URI does
    not answer, `may_be_old` accepts a complete copy in the cache, whose recordings the caller compares.
    A process that opens a store again reads manifest and records only if one of the two files changed.

    Raises:
        StoreError: no such store, another format version, or files that are missing, truncated or damaged.
    """
    if isinstance(place := place_of(path), str):
        from storage.remote.opening import open_remote

        return open_remote(place, may_be_old=may_be_old)
    return opened(place)


def opened(path: Path, address: str = "") -> Store:
    """Opens the store in a folder, see `open_store`.

    Args:
        path: the folder.
        address: URI that the folder is a copy of.
    """
    loaded = _load(path, recent=True)
    problems = [problem for _, problem in loaded.shards if problem is not None]
    if problems:
        raise StoreError(problems)
    return Store(loaded.path, loaded.manifest, loaded.catalogue, [data for data, _ in loaded.shards], address)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The files of a store.

    Attributes:
        path: absolute path of the folder.
        manifest: properties of the whole store.
        catalogue: records of the clips.
        shards: mapped bytes of each file of features, and the problem if the file is missing or has another size.
    """

    path: Path
    manifest: Manifest
    catalogue: Catalogue
    shards: list[tuple[memoryview, Problem | None]]


def load(path: Path) -> Loaded:
    """Reads manifest and records, and maps the files of features without reading them.

    Raises:
        StoreError: no such store, another format version, or damaged manifest or records.
    """
    return _load(path, recent=False)


def _load(path: Path, *, recent: bool) -> Loaded:
    folder = Path(os.path.realpath(path))
    while True:
        try:
            handle = open_folder(folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise StoreError(missing_store(folder)) from error
        except OSError as error:
            raise StoreError(_cannot_open(folder, error)) from error
        reach("storage.reader.opened")
        try:
            header, shards = _files(folder, handle, recent=recent)
            if all(problem is None for _, problem in shards) or is_at(handle, folder):
                break
        except StoreError:
            if is_at(handle, folder):
                raise
        finally:
            os.close(handle)
        # The store was replaced, and the files of the old one were being removed: the new one is read.
    if header.settled:
        _RECENT.pop(folder, None)
        _RECENT[folder] = header
        for oldest in list(_RECENT)[:-_MOST_RECENT]:
            _RECENT.pop(oldest, None)
    return Loaded(folder, header.manifest, header.catalogue, shards)


def _files(folder: Path, handle: int, *, recent: bool) -> tuple[_Header, list[tuple[memoryview, Problem | None]]]:
    """Reads manifest and records and maps the files of features, see `Loaded`.

    One handle of the folder for all files: they belong to one store, even if it is replaced meanwhile.
    """
    try:
        known = _RECENT.get(folder) if recent else None
        header = known if known is not None and known.is_current(handle) else _header(folder, handle)
        return header, [_listed(folder, handle, shard) for shard in header.manifest.shards]
    except OSError as error:
        raise StoreError(_cannot_open(folder / str(error.filename or ""), error)) from error


Stamp = tuple[int, ...]
_SETTLED_NS = 5 * 10**7
_SETTLED_COARSE_NS = 3 * 10**9


def _stamp(facts: os.stat_result) -> Stamp:
    """Returns what changes when a file is replaced or written to."""
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


@dataclass(frozen=True, slots=True)
class _Header:
    """Manifest and records of a store, checked against their checksums.

    Attributes:
        stamps: stamps of the two files when they were read.
        settled: whether each later change of the files changes their stamps, which have the resolution of a clock.
    """

    manifest: Manifest
    catalogue: Catalogue
    stamps: tuple[Stamp, Stamp]
    settled: bool

    def is_current(self, handle: int) -> bool:
        """Returns whether the two files in a folder are those that were read."""
        try:
            return self.stamps == tuple(
                _stamp(os.stat(name, dir_fd=handle)) for name in (MANIFEST, self.manifest.videos.file)
            )
        except OSError:
            return False


_RECENT: dict[Path, _Header] = {}
"""Headers of the stores opened last. They map no files of features, whose space is free once a store is removed."""
_MOST_RECENT = 4
_MAPS: WeakValueDictionary[Stamp, memoryview] = WeakValueDictionary()
"""Files of features that open stores have mapped."""


def _header(folder: Path, handle: int) -> _Header:
    now = time.time_ns()
    manifest, manifest_stamp = _manifest(folder, handle)
    catalogue, videos_stamp = _catalogue(folder, handle, manifest)
    stamps = manifest_stamp, videos_stamp
    return _Header(manifest, catalogue, stamps, all(_is_settled(stamp, now) for stamp in stamps))


def _is_settled(stamp: Stamp, now: int) -> bool:
    """Returns whether the times of a file are older than their resolution, which is a second on some file systems."""
    times = stamp[-2:]
    is_fine = any(time % 10**9 for time in times)
    return now - max(times) > (_SETTLED_NS if is_fine else _SETTLED_COARSE_NS)


def _cannot_open(path: Path, error: OSError) -> Problem:
    return Problem(rule="unreadable", place=str(path), value=error.strerror, message=f"cannot open ({error.strerror})")


def _manifest(folder: Path, handle: int) -> tuple[Manifest, Stamp]:
    header = _mapped(handle, MANIFEST)
    if header is None:
        raise StoreError(Problem(rule="missing", place=str(folder), message=f"not a feature store (no {MANIFEST})"))
    data, stamp = header
    return Manifest.from_json(bytes(data), str(folder / MANIFEST)), stamp


def _catalogue(folder: Path, handle: int, manifest: Manifest) -> tuple[Catalogue, Stamp]:
    path = folder / manifest.videos.file
    found = _mapped(handle, manifest.videos.file)
    data, stamp = found or (memoryview(b""), ())
    problem = _size_problem(path, manifest.videos, found and data)
    if problem is None and (digest := hashlib.sha256(data).hexdigest()) != manifest.videos.sha256:
        problem = Problem(
            rule="damaged", place=str(path), value=digest, message="fails its checksum", hint=RESTORE_HINT
        )
    if problem is not None:
        raise StoreError(problem)
    return Catalogue(data, path), stamp


def _listed(folder: Path, handle: int, entry: FileEntry) -> tuple[memoryview, Problem | None]:
    """Maps a file of features; the problem reports a missing file or another size."""
    try:
        data = _MAPS.get(_stamp(os.stat(entry.file, dir_fd=handle)))
    except FileNotFoundError:
        data = None
    if data is None and (found := _mapped(handle, entry.file)) is not None:
        data, stamp = found
        _MAPS[stamp] = data
    problem = _size_problem(folder / entry.file, entry, data)
    return memoryview(b"") if data is None else data, problem


def _size_problem(path: Path, entry: FileEntry, data: memoryview | None) -> Problem | None:
    if data is None:
        return Problem(rule="missing", place=str(path), message="missing file", hint=RESTORE_HINT)
    if len(data) == entry.bytes:
        return None
    state = "truncated" if len(data) < entry.bytes else "longer than written"
    message = f"{state}: expected {entry.bytes} bytes, got {len(data)}"
    return Problem(rule="damaged", place=str(path), value=len(data), message=message, hint=RESTORE_HINT)


def _mapped(handle: int, name: str) -> tuple[memoryview, Stamp] | None:
    """Maps a file in the folder; returns None if it does not exist."""
    try:
        file = os.open(name, os.O_RDONLY, dir_fd=handle)
    except FileNotFoundError:
        return None
    try:
        facts = os.fstat(file)
        data = memoryview(b"" if facts.st_size == 0 else mmap.mmap(file, 0, access=mmap.ACCESS_READ))
        return data, _stamp(facts)
    finally:
        os.close(file)


def _reopened(path: str, sha256: str) -> Store:
    store = open_store(path, may_be_old=True)
    if store.manifest.sha256 != sha256:
        raise StoreError(
            Problem(
                rule="state",
                place=path,
                value=store.manifest.sha256,
                message="the store was replaced after it was pickled",
                hint="open it again with `open_store`",
            )
        )
    return store
