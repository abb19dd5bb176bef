"""Writes stores atomically."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage.constants import MANIFEST, VIDEOS, Limits, shard_name
from storage.errors import Problem, StoreError
from storage.failpoints import reach
from storage.folders import StagedFolder, write_file
from storage.format.arrays import Conversion, converted, statistics, value_problems
from storage.format.manifest import FileEntry, Manifest, Shard
from storage.format.records import Record, natural, records_table
from storage.format.rules import annotation_problems, header_problems, id_problems, shape_problems
from storage.format.shards import ShardWriter, as_bytes, file_digest
from storage.names import normal

if TYPE_CHECKING:
    from storage.layouts import Clip


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
        self._limits = limits or Limits()
        self._folder: StagedFolder | None = None
        self._records: dict[str, Record] = {}
        self._shards: list[Shard] = []
        self._shard: ShardWriter | None = None
        self._pending: list[NDArray[Any]] = []
        self._complete = True
        self.conversion = Conversion()

    def __enter__(self) -> Self:
        with self._disk_failures():
            self._folder = StagedFolder(self._path, marker=MANIFEST, replace=self._replace)
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
                if self._shard is not None:
                    self._shard.abandon()
                self._staged.discard()
            self._folder = None

    @property
    def _staged(self) -> StagedFolder:
        if self._folder is None:
            raise _not_entered(self._path)
        return self._folder

    def add_clip(self, clip: Clip) -> None:
        """Adds a clip of a layout, see `add`."""
        self.add(
            clip.id,
            clip.features,
            transcript=clip.transcript,
            lengths=clip.lengths,
            splits=clip.splits,
            group=clip.group,
            activity=clip.activity,
        )

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
        if self._folder is None:
            raise _not_entered(self._path)
        self._check_complete()
        id = normal(id)
        features = np.asarray(features)
        labels = None if transcript is None else [index(action) for action in transcript]
        frames = None if lengths is None else [index(length) for length in lengths]
        problems = id_problems(id, splits) + shape_problems(id, features.shape, features.dtype, self._dim, self._dtype)
        if id in self._records:
            problems.append(Problem(rule="duplicate", place=id, value=id, message="a clip of this name exists already"))
        if not problems:
            problems = value_problems(features, self._dtype, id)
            problems += annotation_problems(id, len(features), labels, frames, len(self._vocabulary))
        if problems:
            raise StoreError(problems)
        reach("storage.writer.add")
        data, change = converted(features, self._dtype)
        self._complete = False  # until the clip is written: a failure that the caller catches must not be published
        with self._disk_failures():
            self._make_room(data.nbytes)
            self._records[id] = Record(
                id=id,
                group=None if group is None else normal(group),
                frames=len(data),
                transcript=None if labels is None else tuple(labels),
                lengths=None if frames is None else tuple(frames),
                splits=tuple(sorted(splits, key=natural)),
                activity=None if activity is None else normal(activity),
                sha256=hashlib.sha256(as_bytes(data)).hexdigest(),
                shard=len(self._shards),
                row_group=self._shard.row_groups if self._shard is not None else 0,
                first_row=sum(len(clip) for clip in self._pending),
                statistics=statistics(data),
            )
            self._append(data, borrowed=np.may_share_memory(data, features))
        self.conversion = self.conversion.merged(change)
        self._complete = True

    def _append(self, data: NDArray[Any], *, borrowed: bool) -> None:
        """Adds a clip to the row group and writes the row group when it is full."""
        self._pending.append(data)
        if self._pending_bytes >= self._limits.row_group_bytes:
            self._flush()
        elif borrowed:  # the caller's array may change before the row group is written
            self._pending[-1] = data.copy()

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

    @property
    def _pending_bytes(self) -> int:
        return sum(clip.nbytes for clip in self._pending)

    def _flush(self) -> None:
        if not self._pending:
            return
        if self._shard is None:
            self._shard = ShardWriter(self._staged.path / shard_name(len(self._shards)), self._dim, self._dtype)
        self._shard.write_row_group(self._pending)
        self._pending = []

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


def _not_entered(path: Path) -> StoreError:
    message = "clips can only be added inside the `with` statement of the writer"
    return StoreError(Problem(rule="state", place=str(path), message=message))
