"""Compares a store with its checksums and with itself, and names what is damaged."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from storage.arrays import Statistics, statistics
from storage.errors import StoreError, some
from storage.layouts import Progress, no_progress
from storage.manifest import Shard
from storage.reader import Loaded, load
from storage.records import Record
from storage.rules import annotation_problems, id_problems, vocabulary_problems
from storage.schema import little_endian
from storage.shards import Bytes, ShardReader, as_bytes

_SHOWN = 20
_AGAIN = "copy or import the store again"


@dataclass(frozen=True, slots=True)
class Verification:
    """What was compared and found.

    Attributes:
        n_videos: clips by the records; 0 where these cannot be read.
        n_bytes: bytes of the files of features.
        problems: lines, each naming the file, clip or rows.
    """

    n_videos: int
    n_bytes: int
    problems: tuple[str, ...]


def verify_store(path: Path, progress: Progress = no_progress) -> Verification:
    """Reads a whole store and compares it with its checksums and its records with each other.

    Damage is returned, not raised, so that all of it is told together.
    """
    try:
        loaded = load(path)
    except StoreError as error:
        return Verification(0, 0, error.problems)
    records = loaded.catalogue.records()
    by_shard: dict[int, list[Record]] = {}
    for record in records:
        by_shard.setdefault(record.shard, []).append(record)
    problems = _header_problems(loaded, records) + _record_problems(loaded, records)
    for index in range(len(loaded.manifest.shards)):
        problems += _Shard(loaded, index, by_shard.get(index, [])).problems()
        progress("verifying", index + 1, len(loaded.manifest.shards))
    known = {shard.file for shard in loaded.manifest.shards}
    extra = sorted(file.name for file in loaded.path.glob("features-*.parquet") if file.name not in known)
    if extra:
        problems.append(f"the manifest names all files of features, {loaded.path} also has {some(extra)}: remove them")
    return Verification(len(records), sum(shard.bytes for shard in loaded.manifest.shards), tuple(problems))


def _header_problems(loaded: Loaded, records: list[Record]) -> list[str]:
    manifest = loaded.manifest
    problems = vocabulary_problems(manifest.vocabulary, manifest.background)
    splits = {part.split(":")[0] for record in records for part in record.splits}
    for what, stated, found in (
        ("videos", manifest.n_videos, len(records)),
        ("frames", manifest.n_frames, sum(record.frames for record in records)),
        ("splits", sorted(manifest.splits), sorted(splits)),
    ):
        if stated != found:
            problems.append(
                f"manifest and records agree, {loaded.path} has {what} {stated} in one, {found} in the other: {_AGAIN}"
            )
    return problems


def _record_problems(loaded: Loaded, records: list[Record]) -> list[str]:
    problems = []
    n_actions, n_shards = len(loaded.manifest.vocabulary), len(loaded.manifest.shards)
    for record in records:
        problems += id_problems(record.id, record.splits)
        problems += annotation_problems(repr(record.id), record.frames, record.transcript, record.lengths, n_actions)
        if not 0 <= record.shard < n_shards:
            problems.append(f"a record names one of {n_shards} shards, {record.id!r} names {record.shard}: {_AGAIN}")
        if record.frames < 1:
            problems.append(f"a clip has at least one frame, {record.id!r} has {record.frames}: {_AGAIN}")
    return problems


class _Shard:
    """Verifies one file of features.

    Args:
        loaded: the store.
        index: of the file.
        records: of the clips in it.
    """

    def __init__(self, loaded: Loaded, index: int, records: list[Record]) -> None:
        self.entry: Shard = loaded.manifest.shards[index]
        self.place = loaded.path / self.entry.file
        self.data, self.size_problem = loaded.shards[index]
        self.records = sorted(records, key=lambda record: (record.row_group, record.first_row))
        self.dtype = little_endian(loaded.manifest.dtype)
        self.dim = loaded.manifest.dim

    def problems(self) -> list[str]:
        """Lines about the file and its clips."""
        names = some((record.id for record in self.records), _SHOWN)
        if self.size_problem is not None:
            return [f"{self.size_problem} (its videos: {names})"]
        try:
            reader = ShardReader(self.data, self.dtype.itemsize * self.dim, str(self.place))
        except StoreError as error:
            return [f"{problem} (its videos: {names})" for problem in error.problems]
        problems = self._place_problems(reader)
        damaged: set[int] = set()
        start = 0
        for record in self.records:
            found = self._clip_problem(reader, record, start)
            if found:
                problems.append(found)
                damaged.add(record.row_group)
            start += record.frames
        for group in range(len(reader.starts) - 1):
            found = reader.checksum_problem(group)
            if found and group not in damaged:
                problems.append(found)
        if not problems and hashlib.sha256(self.data).hexdigest() != self.entry.sha256:
            problems.append(
                f"a file of features agrees with its checksum, {self.place} does not, outside the values of its "
                f"clips: {_AGAIN}"
            )
        return problems

    def _place_problems(self, reader: ShardReader) -> list[str]:
        stated = (self.entry.row_groups, self.entry.frames, sum(record.frames for record in self.records))
        found = (len(reader.starts) - 1, reader.n_rows, reader.n_rows)
        if stated != found:
            return [
                f"{self.place} has {found[0]} row groups and {found[1]} frames; the manifest says {stated[0]} and "
                f"{stated[1]}, its records have {stated[2]} frames: {_AGAIN}"
            ]
        problems = []
        start = 0
        for record in self.records:
            group = record.row_group
            placed = (
                0 <= group < found[0]
                and reader.starts[group] + record.first_row == start
                and start + record.frames <= reader.starts[group + 1]
            )
            if not placed:
                problems.append(
                    f"clips follow each other without a gap, each in one row group; {record.id!r} is said to begin at "
                    f"row {record.first_row} of row group {group} of {self.place}: {_AGAIN}"
                )
            start += record.frames
        return problems

    def _clip_problem(self, reader: ShardReader, record: Record, start: int) -> str | None:
        where = f"{self.place}, row group {record.row_group}, {record.frames} rows from row {record.first_row}"
        try:
            data = reader.rows(start, start + record.frames)
        except StoreError as error:
            return f"the features of {record.id!r} cannot be read: {error.problems[0]}"
        if hashlib.sha256(as_bytes(data)).hexdigest() != record.sha256:
            return f"features agree with their checksum, those of {record.id!r} do not ({where}): {_AGAIN}"
        return self._value_problem(record, data, where)

    def _value_problem(self, record: Record, data: Bytes, where: str) -> str | None:
        values = data.view(self.dtype).reshape(record.frames, self.dim)
        if not np.isfinite(values).all():
            return f"features are finite, those of {record.id!r} are not ({where}): repair and import them again"
        if not _alike(statistics(values), record.statistics):
            return f"statistics are of the features, those of {record.id!r} are not ({where}): {_AGAIN}"
        return None


def _alike(found: Statistics, stated: Statistics) -> bool:
    active = (found.first_active, found.last_active) == (stated.first_active, stated.last_active)
    ends = (found.minimum, found.maximum) == (stated.minimum, stated.maximum)
    scale = max(abs(found.minimum), abs(found.maximum))
    near = np.isclose([found.mean, found.std], [stated.mean, stated.std], rtol=1e-6, atol=1e-9 * scale)
    return active and ends and bool(near.all())
