"""A changed store as a value, and how it takes the place of the old one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq

from storage.constants import MANIFEST, RESTORE_HINT, VIDEOS
from storage.errors import Problem, StoreError, counted, some
from storage.folders import check_space, locked
from storage.format.arrays import Conversion
from storage.format.manifest import Header, Manifest
from storage.format.records import Record
from storage.format.schema import VIDEOS_SCHEMA, little_endian
from storage.format.shards import as_bytes
from storage.layouts import Clip, Progress
from storage.reader import Store, open_store
from storage.remote.addresses import StorePlace
from storage.writer import StoreWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Clips of a store that become clips of another one.

    Attributes:
        store: the store with their features.
        records: their records; the annotation may be changed, the place of the features is that in `store`.
    """

    store: Store
    records: tuple[Record, ...]

    def by_shard(self) -> Iterator[tuple[int, list[Record], bool]]:
        """Yields each used shard, its records in the order of the file, and whether they are all clips of the shard."""
        totals: dict[int, int] = {}
        for shard in self.store.catalogue.shard.tolist():
            totals[shard] = totals.get(shard, 0) + 1
        used: dict[int, list[Record]] = {}
        for record in self.records:
            used.setdefault(record.shard, []).append(record)
        for shard, records in sorted(used.items()):
            records.sort(key=lambda record: (record.row_group, record.first_row))
            yield shard, records, len(records) == totals[shard]

    def n_bytes(self, folder: Path) -> int:
        """Returns how many bytes a store in a folder needs for these clips: files from there need none.

        Args:
            folder: an existing folder.
        """
        width = self.store.manifest.dim * little_endian(self.store.manifest.dtype).itemsize
        here = self.store.path.stat().st_dev == folder.stat().st_dev
        return sum(
            record.frames * width for _, records, whole in self.by_shard() if not (whole and here) for record in records
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A changed store.

    Attributes:
        header: its properties.
        pieces: its clips with features in stores.
        clips: its clips with features elsewhere.
        n_clips: number of these.
        n_bytes: size of their features.
        lines: what changes, for the user.
    """

    header: Header
    pieces: tuple[Piece, ...]
    clips: Callable[[], Iterable[Clip]] = tuple
    n_clips: int = 0
    n_bytes: int = 0
    lines: tuple[str, ...] = ()

    def write(self, target: Path, progress: Progress, *, held: int | None = None, replacing: bool = True) -> Conversion:
        """Writes the store atomically.

        Args:
            target: folder of the store.
            progress: called for each file and clip.
            held: result of `storage.folders.locked` for the store that is replaced.
            replacing: whether to replace an existing store at `target`.

        Returns:
            Rounding errors of the clips from elsewhere.

        Raises:
            StoreError: damaged features, a store that cannot be written, or one that was replaced meanwhile.
        """
        self.check_space(target)
        with StoreWriter(target, replace=replacing, held=held, **asdict(self.header)) as writer:
            for piece in self.pieces:
                _write_piece(writer, piece, progress)
            problems: list[Problem] = []
            for done, clip in enumerate(self.clips(), 1):
                try:
                    writer.add_clip(clip)
                except StoreError as error:
                    problems += error.problems
                progress("adding", done, self.n_clips)
            if problems:
                raise StoreError(problems)
        return writer.conversion

    @property
    def all_lines(self) -> tuple[str, ...]:
        """The lines, and notes about what an edit does not keep."""
        return (*self.lines, *(line for piece in self.pieces for line in _unknown_lines(piece.store)))

    def check_space(self, target: Path) -> None:
        """Checks that there is room for the store.

        Raises:
            StoreError: too little free space.
        """
        parent = next(folder for folder in target.resolve().parents if folder.exists())
        check_space(target, self.n_bytes + sum(piece.n_bytes(parent) for piece in self.pieces))


def _write_piece(writer: StoreWriter, piece: Piece, progress: Progress) -> None:
    store, done = piece.store, 0
    _check_unchanged(store)
    for shard, records, whole in piece.by_shard():
        if whole:
            entry = store.manifest.shards[shard]
            writer.adopt(store.path / entry.file, entry, records)
        else:
            for record in records:
                _copy_clip(writer, store, record)
        done += len(records)
        progress("writing", done, len(piece.records))
    _check_unchanged(store)  # its files were linked by their paths


def _check_unchanged(store: Store) -> None:
    try:
        path = store.path / MANIFEST
        unchanged = Manifest.from_json(path.read_bytes(), str(path)).sha256 == store.manifest.sha256
    except (OSError, ValueError):
        unchanged = False
    if not unchanged:
        message, hint = "another process replaced the store meanwhile", "run the command again"
        raise StoreError(Problem(rule="state", place=store.address, message=message, hint=hint))


def _copy_clip(writer: StoreWriter, store: Store, record: Record) -> None:
    features = store.features(record.id)
    if (digest := sha256(as_bytes(features)).hexdigest()) != record.sha256:
        place, message = f"{store.address}: {record.id}", "features fail their checksum"
        raise StoreError(Problem(rule="damaged", place=place, value=digest, message=message, hint=RESTORE_HINT))
    writer.add(
        record.id,
        features,
        transcript=record.transcript,
        lengths=record.lengths,
        splits=record.splits,
        group=record.group,
        activity=record.activity,
    )


@contextmanager
def source_store(place: StorePlace) -> Iterator[Store | None]:
    """Opens a store that no other process edits until the block ends; yields None if a folder is not a store.

    Raises:
        StoreError: a damaged store, or another process edits it.
    """
    if isinstance(place, str):
        yield open_store(place)
        return
    folder = Path(os.path.realpath(place))
    if not (folder / MANIFEST).exists():
        yield None
        return
    with locked(folder, shared=True):
        yield open_store(folder)


def edit_in_place(path: Path, change: Callable[[Store], Edit], *, dry_run: bool, progress: Progress) -> tuple[str, ...]:
    """Changes a store: readers that have it open keep the old one, and others see the old or the new one.

    Args:
        path: folder of the store.
        change: returns the changed store.
        dry_run: only check the change.
        progress: called for each file and clip.

    Returns:
        Lines about the change.

    Raises:
        StoreError: the change is invalid, another process edits the store, or it cannot be written.
    """
    folder = Path(os.path.realpath(path))
    if dry_run:
        edit = change(open_store(folder))
        edit.check_space(folder)
        return edit.all_lines
    with locked(folder) as held:
        edit = change(open_store(folder))
        lines = edit.all_lines
        conversion = edit.write(folder, progress, held=held)
    rounded = conversion.relative or conversion.absolute_below
    return (*lines, conversion.line(edit.header.dtype)) if rounded else lines


def _unknown_lines(store: Store) -> Iterator[str]:
    """Yields notes about additions of other programs to a store, which readers ignore and writers do not know."""
    path = store.path / MANIFEST
    keys = set(json.loads(path.read_bytes())) - set(json.loads(store.manifest.to_json()))
    columns = set(pq.read_schema(store.path / store.manifest.videos.file).names) - set(VIDEOS_SCHEMA.names)
    for kind, names in ((f"keys of {MANIFEST}", keys), (f"columns of {VIDEOS}", columns)):
        if names:
            yield f"note: {store.address}: unknown {kind} are not kept: {some(sorted(names))}"


def kept_lines(pieces: Iterable[Piece]) -> Iterator[str]:
    """Yields a line about the files of features that are kept and those that are written again."""
    kept = again = 0
    for piece in pieces:
        for _, _, whole in piece.by_shard():
            kept += whole
            again += not whole
    yield f"keeps {counted(kept, 'file')} of features, writes {again} again"
