"""Records of the clips of a store: the rows of `videos.parquet`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from storage.constants import RESTORE_HINT
from storage.errors import Problem, StoreError, nearest
from storage.format.arrays import Statistics
from storage.format.schema import VIDEOS_SCHEMA
from storage.names import normal

IntArray = NDArray[np.int64]


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
    rows = []
    for record in sorted(records, key=lambda record: record.id):
        flat: dict[str, Any] = {
            name: getattr(record.statistics, name) if name in _STATISTICS else getattr(record, name)
            for name in VIDEOS_SCHEMA.names
        }
        rows.append(flat)
    return pa.Table.from_pylist(rows, schema=VIDEOS_SCHEMA)


_STATISTICS = ("first_active", "last_active", "minimum", "maximum", "mean", "std")


class Catalogue:
    """All records of a store. `Record` objects are created on request.

    Args:
        table: content of `videos.parquet`.
        path: path of that file, for the problems.

    Raises:
        StoreError: a column is missing, of another type or has null values, or the ids are not distinct and sorted.
    """

    def __init__(self, table: pa.Table, path: Path) -> None:
        problems = _column_problems(table, path)
        if problems:
            raise StoreError(problems)
        self._path = path
        self._table = table.combine_chunks()
        self.ids: tuple[str, ...] = tuple(self._table["id"].to_pylist())
        for before, after in zip(self.ids, self.ids[1:], strict=False):
            if before >= after:
                raise StoreError(
                    Problem(
                        rule="damaged",
                        place=f"{path}: id",
                        value=after,
                        message=f"ids are not distinct and sorted, {after!r} follows {before!r}",
                        hint=RESTORE_HINT,
                    )
                )
        self._index = {name: index for index, name in enumerate(self.ids)}
        self.frames = self._integers("frames")
        self.shard = self._integers("shard")
        self.row_group = self._integers("row_group")
        self.first_row = self._integers("first_row")
        self.shard_row = _shard_rows(self.shard, self.row_group, self.first_row, self.frames)

    def _integers(self, name: str) -> IntArray:
        # `to_numpy` imports pandas.
        return np.from_dlpack(self._table[name].combine_chunks()).astype(np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def has(self, video: str) -> bool:
        """Returns whether the store contains a clip of that name."""
        return video in self._index or normal(video) in self._index

    def index(self, video: str) -> int:
        """Returns the row of a clip.

        Raises:
            StoreError: unknown clip.
        """
        row = self._index.get(video, self._index.get(normal(str(video))))
        if row is None:
            raise StoreError(
                Problem(
                    rule="unknown",
                    place=str(self._path.parent),
                    value=video,
                    message=f"unknown video {video!r}{nearest(str(video), self.ids)}",
                    hint=f"the store contains {len(self.ids)} videos",
                )
            )
        return row

    def record(self, video: str) -> Record:
        """Returns the record of a clip.

        Raises:
            StoreError: unknown clip.
        """
        return _record(self._table.slice(self.index(video), 1).to_pylist()[0])

    def records(self) -> list[Record]:
        """Returns all records in the order of the ids."""
        return [_record(row) for row in self._table.to_pylist()]

    def column(self, name: str, videos: Sequence[str] | None = None) -> list[Any]:
        """Returns a column in the order of the ids, or of the named clips alone.

        Raises:
            StoreError: unknown clip.
        """
        column = self._table[name]
        return list((column if videos is None else column.take([self.index(video) for video in videos])).to_pylist())

    def parts(self) -> dict[str, tuple[str, ...]]:
        """Returns the sorted ids of each split part, such as `1:train`."""
        members: dict[str, list[str]] = {}
        for video, splits in zip(self.ids, self.column("splits"), strict=True):
            for part in splits:
                members.setdefault(part, []).append(video)
        return {part: tuple(members[part]) for part in sorted(members, key=natural)}


def _column_problems(table: pa.Table, path: Path) -> list[Problem]:
    problems = []
    for field in VIDEOS_SCHEMA:
        place = f"{path}: {field.name}"
        if field.name not in table.schema.names:
            problems.append(Problem(rule="missing", place=place, message="missing column", hint=RESTORE_HINT))
            continue
        column = table[field.name]
        if column.type != field.type:
            problems.append(
                Problem(rule="type", place=place, value=str(column.type), expected=f"{field.type}", hint=RESTORE_HINT)
            )
        elif column.null_count and not field.nullable:
            message = f"null values in a required column ({column.null_count})"
            problems.append(
                Problem(rule="damaged", place=place, value=column.null_count, message=message, hint=RESTORE_HINT)
            )
    return problems


def _record(row: dict[str, Any]) -> Record:
    statistics = Statistics(**{name: row[name] for name in _STATISTICS})
    plain = {name: value for name, value in row.items() if name in VIDEOS_SCHEMA.names and name not in _STATISTICS}
    for name in ("transcript", "lengths", "splits"):
        plain[name] = None if plain[name] is None else tuple(plain[name])
    return Record(**plain, statistics=statistics)


def _shard_rows(shard: IntArray, row_group: IntArray, first_row: IntArray, frames: IntArray) -> IntArray:
    """Returns the first row of each clip in its shard, where clips follow each other without gaps."""
    order = np.lexsort((first_row, row_group, shard))
    before = np.concatenate(([0], np.cumsum(frames[order])))[:-1]
    rows = np.empty_like(frames)
    new_shard = np.diff(shard[order], prepend=-1) != 0
    base = np.maximum.accumulate(np.where(new_shard, before, 0))
    rows[order] = before - base
    return rows


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Returns a sorting key that orders `2` before `10`.

    >>> sorted(["10:test", "2:train", "2:test"], key=natural)
    ['2:test', '2:train', '10:test']
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
    return tuple(pieces)
