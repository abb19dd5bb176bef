"""Columns and writer options of the Parquet files of store format 1 (see FORMAT.md)."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.constants import DTYPES, FORMAT_VERSION
from storage.errors import Problem, StoreError

FRAME = "frame"
"""The only column of a shard."""

VIDEOS_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("frames", pa.int64(), nullable=False),
        pa.field("transcript", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("lengths", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("splits", pa.list_(pa.field("element", pa.string(), nullable=False)), nullable=False),
        pa.field("activity", pa.string()),
        pa.field("sha256", pa.string(), nullable=False),
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("row_group", pa.int32(), nullable=False),
        pa.field("first_row", pa.int64(), nullable=False),
        pa.field("first_active", pa.int64()),
        pa.field("last_active", pa.int64()),
        pa.field("minimum", pa.float64(), nullable=False),
        pa.field("maximum", pa.float64(), nullable=False),
        pa.field("mean", pa.float64(), nullable=False),
        pa.field("std", pa.float64(), nullable=False),
    ]
)


def little_endian(dtype: str) -> np.dtype[Any]:
    """Returns the numpy dtype of stored values.

    Raises:
        StoreError: `dtype` is not one of `DTYPES`.
    """
    if dtype not in DTYPES:
        raise StoreError(Problem(rule="unknown", place="dtype", value=dtype, expected=f"one of {', '.join(DTYPES)}"))
    return np.dtype(dtype).newbyteorder("<")


def shard_schema(dim: int, dtype: str) -> pa.Schema:
    """Returns the schema of a shard: a frame is one required value of `itemsize * dim` bytes."""
    width = little_endian(dtype).itemsize * dim
    frame = pa.field(FRAME, pa.binary(width), nullable=False)
    return pa.schema([frame], metadata={"format_version": str(FORMAT_VERSION), "dtype": dtype, "dim": str(dim)})


def shard_options() -> dict[str, Any]:
    """Returns options of `pyarrow.parquet.ParquetWriter` that write each row group as one plain, contiguous page."""
    whole = 2**31 - 1
    options: dict[str, Any] = {
        "compression": "none",
        "use_dictionary": False,
        "write_statistics": False,
        "column_encoding": {FRAME: "PLAIN"},
        "data_page_version": "1.0",
        "data_page_size": whole,
        "write_batch_size": whole,
        "write_page_checksum": True,
    }
    if "max_rows_per_page" in inspect.signature(pq.ParquetWriter.__init__).parameters:
        options["max_rows_per_page"] = whole  # newer pyarrow starts a new page every 20,000 rows
    return options
