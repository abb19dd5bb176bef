"""Reads the header of a Parquet page (Thrift, compact protocol) and predicts its size, to locate the values.

Source: parquet.thrift, `PageHeader`; Thrift compact protocol specification.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from storage.format.schema import shard_options

_DATA_PAGE = 0
_PLAIN = 0
Buffer = bytes | memoryview


@dataclass(frozen=True, slots=True)
class PageHeader:
    """Header of a Parquet page.

    Attributes:
        kind: 0 for a data page of version 1.
        stored_bytes: size of the page in the file.
        plain_bytes: size of the page without compression.
        n_values: number of values, None for other pages than data pages of version 1.
        encoding: 0 for PLAIN, None as above.
        header_bytes: size of the header itself.
    """

    kind: int
    stored_bytes: int
    plain_bytes: int
    n_values: int | None
    encoding: int | None
    header_bytes: int

    def is_plain(self, n_values: int, width: int) -> bool:
        """Returns whether the page consists of `n_values` uncompressed values of `width` bytes, one after the other."""
        return (
            self.kind == _DATA_PAGE
            and self.encoding == _PLAIN
            and self.n_values == n_values
            and self.stored_bytes == self.plain_bytes == n_values * width
        )


def read_page_header(data: Buffer) -> PageHeader:
    """Parses the header at the beginning of `data`.

    Raises:
        ValueError: the bytes are not a page header.
    """
    reader = _Compact(data)
    try:
        fields = reader.struct()
        kind, plain, stored = (_number(fields[key]) for key in (1, 2, 3))
        inner = fields.get(5)
        values = _number(inner[1]) if isinstance(inner, dict) else None
        encoding = _number(inner[2]) if isinstance(inner, dict) else None
    except (IndexError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"invalid Parquet page header: {error!r}") from error
    return PageHeader(kind, stored, plain, values, encoding, reader.position)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("expected a number")
    return value


class _Compact:
    """Parses the values that occur in a page header: numbers, booleans, byte strings, structs and lists of these."""

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.position = 0

    def byte(self) -> int:
        value = self.data[self.position]
        self.position += 1
        return value

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise IndexError("number of more than 64 bits")

    def struct(self) -> dict[int, object]:
        fields: dict[int, object] = {}
        field = 0
        while True:
            head = self.byte()
            if head == 0:
                return fields
            delta, kind = head >> 4, head & 0x0F
            field = field + delta if delta else _unzigzag(self.varint())
            fields[field] = self.value(kind)

    def value(self, kind: int) -> object:
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return _unzigzag(self.varint())
        if kind == 7:
            return self.skip(8)
        if kind == 8:
            return self.skip(self.varint())
        if kind in (9, 10):
            head = self.byte()
            count = head >> 4 if head >> 4 != 15 else self.varint()
            if count > len(self.data) - self.position:
                raise IndexError("list longer than the data")
            return [self.byte() if head & 0x0F in (1, 2) else self.value(head & 0x0F) for _ in range(count)]
        if kind == 12:
            return self.struct()
        raise KeyError(f"type {kind}")

    def skip(self, count: int) -> bytes:
        data = bytes(self.data[self.position : self.position + count])
        if len(data) != count:
            raise IndexError("truncated data")
        self.position += count
        return data


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _varint_bytes(value: int) -> int:
    zigzag = (value << 1) ^ (value >> 31)
    return max(1, (zigzag.bit_length() + 6) // 7)


def _variable_bytes(data: Buffer, n_values: int) -> int:
    crc = zlib.crc32(data)
    signed = crc - 2**32 if crc >= 2**31 else crc
    return 2 * _varint_bytes(len(data)) + _varint_bytes(signed) + _varint_bytes(n_values)


def fixed_header_bytes(schema: pa.Schema) -> int:
    """Measures the size of this pyarrow's page header without its four numbers, on a file of one frame in memory."""
    frame = bytes(schema.field(0).type.byte_width)
    sink = io.BytesIO()
    row = pa.Array.from_buffers(schema.field(0).type, 1, [None, pa.py_buffer(frame)])
    with pq.ParquetWriter(sink, schema, **shard_options()) as writer:
        writer.write_table(pa.Table.from_arrays([row], schema=schema))
    file = sink.getvalue()
    offset = pq.ParquetFile(io.BytesIO(file)).metadata.row_group(0).column(0).data_page_offset
    return read_page_header(memoryview(file)[offset:]).header_bytes - _variable_bytes(frame, 1)


def padding(position: int, fixed: int, data: Buffer, n_values: int, alignment: int) -> int:
    """Returns how many zero bytes to write at `position` so that the values of the next page are aligned.

    Args:
        position: size of the file so far.
        fixed: result of `fixed_header_bytes`.
        data: bytes of the page.
        n_values: number of values in the page.
        alignment: divisor of the file offset of the values.
    """
    return -(position + fixed + _variable_bytes(data, n_values)) % alignment
