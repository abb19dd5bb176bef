"""Headers of Parquet pages, and the files of plain pages that shards are.

pyarrow needs several copies of a page to write it. A shard contains nothing but plain pages, so their bytes are written
as they are, between headers and a footer of the form that this pyarrow gives them.

Source: parquet.thrift, `PageHeader` and `FileMetaData`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from storage.format.schema import shard_options
from storage.format.thrift import Buffer, Value, parse, serialized

MAGIC = b"PAR1"
"""First and last bytes of a Parquet file."""

_DATA_PAGE = 0
_PLAIN = 0
_LENGTH_BYTES = 4


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
    try:
        header, size = parse(data)
        kind, plain, stored = (header[key].number for key in (1, 2, 3))
        values, encoding = (header[5][key].number for key in (1, 2)) if 5 in header.content else (None, None)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"invalid Parquet page header: {error!r}") from error
    return PageHeader(kind, stored, plain, values, encoding, size)


class Page(NamedTuple):
    """A row group of one plain page in a file.

    Attributes:
        offset: position of its header in the file.
        size: bytes of header and values.
        n_values: number of values.
    """

    offset: int
    size: int
    n_values: int


class PlainFile:
    """Form of a file of one column and plain pages without compression, taken from one of this pyarrow.

    Args:
        schema: the column, of `width` bytes per value.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.width = schema.field(0).type.byte_width
        sink = io.BytesIO()
        row = pa.Array.from_buffers(schema.field(0).type, 1, [None, pa.py_buffer(bytes(self.width))])
        with pq.ParquetWriter(sink, schema, **shard_options()) as writer:
            writer.write_table(pa.Table.from_arrays([row], schema=schema))
        data = sink.getvalue()
        self._header, _ = parse(data[len(MAGIC) :])
        end = len(data) - len(MAGIC) - _LENGTH_BYTES
        self._footer, _ = parse(data[end - int.from_bytes(data[end : end + _LENGTH_BYTES], "little") : end])

    def page_header(self, n_values: int, crc: int) -> bytes:
        """Returns the header of a page.

        Args:
            n_values: number of values.
            crc: CRC-32 of the page.
        """
        size, facts = n_values * self.width, self._header[5].updated({1: n_values})
        signed = crc - 2**32 if crc >= 2**31 else crc
        return serialized(self._header.updated({2: size, 3: size, 4: signed, 5: facts}))

    def footer(self, pages: Sequence[Page]) -> bytes:
        """Returns the bytes after the last page."""
        groups = replace(self._footer[4], content=[self._row_group(page) for page in pages])
        data = serialized(self._footer.updated({3: sum(page.n_values for page in pages), 4: groups}))
        return data + len(data).to_bytes(_LENGTH_BYTES, "little") + MAGIC

    def _row_group(self, page: Page) -> Value:
        group = self._footer[4][0]
        chunk = group[1][0]
        facts = chunk[3].updated({5: page.n_values, 6: page.size, 7: page.size, 9: page.offset})
        columns = replace(group[1], content=[chunk.updated({3: facts})])
        return group.updated({1: columns, 2: page.size, 3: page.n_values, 5: page.offset, 6: page.size})
