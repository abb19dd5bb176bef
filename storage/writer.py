"""Writes stores atomically."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage.constants import MANIFEST, VIDEOS, Limits, shard_name
from storage.errors import Problem, StoreError
from storage.failpoints import reach
from storage.folders import StagedFolder, link_file, write_file
from storage.format.arrays import Conversion, Prepared, prepared
from storage.format.manifest import FileEntry, Manifest, Shard
from storage.format.records import Record, natural, records_table
from storage.format.rules import annotation_problems, header_problems, id_problems, shape_problems
from storage.format.shards import ShardWriter, file_digest
from storage.layouts import Clip
from storage.names import normal


@dataclass(frozen=True, slots=True)
class PreparedClip:
    """A valid clip of a writer, see `StoreWriter.prepare`.

    Attributes:
        clip: the clip with its name in `normal` form and ids and lengths as int.
        made: its features.
        borrowed: whether these share the memory of `clip.features`.
    """

    clip: Clip
    made: Prepared
    borrowed: bool


class StoreWriter:
    """Writes clips into a new store; use it in a `with` statement.

    The complete store appears at `path` when the block ends without an exception. Otherwise `path` stays unchanged,
    also when the process is killed or the disk is full.

    Names of actions and clips, groups and activities are stored in `normal` form.

    Args:
        path: folder of the new store.
        dim: D, values per frame.
        dtype: `float16`, `float32` or `float64`. Features of other dtypes, including integers, are converted.
        vocabulary: action names; the id of an action is its index.
        background: names of the actions that mean "nothing of interest".
        fps: feature frames per second.
        window: seconds of the recording that the features of one frame cover.
        stride: seconds from one frame to the next.
        offset: seconds from the beginning of the recording to the window of the first frame.
        metadata: additional information, representable in JSON.
        replace: whether to replace an existing store at `path`.
        limits: sizes at which row groups and shards are closed.
        held: result of `storage.folders.locked` for `path`, if the caller holds the store that is replaced.

    Attributes:
        conversion: largest rounding errors of the clips added so far.

    Raises:
        StoreError: invalid arguments (all of them), or `path` exists.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        dim: int,
        dtype: str,
        vocabulary: Sequence[str],
        background: Sequence[str] = (),
        fps: float | None = None,
        window: float | None = None,
        stride: float | None = None,
        offset: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        replace: bool = False,
        limits: Limits | None = None,
        held: int | None = None,
    ) -> None:
        self._path = Path(path)
        self._times = {"fps": fps, "window": window, "stride": stride, "offset": offset}
        self._metadata = dict(metadata or {})
        vocabulary, background = tuple(map(normal, vocabulary)), tuple(map(normal, background))
        problems = header_problems(dim, dtype, vocabulary, background, self._times, self._metadata)
        if problems:
            raise StoreError(problems)
        self._dim = dim
        self._dtype = dtype
        self._vocabulary = vocabulary
        self._background = background
        self._replace = replace
        self._held = held
        self._limits = limits or Limits()
        self._folder: StagedFolder | None = None
        self._records: dict[str, Record] = {}
        self._shards: list[Shard] = []
        self._shard: ShardWriter | None = None
        self._pending: list[NDArray[Any]] = []
        self._pending_bytes = 0
        self._complete = True
        self.conversion = Conversion()

    def __enter__(self) -> Self:
        with self._disk_failures():
            self._folder = StagedFolder(self._path, marker=MANIFEST, replace=self._replace, held=self._held)
        return self

    def __exit__(self, error_type: object, *_: object) -> None:
        published = False
        try:
            if error_type is None:
                with self._disk_failures():
                    self._finish()
                published = True
        finally:
            if not published:
                try:
                    if self._shard is not None:
                        self._shard.abandon()
                finally:  # also if a second Ctrl-C ends the wait for its threads
                    self._staged.discard()
            self._folder = None

    @property
    def _staged(self) -> StagedFolder:
        if self._folder is None:
            raise _not_entered(self._path)
        return self._folder

    def add(
        self,
        id: str,
        features: NDArray[Any],
        *,
        transcript: Sequence[int] | None,
        lengths: Sequence[int] | None = None,
        splits: Sequence[str] = (),
        group: str | None = None,
        activity: str | None = None,
    ) -> None:
        """Adds one clip.

        Args:
            id: unique name in the store.
            features: `[T D]`, T at least 1, of any real dtype, byte order and memory order; finite values that float32
                can represent.
            transcript: action ids of the M segments, M from 1 to T; None for a clip without annotation.
            lengths: frames of the M segments, each at least 1, with the sum T; None if not known.
            splits: split parts such as `1:train`, at most one of each split.
            group: what the clip shares with others, such as the subject.
            activity: what the clip as a whole shows.

        Raises:
            StoreError: the clip is invalid (the writer stays usable), or it cannot be written.
        """
        self.add_clip(
            Clip(
                id=id,
                features=features,
                transcript=None if transcript is None else tuple(transcript),
                lengths=None if lengths is None else tuple(lengths),
                splits=tuple(splits),
                group=group,
                activity=activity,
            )
        )

    def add_clip(self, clip: Clip) -> None:
        """Adds a clip of a layout, see `add`."""
        self.append(self.prepare(clip))

    def prepare(self, clip: Clip) -> PreparedClip:
        """Checks a clip of a layout and converts its features, see `add`; may be called in any thread.

        Raises:
            StoreError: the clip is invalid.
        """
        video, features = normal(clip.id), np.asarray(clip.features)
        transcript = None if clip.transcript is None else tuple(index(action) for action in clip.transcript)
        lengths = None if clip.lengths is None else tuple(index(length) for length in clip.lengths)
        problems = id_problems(video, clip.splits)
        problems += shape_problems(video, features.shape, features.dtype, self._dim, self._dtype)
        if video in self._records:
            problems.append(_duplicate(video))
        if problems:
            raise StoreError(problems)
        problems = annotation_problems(video, len(features), transcript, lengths, len(self._vocabulary))
        try:
            made = prepared(features, self._dtype, video)
        except StoreError as error:
            raise StoreError([*error.problems, *problems]) from None
        if problems:
            raise StoreError(problems)
        return PreparedClip(
            replace(clip, id=video, transcript=transcript, lengths=lengths),
            made,
            borrowed=np.may_share_memory(made.data, features),
        )

    def append(self, clip: PreparedClip) -> None:
        """Writes a clip that `prepare` returned.

        Raises:
            StoreError: a clip of this name exists already, or it cannot be written.
        """
        if self._folder is None:
            raise _not_entered(self._path)
        self._check_complete()
        facts, made = clip.clip, clip.made
        if facts.id in self._records:
            raise StoreError(_duplicate(facts.id))
        reach("storage.writer.add")
        self._complete = False  # until the clip is written: a failure that the caller catches must not be published
        with self._disk_failures():
            self._make_room(made.data.nbytes)
            self._records[facts.id] = Record(
                id=facts.id,
                group=None if facts.group is None else normal(facts.group),
                frames=len(made.data),
                transcript=facts.transcript,
                lengths=facts.lengths,
                splits=tuple(sorted(facts.splits, key=natural)),
                activity=None if facts.activity is None else normal(facts.activity),
                sha256=made.sha256,
                shard=len(self._shards),
                row_group=self._shard.row_groups if self._shard is not None else 0,
                first_row=self._pending_bytes // made.data[0].nbytes,
                statistics=made.statistics,
            )
            self._pending.append(made.data)
            self._pending_bytes += made.data.nbytes
            if self._pending_bytes >= self._limits.row_group_bytes:
                self._flush()
            elif clip.borrowed:  # the caller's array may change before the row group is written
                self._pending[-1] = made.data.copy()
        self.conversion = self.conversion.merged(made.conversion)
        self._complete = True

    def adopt(self, file: Path, shard: Shard, records: Iterable[Record]) -> None:
        """Takes over a file of features of another store of the same D and dtype, without reading it.

        Args:
            file: the file, which is linked or copied.
            shard: its entry in the manifest of that store.
            records: records of all clips in the file; their annotation may differ from that in the other store.

        Raises:
            StoreError: a record is invalid or has the id of another clip, or the file cannot be written.
        """
        self._check_complete()
        records = list(records)
        problems = []
        for record in records:
            problems += id_problems(record.id, record.splits)
            problems += annotation_problems(
                record.id, record.frames, record.transcript, record.lengths, len(self._vocabulary)
            )
            if record.id in self._records:
                problems.append(_duplicate(record.id))
        if problems:
            raise StoreError(problems)
        self._complete = False
        with self._disk_failures():
            self._flush()
            self._close_shard()
            name = shard_name(len(self._shards))
            link_file(file, self._staged.path / name)
            reach("storage.writer.adopt")
        self._records |= {record.id: replace(record, shard=len(self._shards)) for record in records}
        self._shards.append(replace(shard, file=name))
        self._complete = True

    def _make_room(self, n_bytes: int) -> None:
        """Closes the row group, and the shard, if a clip of that size would make it too large."""
        if self._pending and self._pending_bytes + n_bytes > self._limits.row_group_bytes:
            self._flush()
        if self._pending or self._shard is None:
            return
        # The next row group can grow to its limit.
        row_group_bytes = max(n_bytes, self._limits.row_group_bytes)
        if (
            self._shard.row_groups >= self._limits.shard_row_groups
            or self._shard.payload_bytes + row_group_bytes > self._limits.shard_bytes
        ):
            self._close_shard()

    def _flush(self) -> None:
        if not self._pending:
            return
        if self._shard is None:
            self._shard = ShardWriter(self._staged.path / shard_name(len(self._shards)), self._dim, self._dtype)
        self._shard.write_row_group(self._pending)
        self._pending, self._pending_bytes = [], 0

    def _close_shard(self) -> None:
        if self._shard is not None:
            self._shards.append(self._shard.close())
            self._shard = None

    def _check_complete(self) -> None:
        if not self._complete:
            message = "an earlier clip was not written completely"
            raise StoreError(
                Problem(rule="state", place=str(self._path), message=message, hint="write the store again")
            )

    def _finish(self) -> None:
        self._check_complete()
        if not self._records:
            raise StoreError(Problem(rule="missing", place=str(self._path), expected="at least one clip"))
        self._flush()
        self._close_shard()
        folder = self._staged.path
        records = self._records.values()
        pq.write_table(records_table(records), folder / VIDEOS, compression="zstd", write_page_checksum=True)
        reach("storage.writer.videos")
        digest, size = file_digest(folder / VIDEOS)
        manifest = Manifest(
            dim=self._dim,
            dtype=self._dtype,
            vocabulary=self._vocabulary,
            background=self._background,
            fps=self._times["fps"],
            window=self._times["window"],
            stride=self._times["stride"],
            offset=self._times["offset"],
            splits=tuple(sorted({part.split(":")[0] for record in records for part in record.splits}, key=natural)),
            n_videos=len(self._records),
            n_frames=sum(record.frames for record in records),
            videos=FileEntry(file=VIDEOS, bytes=size, sha256=digest),
            shards=tuple(self._shards),
            metadata=self._metadata,
        )
        write_file(folder / MANIFEST, manifest.to_json().encode())
        reach("storage.writer.manifest")
        self._staged.publish()

    @contextmanager
    def _disk_failures(self) -> Iterator[None]:
        """Converts an `OSError` to a `StoreError`."""
        try:
            yield
        except OSError as error:
            raise StoreError(
                Problem(
                    rule="unwritable",
                    place=str(self._path),
                    value=error.strerror,
                    message=f"cannot write the store ({error})",
                    hint="free some space or choose another path",
                )
            ) from error


def _duplicate(video: str) -> Problem:
    return Problem(rule="duplicate", place=video, value=video, message="a clip of this name exists already")


def _not_entered(path: Path) -> StoreError:
    message = "clips can only be added inside the `with` statement of the writer"
    return StoreError(Problem(rule="state", place=str(path), message=message))
