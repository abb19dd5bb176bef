"""Where the values of a Parquet page begin: its header (Thrift, compact protocol), read and foretold.

Source: parquet.thrift, `PageHeader`; Thrift compact protocol specification.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from storage.schema import shard_options

_DATA_PAGE = 0
_PLAIN = 0
Buffer = bytes | memoryview


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What a page says of itself.

    Attributes:
        kind: 0 for a data page of version 1.
        stored_bytes: bytes of the page as it stands in the file.
        plain_bytes: bytes of the page without compression.
        n_values: values in it, None when it is no data page of version 1.
        encoding: 0 for PLAIN, None as above.
        header_bytes: bytes of the header itself.
    """

    kind: int
    stored_bytes: int
    plain_bytes: int
    n_values: int | None
    encoding: int | None
    header_bytes: int

    def is_plain(self, n_values: int, width: int) -> bool:
        """Whether the page holds exactly `n_values` values of `width` bytes, uncompressed, one after the other."""
        return (
            self.kind == _DATA_PAGE
            and self.encoding == _PLAIN
            and self.n_values == n_values
            and self.stored_bytes == self.plain_bytes == n_values * width
        )


def read_page_header(data: Buffer) -> PageHeader:
    """The header at the beginning of `data`.

    Raises:
        ValueError: these bytes are no page header.
    """
    reader = _Compact(data)
    try:
        fields = reader.struct()
        kind, plain, stored = (_number(fields[key]) for key in (1, 2, 3))
        inner = fields.get(5)
        values = _number(inner[1]) if isinstance(inner, dict) else None
        encoding = _number(inner[2]) if isinstance(inner, dict) else None
    except (IndexError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no Parquet page header: {error!r}") from error
    return PageHeader(kind, stored, plain, values, encoding, reader.position)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("a number was expected")
    return value


class _Compact:
    """Reads what a page header can hold: numbers, booleans, byte strings, structs and lists of these."""

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
                raise IndexError("a number of more than 64 bits")

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
                raise IndexError("a list longer than the data")
            return [self.byte() if head & 0x0F in (1, 2) else self.value(head & 0x0F) for _ in range(count)]
        if kind == 12:
            return self.struct()
        raise KeyError(f"type {kind}")

    def skip(self, count: int) -> bytes:
        taken = bytes(self.data[self.position : self.position + count])
        if len(taken) != count:
            raise IndexError("cut short")
        self.position += count
        return taken


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
    """Bytes of a page header of this pyarrow beside its four numbers, measured on a file of one frame in memory."""
    frame = bytes(schema.field(0).type.byte_width)
    sink = io.BytesIO()
    row = pa.Array.from_buffers(schema.field(0).type, 1, [None, pa.py_buffer(frame)])
    with pq.ParquetWriter(sink, schema, **shard_options()) as writer:
        writer.write_table(pa.Table.from_arrays([row], schema=schema))
    file = sink.getvalue()
    offset = pq.ParquetFile(io.BytesIO(file)).metadata.row_group(0).column(0).data_page_offset
    return read_page_header(memoryview(file)[offset:]).header_bytes - _variable_bytes(frame, 1)


def padding(position: int, fixed: int, data: Buffer, n_values: int, alignment: int) -> int:
    """Zero bytes to write at `position` so that the values of the page that follows begin aligned.

    Args:
        position: bytes in the file so far.
        fixed: from `fixed_header_bytes`.
        data: the page's bytes.
        n_values: values in the page.
        alignment: what the offset of the values shall be a multiple of.
    """
    return -(position + fixed + _variable_bytes(data, n_values)) % alignment
