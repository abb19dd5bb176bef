"""Compares a store with its checksums and its parts with each other, and reports what is damaged."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from storage.constants import MANIFEST, RESTORE_HINT, VIDEOS
from storage.errors import Problem, StoreError, condensed, some
from storage.format.arrays import Statistics, statistics
from storage.format.manifest import Shard
from storage.format.records import Record
from storage.format.rules import annotation_problems, id_problems, vocabulary_problems
from storage.format.schema import little_endian
from storage.format.shards import ShardReader, as_bytes
from storage.layouts import Progress, no_progress
from storage.reader import Loaded, load

_MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of a verification.

    Attributes:
        n_videos: number of clips in the records; 0 if these cannot be read.
        n_bytes: size of the files of features.
        problems: everything that is damaged; empty for an intact store.
    """

    n_videos: int
    n_bytes: int
    problems: tuple[Problem, ...]


def verify_store(path: Path, progress: Progress = no_progress) -> Verification:
    """Reads a whole store and compares it with its checksums, and its records with each other.

    Damage is returned, not raised.
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
        problems += _ShardCheck(loaded, index, by_shard.get(index, [])).problems()
        progress("verifying", index + 1, len(loaded.manifest.shards))
    listed = {shard.file for shard in loaded.manifest.shards}
    extra = sorted(file.name for file in loaded.path.glob("features-*.parquet") if file.name not in listed)
    if extra:
        problems.append(
            Problem(
                rule="unknown",
                place=str(loaded.path),
                value=extra,
                message=f"files of features that are not listed in {MANIFEST}: {some(extra)}",
                hint="remove them",
            )
        )
    return Verification(len(records), sum(shard.bytes for shard in loaded.manifest.shards), tuple(problems))


def _header_problems(loaded: Loaded, records: list[Record]) -> list[Problem]:
    manifest, place = loaded.manifest, loaded.path / MANIFEST
    problems = [problem.under(place) for problem in vocabulary_problems(manifest.vocabulary, manifest.background)]
    splits = {part.split(":")[0] for record in records for part in record.splits}
    for name, stated, counted in (
        ("n_videos", manifest.n_videos, len(records)),
        ("n_frames", manifest.n_frames, sum(record.frames for record in records)),
        ("splits", sorted(manifest.splits), sorted(splits)),
    ):
        if stated != counted:
            expected = f"{counted} as in {VIDEOS}"
            problems.append(
                Problem(rule="mismatch", place=f"{place}: {name}", value=stated, expected=expected, hint=RESTORE_HINT)
            )
    return problems


def _record_problems(loaded: Loaded, records: list[Record]) -> list[Problem]:
    problems = []
    n_actions, n_shards = len(loaded.manifest.vocabulary), len(loaded.manifest.shards)
    for record in records:
        problems += id_problems(record.id, record.splits)
        problems += annotation_problems(record.id, record.frames, record.transcript, record.lengths, n_actions)
        if not 0 <= record.shard < n_shards:
            expected = f"a shard below {n_shards}"
            problems.append(
                Problem(rule="range", place=record.id, value=record.shard, expected=expected, hint=RESTORE_HINT)
            )
        if record.frames < 1:
            expected = "at least one frame"
            problems.append(
                Problem(rule="range", place=record.id, value=record.frames, expected=expected, hint=RESTORE_HINT)
            )
    return condensed(problem.under(loaded.path / loaded.manifest.videos.file) for problem in problems)


class _ShardCheck:
    """Verifies one file of features.

    Args:
        loaded: store that contains the file.
        index: index of the file in the manifest.
        records: records of the clips in the file.
    """

    def __init__(self, loaded: Loaded, index: int, records: list[Record]) -> None:
        self.entry: Shard = loaded.manifest.shards[index]
        self.place = str(loaded.path / self.entry.file)
        self.data, self.size_problem = loaded.shards[index]
        self.records = sorted(records, key=lambda record: (record.row_group, record.first_row))
        self.dtype = little_endian(loaded.manifest.dtype)
        self.dim = loaded.manifest.dim

    def problems(self) -> list[Problem]:
        """Returns the problems of the file and its clips."""
        if self.size_problem is not None:
            return self._with_videos([self.size_problem])
        try:
            reader = ShardReader(self.data, self.dtype.itemsize * self.dim, self.place)
        except StoreError as error:
            return self._with_videos(error.problems)
        problems = self._place_problems(reader)
        damaged_groups: set[int] = set()
        start = 0
        for record in self.records:
            stop = start + record.frames
            problem = self._clip_problem(reader, record, start, stop)
            if problem:
                problems.append(problem)
                damaged_groups.update(group for group, _, _ in reader.groups(start, min(stop, reader.n_rows)))
            start = stop
        for group in range(len(reader.starts) - 1):
            problem = reader.checksum_problem(group)
            if problem and group not in damaged_groups:
                problems.append(problem)
        if not problems and (digest := hashlib.sha256(self.data).hexdigest()) != self.entry.sha256:
            problems.append(
                Problem(
                    rule="damaged",
                    place=self.place,
                    value=digest,
                    message="fails its checksum outside the features of its clips",
                    hint=RESTORE_HINT,
                )
            )
        return problems

    def _with_videos(self, problems: list[Problem] | tuple[Problem, ...]) -> list[Problem]:
        """Adds the names of the affected clips to problems with the whole file."""
        names = some((record.id for record in self.records), _MOST_NAMES)
        return [replace(problem, hint=f"{problem.hint}; affected videos: {names}") for problem in problems]

    def _place_problems(self, reader: ShardReader) -> list[Problem]:
        """Compares the row groups with the manifest, and the positions of the clips with each other.

        Another tool may have written other row groups; the positions are then those before, or in the new ones.
        """
        counted = (len(reader.starts) - 1, reader.n_rows, reader.n_rows)
        stated = (self.entry.row_groups, self.entry.frames, sum(record.frames for record in self.records))
        if stated != counted:
            return [
                Problem(
                    rule="mismatch",
                    place=self.place,
                    value=list(counted[:2]),
                    message=f"{counted[0]} row groups and {counted[1]} frames, but {stated[0]} and {stated[1]} in "
                    f"{MANIFEST} and {stated[2]} frames in {VIDEOS}",
                    hint=RESTORE_HINT,
                )
            ]
        problems = []
        start, following = 0, [(0, 0)]
        for record in self.records:
            group, row = record.row_group, record.first_row
            is_in_file = 0 <= group < counted[0] and reader.starts[group] + row == start
            if not is_in_file and (group, row) not in following:
                problems.append(
                    Problem(
                        rule="mismatch",
                        place=f"{self.place}: {record.id}",
                        value=[group, row],
                        message=f"recorded position (row {row} of row group {group}) does not directly follow the "
                        "previous clip",
                        hint=RESTORE_HINT,
                    )
                )
            start += record.frames
            following = [(group, row + record.frames), (group + 1, 0)]
        return problems

    def _clip_problem(self, reader: ShardReader, record: Record, start: int, stop: int) -> Problem | None:
        rows = f"rows {start} to {stop}"
        try:
            data = reader.rows(start, stop)
        except StoreError as error:
            return error.problems[0].under(record.id)
        if (digest := hashlib.sha256(as_bytes(data)).hexdigest()) != record.sha256:
            return self._damaged(record, f"features fail their checksum ({rows})", digest)
        values = data.view(self.dtype).reshape(record.frames, self.dim)
        if not np.isfinite(values).all():
            return self._damaged(record, f"features contain NaN or infinite values ({rows})")
        if not _alike(statistics(values), record.statistics):
            message = f"recorded statistics do not match the features ({rows})"
            return self._damaged(record, message, record.statistics)
        return None

    def _damaged(self, record: Record, message: str, value: object = None) -> Problem:
        place = f"{self.place}: {record.id}"
        return Problem(rule="damaged", place=place, value=value, message=message, hint=RESTORE_HINT)


def _alike(computed: Statistics, recorded: Statistics) -> bool:
    active = (computed.first_active, computed.last_active) == (recorded.first_active, recorded.last_active)
    ends = (computed.minimum, computed.maximum) == (recorded.minimum, recorded.maximum)
    scale = max(abs(computed.minimum), abs(computed.maximum))
    near = np.isclose([computed.mean, computed.std], [recorded.mean, recorded.std], rtol=1e-6, atol=1e-9 * scale)
    return active and ends and bool(near.all())
