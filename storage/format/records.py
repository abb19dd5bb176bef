"""Records of the clips of a store: the rows of `videos.parquet`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage.constants import RESTORE_HINT
from storage.errors import Problem, StoreError, nearest
from storage.format.arrays import Statistics
from storage.format.schema import VIDEOS_SCHEMA
from storage.names import normal

IntArray = NDArray[np.int64]
_FEW_NAMES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Metadata of one clip; None means not known.

    Attributes:
        id: unique name in the store.
        group: what the clip shares with others, such as the subject.
        frames: T.
        transcript: action ids of the segments in order.
        lengths: frames of the segments, with the sum `frames`.
        splits: split parts that contain the clip, such as `1:train`.
        activity: what the clip as a whole shows.
        sha256: hexadecimal checksum of the feature bytes (little-endian, C order).
        shard: index of the file with the features.
        row_group: index in that file.
        first_row: row of the first frame in the row group.
        statistics: statistics of the features.
    """

    id: str
    group: str | None
    frames: int
    transcript: tuple[int, ...] | None
    lengths: tuple[int, ...] | None
    splits: tuple[str, ...]
    activity: str | None
    sha256: str
    shard: int
    row_group: int
    first_row: int
    statistics: Statistics


def records_table(records: Iterable[Record]) -> pa.Table:
    """Returns the table of `videos.parquet`, sorted by id."""
    rows = sorted(records, key=lambda record: record.id)
    columns = [
        pa.array(
            [getattr(row.statistics if field.name in _STATISTICS else row, field.name) for row in rows], field.type
        )
        for field in VIDEOS_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=VIDEOS_SCHEMA)


_STATISTICS = ("first_active", "last_active", "minimum", "maximum", "mean", "std")


class Catalogue:
    """All records of a store. Columns are read on first use, and `Record` objects are created on request.

    Safe to use from several threads and after a fork.

    Args:
        data: bytes of `videos.parquet`; they must not change.
        path: path of that file, for the problems.

    Raises:
        StoreError: the file is not a Parquet file, a column is missing, of another type or has null values, or the ids
            are not distinct and sorted.
    """

    def __init__(self, data: memoryview, path: Path) -> None:
        self._path = path
        self._data = data
        self._columns: dict[str, pa.Array] = {}
        try:
            file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(data)))
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error
        self._metadata, schema = file.metadata, file.schema_arrow
        problems = self._column_problems(schema)
        if problems:
            raise StoreError(problems)
        names = self._read(("id", *_PLACES))["id"]
        _, offsets, text = names.buffers()
        self._offsets = memoryview(offsets or b"").cast("i")
        self._text = memoryview(text or b"")
        self._check_order(names)
        self.frames, self.shard, self.row_group, self.first_row = (
            np.from_dlpack(self._columns[name]).astype(np.int64)  # `to_numpy` imports pandas
            for name in _PLACES
        )
        self.shard_row = _shard_rows(self.shard, self.row_group, self.first_row, self.frames)

    def _unreadable(self, error: Exception) -> StoreError:
        message = f"invalid Parquet file ({error})"
        return StoreError(Problem(rule="unreadable", place=str(self._path), message=message, hint=RESTORE_HINT))

    def _read(self, names: Sequence[str]) -> dict[str, pa.Array]:
        """Returns columns by name; reads those that are not in memory yet."""
        missing = [name for name in dict.fromkeys(names) if name not in self._columns]
        if missing:
            try:
                # One handle per call and no threads of Arrow: safe in threads and after a fork.
                file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(self._data)), metadata=self._metadata)
                # One by one takes longer and needs less memory.
                for step in [missing] if self._metadata.num_rows < _MANY else [[name] for name in missing]:
                    table = file.read(columns=step, use_threads=False)
                    self._columns.update({name: table[name].combine_chunks() for name in step})
            except (pa.ArrowException, OSError) as error:
                raise self._unreadable(error) from error
        return {name: self._columns[name] for name in names}

    def _column_problems(self, schema: pa.Schema) -> list[Problem]:
        problems = []
        for field in VIDEOS_SCHEMA:
            place = f"{self._path}: {field.name}"
            if field.name not in schema.names:
                problems.append(Problem(rule="missing", place=place, message="missing column", hint=RESTORE_HINT))
                continue
            found = schema.field(field.name)
            if found.type != field.type:
                expected = f"{field.type}"
                problems.append(
                    Problem(rule="type", place=place, value=str(found.type), expected=expected, hint=RESTORE_HINT)
                )
            # A column that the file declares as required has no null values.
            elif not field.nullable and found.nullable and (n := self._read((field.name,))[field.name].null_count):
                message = f"null values in a required column ({n})"
                problems.append(Problem(rule="damaged", place=place, value=n, message=message, hint=RESTORE_HINT))
        return problems

    def _check_order(self, names: pa.Array) -> None:
        row = _descent(names)
        if row is not None:
            before, after = names[row].as_py(), names[row + 1].as_py()
            message = f"ids are not distinct and sorted, {after!r} follows {before!r}"
            raise StoreError(
                Problem(rule="damaged", place=f"{self._path}: id", value=after, message=message, hint=RESTORE_HINT)
            )

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Sorted names of the clips."""
        return tuple(self._columns["id"].to_pylist())

    def __len__(self) -> int:
        return len(self.frames)

    def _name(self, row: int) -> bytes:
        return bytes(self._text[self._offsets[row] : self._offsets[row + 1]])

    def _place(self, name: bytes) -> int:
        """Returns the number of ids below a name. UTF-8 sorts like its code points."""
        return bisect_left(range(len(self)), name, key=self._name)

    def _row(self, video: str) -> int | None:
        for name in dict.fromkeys((_utf8(video), _utf8(normal(video)))):
            row = self._place(name)
            if row < len(self) and self._name(row) == name:
                return row
        return None

    def has(self, video: str) -> bool:
        """Returns whether the store contains a clip of that name."""
        return self._row(video) is not None

    def index(self, video: str) -> int:
        """Returns the row of a clip.

        Raises:
            StoreError: unknown clip.
        """
        row = self._row(str(video))
        if row is None:
            # In a large store only the names next to it are compared, which share its beginning.
            at = self._place(_utf8(str(video)))
            near = self._columns["id"][max(0, at - _NEAR) : at + _NEAR].to_pylist()
            raise StoreError(
                Problem(
                    rule="unknown",
                    place=str(self._path.parent),
                    value=video,
                    message=f"unknown video {video!r}{nearest(str(video), near)}",
                    hint=f"the store contains {len(self)} videos",
                )
            )
        return row

    def record(self, video: str) -> Record:
        """Returns the record of a clip.

        Raises:
            StoreError: unknown clip.
        """
        row = self.index(video)
        return _record({name: column[row].as_py() for name, column in self._read(VIDEOS_SCHEMA.names).items()})

    def records(self) -> list[Record]:
        """Returns all records in the order of the ids."""
        columns = self._read(VIDEOS_SCHEMA.names)
        return [_record(row) for row in pa.Table.from_pydict(columns).to_pylist()]

    def column(self, name: str, videos: Sequence[str] | None = None) -> list[Any]:
        """Returns a column in the order of the ids, or of the named clips alone.

        Raises:
            StoreError: unknown clip.
        """
        column = self._read((name,))[name]
        if videos is None:
            return list(column.to_pylist())
        return [column[self.index(video)].as_py() for video in videos]  # `take` imports pandas

    def parts(self) -> dict[str, tuple[str, ...]]:
        """Returns the sorted ids of each split part, such as `1:train`."""
        members: dict[str, list[str]] = {}
        for video, splits in zip(self.ids, self.column("splits"), strict=True):
            for part in splits:
                members.setdefault(part, []).append(video)
        return {part: tuple(members[part]) for part in sorted(members, key=natural)}


_PLACES = ("frames", "shard", "row_group", "first_row")
_NEAR = 5000
_MANY = 100_000


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _record(row: dict[str, Any]) -> Record:
    statistics = Statistics(**{name: row[name] for name in _STATISTICS})
    plain = {name: value for name, value in row.items() if name in VIDEOS_SCHEMA.names and name not in _STATISTICS}
    for name in ("transcript", "lengths", "splits"):
        plain[name] = None if plain[name] is None else tuple(plain[name])
    return Record(**plain, statistics=statistics)


def _descent(names: pa.Array) -> int | None:
    """Returns the first row of which the next name is not larger; None if the names ascend."""
    if len(names) <= _FEW_NAMES:
        return next((row for row, (name, after) in enumerate(pairwise(names.to_pylist())) if name >= after), None)
    import pyarrow.compute as pc  # its import takes longer than a loop over few names

    row: int = pc.index(pc.less(names[:-1], names[1:]), False).as_py()
    return None if row < 0 else row


def _shard_rows(shard: IntArray, row_group: IntArray, first_row: IntArray, frames: IntArray) -> IntArray:
    """Returns the first row of each clip in its shard, where clips follow each other without gaps."""
    order = np.lexsort((first_row, row_group, shard))
    before = np.concatenate(([0], np.cumsum(frames[order])))[:-1]
    rows = np.empty_like(frames)
    ordered = shard[order]
    new_shard = ordered != np.concatenate(([-1], ordered))[:-1]
    base = np.maximum.accumulate(np.where(new_shard, before, 0))
    rows[order] = before - base
    return rows


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Returns a sorting key that orders `2` before `10`.

    >>> sorted(["10:test", "2:train", "2:test"], key=natural)
    ['2:test', '2:train', '10:test']
    >>> sorted(["1:test", "01:test"], key=natural) == sorted(["01:test", "1:test"], key=natural)
    True
    """
    pieces: list[tuple[int, int, str]] = []
    digits = ""
    for character in text + "\0":
        if character.isdecimal():
            digits += character
            continue
        if digits:
            pieces.append((0, int(digits), ""))
            digits = ""
        pieces.append((1, 0, character))
    return (*pieces, (1, 0, text))  # `01` and `1` differ
