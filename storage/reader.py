"""Reads a store: one clip by its id, or a range of its frames, mapped where the layout allows."""

from __future__ import annotations

import hashlib
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage.constants import MANIFEST
from storage.errors import StoreError, nearest, some
from storage.folders import put_aside
from storage.manifest import FileEntry, Manifest
from storage.records import Catalogue, Record
from storage.schema import little_endian
from storage.shards import ShardReader


class Store:
    """A data set on disk; made by `open_store`.

    Safe to use from several threads and after a fork; pickles as its path and is opened again where it is unpickled.
    What was open stays readable, and stays the same, when another writer replaces the store.

    Attributes:
        path: its folder, absolute.
        manifest: what holds for the whole store.
        ids: of the clips, sorted.
    """

    def __init__(self, path: Path, manifest: Manifest, catalogue: Catalogue, shards: list[memoryview]) -> None:
        self.path = path
        self.manifest = manifest
        self.ids = catalogue.ids
        self.catalogue = catalogue
        self._dtype = little_endian(manifest.dtype)
        self._width = self._dtype.itemsize * manifest.dim
        self._data = shards
        self._shards: dict[int, ShardReader] = {}
        self._parts: dict[str, tuple[str, ...]] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, video: object) -> bool:
        return isinstance(video, str) and self.catalogue.has(video)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}, {len(self)} videos)"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _reopened, (self.path, self.manifest.sha256)

    def record(self, video: str) -> Record:
        """What is known of a clip.

        Raises:
            StoreError: there is no clip of that name.
        """
        return self.catalogue.record(video)

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The sorted ids of each part of each split, such as `1:train`."""
        if self._parts is None:
            self._parts = self.catalogue.parts()
        return self._parts

    def split(self, name: str, part: str) -> tuple[str, ...]:
        """The sorted ids of a part of a split.

        Args:
            name: of the split, such as `1`.
            part: `train` or `test`, or what else the store has.

        Raises:
            StoreError: the store has no such part.
        """
        found = self.parts.get(f"{name}:{part}")
        if found is None:
            known = some(self.parts, 20) or "none"
            raise StoreError(
                f"the store has the split parts {known}, not {name}:{part} ({self.path}): name one of them"
            )
        return found

    def features(self, video: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Frames `start` to `stop` (exclusive; None: to the end) of a clip.

        Args:
            video: its id.
            start: at least 0.
            stop: at least `start`, at most T.

        Returns:
            `[stop-start D]` of the store's dtype, read-only and C-ordered; a view of the file where its layout allows.

        Raises:
            StoreError: no clip of that name, frames that it has not, or a damaged file.
        """
        index = self.catalogue.index(video)
        frames = int(self.catalogue.frames[index])
        end = frames if stop is None else stop
        if not 0 <= start <= end <= frames:
            raise StoreError(
                f"frames of {video!r} are 0 to {frames}, {start} to {end} are asked for: stay within the clip"
            )
        first = int(self.catalogue.shard_row[index])
        data = self.shard(int(self.catalogue.shard[index])).rows(first + start, first + end)
        values = data.view(self._dtype)
        if not values.flags.aligned:  # a shard rewritten by another tool
            values = values.copy()
            values.flags.writeable = False
        return values.reshape(end - start, self.manifest.dim)

    def is_mapped(self, video: str) -> bool:
        """Whether `features` of this clip are a view of the file.

        Raises:
            StoreError: no clip of that name, or a damaged file.
        """
        index = self.catalogue.index(video)
        first = int(self.catalogue.shard_row[index])
        return self.shard(int(self.catalogue.shard[index])).is_mapped(first, self._dtype.itemsize)

    def shard(self, index: int) -> ShardReader:
        """A file of features, whose footer is read when it is first asked for.

        Raises:
            StoreError: it is damaged.
        """
        found = self._shards.get(index)
        if found is None:
            if not 0 <= index < len(self._data):
                raise StoreError(
                    f"the store has {len(self._data)} shards, a record names shard {index} ({self.path}): "
                    "copy or import the store again"
                )
            place = str(self.path / self.manifest.shards[index].file)
            # No lock, which a fork could leave locked: at worst two threads read the same footer.
            found = self._shards.setdefault(index, ShardReader(self._data[index], self._width, place))
        return found


def open_store(path: str | os.PathLike[str]) -> Store:
    """Opens the store in a folder: reads its manifest and records, no features.

    Raises:
        StoreError: no store there, another format version, or a file that is missing, cut short or damaged.
    """
    loaded = load(Path(path))
    problems = [problem for _, problem in loaded.shards if problem is not None]
    if problems:
        raise StoreError(problems)
    return Store(loaded.path, loaded.manifest, loaded.catalogue, [data for data, _ in loaded.shards])


@dataclass(frozen=True, slots=True)
class Loaded:
    """A store's files.

    Attributes:
        path: its folder, absolute.
        manifest: its header.
        catalogue: its records.
        shards: for each file of features its bytes, mapped, and a line about what is wrong with its size.
    """

    path: Path
    manifest: Manifest
    catalogue: Catalogue
    shards: list[tuple[memoryview, str | None]]


def load(path: Path) -> Loaded:
    """Reads manifest and records and maps the files of features, whose content is not looked at.

    Raises:
        StoreError: no store there, another format version, or damaged manifest or records.
    """
    folder = Path(os.path.realpath(path))
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(_missing(folder)) from error
    except OSError as error:
        raise StoreError(f"the store {folder} cannot be opened ({error.strerror}): see to its permissions") from error
    try:
        # All files through one handle: of one store, even when another takes its place meanwhile.
        manifest = _manifest(folder, handle)
        catalogue = _catalogue(folder, handle, manifest)
        return Loaded(folder, manifest, catalogue, [_listed(folder, handle, shard) for shard in manifest.shards])
    except PermissionError as error:
        raise StoreError(f"a file of the store {folder} cannot be read ({error}): see to its permissions") from error
    finally:
        os.close(handle)


def _manifest(folder: Path, handle: int) -> Manifest:
    header = _mapped(handle, MANIFEST)
    if header is None:
        raise StoreError(f"a store is a folder with {MANIFEST}, {folder} has none: name the folder of a store")
    return Manifest.from_json(bytes(header), str(folder / MANIFEST))


def _catalogue(folder: Path, handle: int, manifest: Manifest) -> Catalogue:
    place = folder / manifest.videos.file
    data, problem = _listed(folder, handle, manifest.videos)
    if problem is None and hashlib.sha256(data).hexdigest() != manifest.videos.sha256:
        problem = f"the records agree with their checksum, {place} does not: copy or import the store again"
    if problem is not None:
        raise StoreError(problem)
    try:
        table = pq.ParquetFile(pa.BufferReader(pa.py_buffer(data))).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"the records are a Parquet file, {place} is not ({error}): import the store again") from error
    return Catalogue(table, str(place))


def _listed(folder: Path, handle: int, entry: FileEntry) -> tuple[memoryview, str | None]:
    """A file of the manifest, and what is wrong with its size."""
    data = _mapped(handle, entry.file)
    place = folder / entry.file
    if data is None:
        return memoryview(b""), f"the manifest names {entry.file}, {place} is missing: copy or import the store again"
    if len(data) != entry.bytes:
        what = "cut short" if len(data) < entry.bytes else "longer than it was written"
        return data, (
            f"{entry.file} has {entry.bytes} bytes by the manifest, {place} has {len(data)}: it is {what}; "
            "copy or import the store again"
        )
    return data, None


def _mapped(handle: int, name: str) -> memoryview | None:
    """The bytes of a file in the folder, None where there is none."""
    try:
        file = os.open(name, os.O_RDONLY, dir_fd=handle)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(file).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
    finally:
        os.close(file)


def _missing(folder: Path) -> str:
    line = f"a store is a folder, {folder} is none"
    if aside := put_aside(folder):
        return f"{line}; a replacement was interrupted: rename {aside[-1]} to it"
    if folder.parent.is_dir():
        near = nearest(folder.name, [entry.name for entry in folder.parent.iterdir() if entry.is_dir()])
        return f"{line}{near}: name the folder of a store, or make one with `mucon store import`"
    return f"{line}, nor is {folder.parent}: name the folder of a store, or make one with `mucon store import`"


def _reopened(path: Path, sha256: str) -> Store:
    store = open_store(path)
    if store.manifest.sha256 != sha256:
        raise StoreError(
            f"an unpickled store is the one that was pickled, {path} was replaced in between: open it anew"
        )
    return store
