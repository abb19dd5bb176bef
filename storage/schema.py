"""The columns of the store's Parquet files, its file names and its limits: format 1 (see FORMAT.md)."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.errors import StoreError

FORMAT = "mucon-store"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
VIDEOS = "videos.parquet"
FRAME = "frame"
"""The one column of a shard."""
DTYPES = ("float16", "float32", "float64")
MAX_CLIP_BYTES = 2**31 - 2**16
"""A clip is one Parquet page, whose size is a signed 32-bit number."""
ALIGNMENT = 64
"""A page's bytes begin at a multiple of this in the file, so that mapped arrays are aligned."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a row group and a shard are closed.

    Attributes:
        row_group_bytes: a row group with more than one clip holds at most so many bytes of features.
        shard_row_groups: a shard holds at most so many row groups.
        shard_bytes: a shard with more than one row group holds at most so many bytes of features.
    """

    row_group_bytes: int = 4 * 2**20
    shard_row_groups: int = 4096
    shard_bytes: int = 2 * 2**30

    def __post_init__(self) -> None:
        if min(self.row_group_bytes, self.shard_row_groups, self.shard_bytes) < 1:
            raise StoreError(f"limits are at least 1, these are {self}: give positive numbers")


def little_endian(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of a stored value.

    Raises:
        StoreError: not one of `DTYPES`.
    """
    if dtype not in DTYPES:
        raise StoreError(f"a store's dtype is one of {', '.join(DTYPES)}, not {dtype!r}: choose one of them")
    return np.dtype(dtype).newbyteorder("<")


def shard_name(index: int) -> str:
    """`features-00000.parquet` and so on."""
    return f"features-{index:05d}.parquet"


def shard_schema(dim: int, dtype: str) -> pa.Schema:
    """One frame = one required value of `itemsize * dim` bytes; dtype and D in the metadata."""
    width = little_endian(dtype).itemsize * dim
    frame = pa.field(FRAME, pa.binary(width), nullable=False)
    return pa.schema([frame], metadata={"format_version": str(FORMAT_VERSION), "dtype": dtype, "dim": str(dim)})


def shard_options() -> dict[str, Any]:
    """Options of `pyarrow.parquet.ParquetWriter` that make a row group one plain, contiguous page."""
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
        options["max_rows_per_page"] = whole  # newer pyarrow cuts pages at 20,000 rows
    return options
