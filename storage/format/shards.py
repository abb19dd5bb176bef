"""Files of features: row groups of whole clips, each written as one plain page that readers map."""

from __future__ import annotations

import hashlib
import os
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage.constants import ALIGNMENT
from storage.errors import Problem, StoreError
from storage.failpoints import reach
from storage.format.manifest import Shard
from storage.format.pages import MAGIC, Page, PlainFile, read_page_header
from storage.format.schema import shard_schema

Bytes = NDArray[np.uint8]
_HEADER_BYTES = 256
_BLOCK_BYTES = 2**20
_FLUSH_BYTES = 2**26
_COPY_HINT = "copy the store again"


class ShardWriter:
    """Writes one shard, a row group at a time.

    While the file grows, a thread computes its checksum, and another one, which only waits, flushes a large file to
    disk.

    Args:
        path: path of the new file.
        dim: D.
        dtype: dtype of the values.
    """

    def __init__(self, path: Path, dim: int, dtype: str) -> None:
        self.path = path
        self.row_groups = 0
        self.frames = 0
        self.payload_bytes = 0
        self._form = PlainFile(shard_schema(dim, dtype))
        self._file = path.open("wb")
        self._file.write(MAGIC)
        self._pages: list[Page] = []
        self._written = path.open("rb", buffering=0)
        self._digest = hashlib.sha256()
        self._bytes = self._unflushed = 0
        self._follower, self._flusher = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._followed: deque[Future[None]] = deque()
        self._flush: Future[None] | None = None

    def write_row_group(self, clips: list[NDArray[Any]]) -> None:
        """Writes clips `[T D]`, C-ordered and of the dtype of the shard, one after the other as one page."""
        views = [as_bytes(clip) for clip in clips]
        size, crc = sum(map(len, views)), 0
        for view in views:
            crc = zlib.crc32(view, crc)
        n = size // self._form.width
        header = self._form.page_header(n, crc)
        offset = self._file.tell()
        pad = -(offset + len(header)) % ALIGNMENT
        self._file.write(bytes(pad) + header)
        for view in views:
            self._file.write(view)
        self._file.flush()
        self._pages.append(Page(offset + pad, len(header) + size, n))
        self.row_groups += 1
        self.frames += n
        self.payload_bytes += size
        self._followed.append(self._follower.submit(self._follow))
        while self._followed and self._followed[0].done():
            self._followed.popleft().result()
        self._unflushed += size
        if self._unflushed >= _FLUSH_BYTES and (self._flush is None or self._flush.done()):
            if self._flush is not None:
                self._flush.result()
            self._flush = self._flusher.submit(self._to_disk)
            self._unflushed = 0
        reach("storage.writer.row_group")

    def _follow(self) -> None:
        """Adds the new bytes of the file to its checksum."""
        while block := self._written.read(_BLOCK_BYTES):
            self._digest.update(block)
            self._bytes += len(block)

    def _to_disk(self) -> None:
        """Flushes the file; what is on disk and in the checksum leaves the memory, which others need more."""
        os.fsync(self._written.fileno())
        if hasattr(os, "posix_fadvise"):  # not on macOS
            os.posix_fadvise(self._written.fileno(), 0, self._bytes, os.POSIX_FADV_DONTNEED)

    def close(self) -> Shard:
        """Writes the footer, flushes the file to disk and returns its entry for the manifest."""
        self._file.write(self._form.footer(self._pages))
        self._file.close()
        reach("storage.writer.shard")
        for followed in (*self._followed, self._follower.submit(self._follow)):
            followed.result()
        if self._flush is not None:
            self._flush.result()
        os.fsync(self._written.fileno())
        self._release()
        return Shard(
            file=self.path.name,
            bytes=self._bytes,
            sha256=self._digest.hexdigest(),
            row_groups=self.row_groups,
            frames=self.frames,
        )

    def abandon(self) -> None:
        """Closes the file without writing a footer."""
        with suppress(OSError):  # of a disk that has failed; the reason is known already
            self._file.close()
        self._release()

    def _release(self) -> None:
        self._follower.shutdown(cancel_futures=True)
        self._flusher.shutdown(cancel_futures=True)
        self._written.close()


def file_digest(path: Path) -> tuple[str, int]:
    """Flushes a file to disk and returns its sha256 (hexadecimal) and its size."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size


def as_bytes(clip: NDArray[Any]) -> memoryview:
    """Returns the bytes of a C-ordered array without copying them."""
    return clip.reshape(-1).view(np.uint8).data


class ShardReader:
    """Reads rows of a shard: mapped where the layout allows, decoded by pyarrow otherwise.

    Supports any row groups, page size, compression and encoding. Only row groups of one plain, uncompressed page are
    mapped.

    Args:
        data: mapped file.
        width: bytes of a frame.
        place: path of the file, for the problems.

    Raises:
        StoreError: the file is not a Parquet file with one column of `width` bytes per frame.
    """

    def __init__(self, data: memoryview, width: int, place: str) -> None:
        self._data = data
        self._width = width
        self.place = place
        try:
            self._metadata = pq.ParquetFile(pa.BufferReader(pa.py_buffer(data))).metadata
        except (pa.ArrowException, OSError) as error:
            message = f"invalid Parquet file ({error})"
            raise StoreError(Problem(rule="unreadable", place=place, message=message, hint=_COPY_HINT)) from error
        column = self._metadata.schema.column(0)
        if self._metadata.num_columns != 1 or (column.physical_type, column.length) != ("FIXED_LEN_BYTE_ARRAY", width):
            raise StoreError(
                Problem(
                    rule="shape",
                    place=place,
                    value=[self._metadata.num_columns, column.physical_type, column.length],
                    message=f"expected one column of {width} bytes per frame, got {self._metadata.num_columns} "
                    f"columns, the first of type {column.physical_type} with {column.length} bytes",
                    hint=_COPY_HINT,
                )
            )
        counts = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]
        self.starts: list[int] = np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).tolist()
        self._offsets: dict[int, int | None] = {}

    @property
    def n_rows(self) -> int:
        """Frames in the file."""
        return self.starts[-1]

    def rows(self, start: int, stop: int) -> Bytes:
        """Returns the frames `start` to `stop` (exclusive) as read-only bytes, one after the other.

        Raises:
            StoreError: the file has fewer rows or cannot be read.
        """
        if stop > self.n_rows:
            raise StoreError(
                Problem(
                    rule="mismatch",
                    place=self.place,
                    value=self.n_rows,
                    expected=f"at least {stop} rows",
                    hint=_COPY_HINT,
                )
            )
        pieces = [self._piece(group, first, last) for group, first, last in self.groups(start, stop)]
        whole = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
        if len(whole) != (stop - start) * self._width:
            raise StoreError(
                Problem(
                    rule="damaged",
                    place=f"{self.place}, rows {start} to {stop}",
                    value=len(whole),
                    expected=f"{(stop - start) * self._width} bytes",
                    hint=_COPY_HINT,
                )
            )
        whole.flags.writeable = False
        return whole

    def groups(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yields `(row_group, first, last)` of the row groups with these rows, with rows counted in the group."""
        group = bisect_right(self.starts, start) - 1
        while start < stop:
            end = min(stop, self.starts[group + 1])
            if end > start:
                yield group, start - self.starts[group], end - self.starts[group]
            start = end
            group += 1

    def _piece(self, group: int, first: int, last: int) -> Bytes:
        offset = self.mapped_offset(group)
        if offset is None:
            return self._read(group, first, last)
        return np.frombuffer(
            self._data, np.uint8, count=(last - first) * self._width, offset=offset + first * self._width
        )

    def mapped_offset(self, group: int) -> int | None:
        """Returns the file offset of the values of a row group, None if they are not one plain, contiguous page."""
        if group not in self._offsets:
            self._offsets[group] = self._plain_offset(group)
        return self._offsets[group]

    def _plain_offset(self, group: int) -> int | None:
        rows = self._metadata.row_group(group)
        column = rows.column(0)
        begin, size = column.data_page_offset, column.total_compressed_size
        if column.compression != "UNCOMPRESSED" or column.has_dictionary_page or begin + size > len(self._data):
            return None
        try:
            header = read_page_header(self._data[begin : begin + _HEADER_BYTES])
        except ValueError:
            return None
        if not header.is_plain(rows.num_rows, self._width) or header.header_bytes + header.stored_bytes != size:
            return None
        return int(begin + header.header_bytes)

    def is_mapped(self, row: int, itemsize: int) -> bool:
        """Returns whether the row group of a row is mapped and its values are aligned."""
        offset = self.mapped_offset(bisect_right(self.starts, row) - 1)
        return offset is not None and offset % itemsize == 0

    def _read(self, group: int, first: int, last: int) -> Bytes:
        table = self._table(group, check=False)
        chunks = table.column(0).slice(first, last - first).chunks
        column = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        if column.null_count:
            raise StoreError(
                Problem(
                    rule="damaged",
                    place=f"{self.place}, row group {group}",
                    value=column.null_count,
                    message=f"null values instead of frames ({column.null_count})",
                    hint=_COPY_HINT,
                )
            )
        rows = np.frombuffer(
            column.buffers()[1],
            np.uint8,
            count=len(column) * self._width,
            offset=column.offset * self._width,
        )
        # A part of a row group would keep all of it in memory.
        return rows if len(column) == len(table) else rows.copy()

    def _table(self, group: int, *, check: bool) -> pa.Table:
        try:
            # One handle per call and no threads of Arrow: safe in threads and after a fork.
            file = pq.ParquetFile(
                pa.BufferReader(pa.py_buffer(self._data)),
                metadata=self._metadata,
                page_checksum_verification=check,
            )
            return file.read_row_group(group, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(
                Problem(
                    rule="unreadable",
                    place=f"{self.place}, row group {group}",
                    message=f"cannot read ({error})",
                    hint=_COPY_HINT,
                )
            ) from error

    def checksum_problem(self, group: int) -> Problem | None:
        """Compares the pages of a row group with their own checksums; returns None if they agree."""
        try:
            self._table(group, check=True)
        except StoreError as error:
            return error.problems[0]
        return None
