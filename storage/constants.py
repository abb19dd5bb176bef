"""Names, choices and limits of store format 1 (see FORMAT.md).

Imports neither numpy nor pyarrow, so that command line parsers start fast.
"""

from __future__ import annotations

from dataclasses import dataclass

from storage.errors import StoreError

FORMAT = "mucon-store"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
VIDEOS = "videos.parquet"
DTYPES = ("float16", "float32", "float64")
MAX_CLIP_BYTES = 2**31 - 2**16
"""A clip is one Parquet page, whose size is a signed 32-bit number."""
ALIGNMENT = 64
"""The bytes of a page begin at a multiple of this file offset, so that mapped arrays are aligned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a row group and a shard are closed.

    Attributes:
        row_group_bytes: most bytes of features in a row group with more than one clip.
        shard_row_groups: most row groups in a shard.
        shard_bytes: most bytes of features in a shard with more than one row group.
    """

    row_group_bytes: int = 4 * 2**20
    shard_row_groups: int = 4096
    shard_bytes: int = 2 * 2**30

    def __post_init__(self) -> None:
        if min(self.row_group_bytes, self.shard_row_groups, self.shard_bytes) < 1:
            raise StoreError(f"limits are at least 1, these are {self}: give positive numbers")


def shard_name(index: int) -> str:
    """File name of a shard, such as `features-00000.parquet`."""
    return f"features-{index:05d}.parquet"
