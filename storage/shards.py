"""Files of features: row groups of whole clips, each one plain page that readers map."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage.constants import ALIGNMENT
from storage.errors import StoreError
from storage.failpoints import reach
from storage.manifest import Shard
from storage.pages import fixed_header_bytes, padding, read_page_header
from storage.schema import FRAME, shard_options, shard_schema

Bytes = NDArray[np.uint8]
_HEADER_BYTES = 256


class ShardWriter:
    """Writes one shard, a row group at a time.

    Args:
        path: of the new file.
        dim: D.
        dtype: of the values.
    """

    def __init__(self, path: Path, dim: int, dtype: str) -> None:
        self.path = path
        self.row_groups = 0
        self.frames = 0
        self.payload_bytes = 0
        self._schema = shard_schema(dim, dtype)
        self._width = self._schema.field(FRAME).type.byte_width
        self._fixed = fixed_header_bytes(self._schema)
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pq.ParquetWriter(self._sink, self._schema, **shard_options())

    def write_row_group(self, clips: list[NDArray[Any]]) -> None:
        """Writes clips `[T D]`, C-ordered and of the shard's dtype, one after the other as one page."""
        data = _joined(clips)
        n = len(data) // self._width
        self._sink.write(bytes(padding(self._sink.tell(), self._fixed, data, n, ALIGNMENT)))
        column = pa.Array.from_buffers(self._schema.field(FRAME).type, n, [None, pa.py_buffer(data)])
        self._writer.write_table(pa.Table.from_arrays([column], schema=self._schema), row_group_size=n)
        self.row_groups += 1
        self.frames += n
        self.payload_bytes += len(data)
        reach("storage.writer.row_group")

    def close(self) -> Shard:
        """Writes the footer, flushes the file to the disk and describes it."""
        self._writer.close()
        self._sink.close()
        reach("storage.writer.shard")
        digest, size = file_digest(self.path)
        return Shard(file=self.path.name, bytes=size, sha256=digest, row_groups=self.row_groups, frames=self.frames)

    def abandon(self) -> None:
        """Closes the file as it is, without a footer."""
        self._writer.is_open = False  # or its finaliser would write one to a closed file
        self._sink.close()


def _joined(clips: list[NDArray[Any]]) -> memoryview:
    views = [as_bytes(clip) for clip in clips]
    return views[0] if len(views) == 1 else memoryview(b"".join(views))


def file_digest(path: Path) -> tuple[str, int]:
    """sha256 (hexadecimal) and size of a file, which is flushed to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size


def as_bytes(clip: NDArray[Any]) -> memoryview:
    """The bytes of a C-ordered array, without copying them."""
    return clip.reshape(-1).view(np.uint8).data


class ShardReader:
    """Rows of a shard, mapped where the layout allows and read by pyarrow otherwise.

    Any row-group layout, page size, compression and encoding is read; only one plain, uncompressed page per row group
    is mapped.

    Args:
        data: the mapped file.
        width: bytes of a frame.
        place: path of the file, for the problems.

    Raises:
        StoreError: no Parquet file, or one whose column is not frames of `width` bytes.
    """

    def __init__(self, data: memoryview, width: int, place: str) -> None:
        self._data = data
        self._width = width
        self.place = place
        try:
            self._metadata = pq.ParquetFile(pa.BufferReader(pa.py_buffer(data))).metadata
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"a shard is a Parquet file, {place} is not ({error}): copy it again") from error
        column = self._metadata.schema.column(0)
        if self._metadata.num_columns != 1 or (column.physical_type, column.length) != ("FIXED_LEN_BYTE_ARRAY", width):
            raise StoreError(
                f"a shard has one column of {width} bytes a frame, {place} has {self._metadata.num_columns} columns, "
                f"the first {column.physical_type} of {column.length}: copy it again"
            )
        counts = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]
        self.starts: list[int] = np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).tolist()
        self._offsets: dict[int, int | None] = {}

    @property
    def n_rows(self) -> int:
        """Frames in the file."""
        return self.starts[-1]

    def rows(self, start: int, stop: int) -> Bytes:
        """Frames `start` to `stop` (exclusive) as read-only bytes, one after the other.

        Raises:
            StoreError: the file has fewer rows or cannot be read.
        """
        if stop > self.n_rows:
            raise StoreError(
                f"{self.place} has {self.n_rows} rows, rows {start} to {stop} are asked for: copy the store again"
            )
        pieces = [self._piece(group, first, last) for group, first, last in self._groups(start, stop)]
        whole = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
        if len(whole) != (stop - start) * self._width:
            raise StoreError(
                f"rows {start} to {stop} of {self.place} are {(stop - start) * self._width} bytes, {len(whole)} can be "
                "read: copy the store again"
            )
        whole.flags.writeable = False
        return whole

    def _groups(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """`(row_group, first_row, last_row)` of the row groups that hold these rows, rows counted in the group."""
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
        """Where in the file the values of a row group begin, None where they are not one plain, contiguous page."""
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
        """Whether the row group of a row is mapped, and its values aligned."""
        offset = self.mapped_offset(bisect_right(self.starts, row) - 1)
        return offset is not None and offset % itemsize == 0

    def _read(self, group: int, first: int, last: int) -> Bytes:
        table = self._table(group, check=False)
        column = table.column(0).slice(first, last - first).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        if column.null_count:
            raise StoreError(f"a frame is never null, row group {group} of {self.place} has nulls: copy it again")
        return np.frombuffer(
            column.buffers()[1],
            np.uint8,
            count=len(column) * self._width,
            offset=column.offset * self._width,
        )

    def _table(self, group: int, *, check: bool) -> pa.Table:
        try:
            # One handle per call and no threads: safe in threads and after a fork.
            file = pq.ParquetFile(
                pa.BufferReader(pa.py_buffer(self._data)),
                metadata=self._metadata,
                page_checksum_verification=check,
            )
            return file.read_row_group(group, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(
                f"row group {group} of {self.place} cannot be read ({error}): copy the store again"
            ) from error

    def checksum_problem(self, group: int) -> str | None:
        """What is wrong with the pages of a row group by their own checksums, None when they agree."""
        try:
            self._table(group, check=True)
        except StoreError as error:
            return error.problems[0]
        return None
