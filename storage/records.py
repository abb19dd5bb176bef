"""What the store knows about each clip: the rows of `videos.parquet`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from storage.arrays import Statistics
from storage.errors import StoreError, nearest, some
from storage.schema import VIDEOS_SCHEMA

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One clip.

    Attributes:
        id: its name, distinct in the store.
        group: who or what it shares with others (the subject), None where that is not known.
        frames: T.
        transcript: action ids of its segments in order, None where they are not known.
        lengths: frames of the segments, their sum is `frames`; None where only the transcript is known.
        splits: in which parts of which splits it stands, such as `1:train`.
        activity: what the clip as a whole shows, None where that is not known.
        sha256: of its features' bytes (little-endian, C order), hexadecimal.
        shard: index of the file that has its features.
        row_group: index in that file.
        first_row: of the clip in the row group.
        statistics: of its features.
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
    """The table of `videos.parquet`, sorted by id."""
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
    """The records of a store; a record is made when it is asked for.

    Args:
        table: the content of `videos.parquet`.
        place: the path of that file, for the problems.

    Raises:
        StoreError: a column is missing or of another type, or the ids are not distinct and sorted.
    """

    def __init__(self, table: pa.Table, place: str) -> None:
        missing = [f.name for f in VIDEOS_SCHEMA if f.name not in table.schema.names]
        wrong = [f.name for f in VIDEOS_SCHEMA if f.name not in missing and table.schema.field(f.name).type != f.type]
        if missing or wrong:
            raise StoreError(
                f"videos.parquet has the columns of the format, {place} lacks {some(missing) or 'none'} and has "
                f"{some(wrong) or 'none'} of another type: copy or import the store again"
            )
        self._table = table.combine_chunks()
        self.ids: tuple[str, ...] = tuple(self._table["id"].to_pylist())
        if any(a >= b for a, b in zip(self.ids, self.ids[1:], strict=False)):
            raise StoreError(
                f"the ids of videos.parquet are distinct and sorted, those of {place} are not: "
                "copy or import the store again"
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
        """Whether there is a clip of that name."""
        return video in self._index

    def index(self, video: str) -> int:
        """Row of a clip.

        Raises:
            StoreError: there is no clip of that name.
        """
        found = self._index.get(video)
        if found is None:
            raise StoreError(
                f"the store has no video {video!r}{nearest(str(video), self.ids)}: "
                f"name one of its {len(self.ids)} videos"
            )
        return found

    def record(self, video: str) -> Record:
        """All that is known of a clip.

        Raises:
            StoreError: there is no clip of that name.
        """
        return _record(self._table.slice(self.index(video), 1).to_pylist()[0])

    def records(self) -> list[Record]:
        """All of them, in the order of the ids."""
        return [_record(row) for row in self._table.to_pylist()]

    def column(self, name: str) -> list[Any]:
        """A column as a list, in the order of the ids."""
        return list(self._table[name].to_pylist())

    def parts(self) -> dict[str, tuple[str, ...]]:
        """Ids, sorted, of each part of each split, such as `1:train`."""
        members: dict[str, list[str]] = {}
        for video, splits in zip(self.ids, self.column("splits"), strict=True):
            for part in splits:
                members.setdefault(part, []).append(video)
        return {part: tuple(members[part]) for part in sorted(members, key=natural)}


def _record(row: dict[str, Any]) -> Record:
    described = Statistics(**{name: row[name] for name in _STATISTICS})
    plain = {name: value for name, value in row.items() if name in VIDEOS_SCHEMA.names and name not in _STATISTICS}
    for name in ("transcript", "lengths", "splits"):
        plain[name] = None if plain[name] is None else tuple(plain[name])
    return Record(**plain, statistics=described)


def _shard_rows(shard: IntArray, row_group: IntArray, first_row: IntArray, frames: IntArray) -> IntArray:
    """First row of each clip counted from the beginning of its shard: clips follow each other without a gap."""
    order = np.lexsort((first_row, row_group, shard))
    before = np.concatenate(([0], np.cumsum(frames[order])))[:-1]
    rows = np.empty_like(frames)
    new_shard = np.diff(shard[order], prepend=-1) != 0
    base = np.maximum.accumulate(np.where(new_shard, before, 0))
    rows[order] = before - base
    return rows


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sorting key by which `2` comes before `10`.

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
