import hashlib
import io
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage.constants import DTYPES
from storage.format.pages import PageHeader, read_page_header
from storage.format.schema import shard_options, shard_schema
from storage.format.shards import ShardWriter


def write(rows: np.ndarray, **options) -> tuple[memoryview, pq.ColumnChunkMetaData]:
    schema = shard_schema(rows.shape[1], rows.dtype.name)
    column = pa.Array.from_buffers(schema.field(0).type, len(rows), [None, pa.py_buffer(rows)])
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, **{**shard_options(), **options}) as writer:
        writer.write_table(pa.Table.from_arrays([column], schema=schema), row_group_size=len(rows))
    data = memoryview(sink.getvalue())
    return data, pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40_000), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_header_locates_the_rows(n, dim, seed):
    rows = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float16)
    data, column = write(rows)
    header = read_page_header(data[column.data_page_offset :])
    assert header.is_plain(n, 2 * dim)
    assert header.header_bytes + header.stored_bytes == column.total_compressed_size
    start = column.data_page_offset + header.header_bytes
    assert data[start : start + rows.nbytes] == rows.tobytes()


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 3000), min_size=1, max_size=3), min_size=1, max_size=20),
    st.integers(1, 4),
    st.sampled_from(DTYPES),
    st.integers(0, 2**32 - 1),
)
def test_a_shard_has_the_bytes_of_a_file_of_pyarrow_with_padding(groups, dim, dtype, seed):
    rng, schema = np.random.default_rng(seed), shard_schema(dim, dtype)
    clips = [[rng.normal(size=(n, dim)).astype(dtype) for n in group] for group in groups]
    with tempfile.TemporaryDirectory() as folder:
        writer = ShardWriter(Path(folder) / "shard", dim, dtype)
        for group in clips:
            writer.write_row_group(group)
        shard = writer.close()
        ours = (Path(folder) / "shard").read_bytes()
    assert shard.sha256 == hashlib.sha256(ours).hexdigest()
    assert shard.frames == sum(map(sum, groups))
    metadata = pq.ParquetFile(io.BytesIO(ours)).metadata
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, **shard_options()) as theirs:
        for index, group in enumerate(clips):
            rows = np.concatenate(group)
            column = pa.Array.from_buffers(schema.field(0).type, len(rows), [None, pa.py_buffer(rows)])
            sink.write(bytes(metadata.row_group(index).column(0).data_page_offset - sink.tell()))
            theirs.write_table(pa.Table.from_arrays([column], schema=schema), row_group_size=len(rows))
    assert ours == sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd"},
        {"use_dictionary": True, "column_encoding": None},
        {"data_page_version": "2.0"},
        {"data_page_size": 100, "write_batch_size": 10},
    ],
    ids=["compressed", "dictionary", "page version 2", "several pages"],
)
def test_other_pages_are_not_taken_for_plain_ones(options):
    rows = np.zeros((200, 4), np.float32)
    data, column = write(rows, **options)
    header = read_page_header(data[column.data_page_offset :])
    whole = header.header_bytes + header.stored_bytes == column.total_compressed_size
    assert not (header.is_plain(200, 16) and whole)


def header_or_refusal(data: bytes) -> PageHeader | str:
    try:
        return read_page_header(data)
    except ValueError as error:
        return str(error)


@given(st.binary(max_size=80))
@example(b"\x15\0\x15\0\x15\0\x29\x05\0")  # an empty list in place of a header of values
def test_arbitrary_bytes_are_refused_or_parsed_and_never_crash(data):
    result = header_or_refusal(data)
    refused = isinstance(result, str) and "page header" in result
    assert refused or 0 < result.header_bytes <= len(data)


def test_a_truncated_header_is_refused():
    data, column = write(np.ones((10, 4), np.float32))
    begin = column.data_page_offset
    size = read_page_header(data[begin:]).header_bytes
    for cut in range(size):
        with pytest.raises(ValueError, match="page header"):
            read_page_header(data[begin : begin + cut])


def test_a_list_longer_than_the_data_is_refused():
    booleans = bytes([0x19, 0xF1]) + b"\xff" * 7 + b"\x7f"
    with pytest.raises(ValueError, match=r"IndexError.*list"):
        read_page_header(booleans + bytes(20))
