"""Names, choices and limits of store format 1 (see FORMAT.md).

Imports neither numpy nor pyarrow, so that command line parsers start fast.
"""

from __future__ import annotations

from dataclasses import dataclass

from storage.errors import Problem, StoreError

FORMAT = "mucon-store"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
VIDEOS = "videos.parquet"
DTYPES = ("float16", "float32", "float64")
MAX_CLIP_BYTES = 2**31 - 2**16
"""A clip, or several together, are one Parquet page, whose size is a signed 32-bit number."""
RESTORE_HINT = "copy or import the store again"
"""Hint of every problem with a damaged store."""
ALIGNMENT = 64
"""The values of a page begin at a multiple of this file offset, so that mapped arrays are aligned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes at which row groups and shards are closed; all at least 1.

    Attributes:
        row_group_bytes: most bytes of features in a row group with more than one clip; at most `MAX_CLIP_BYTES`.
        shard_row_groups: most row groups in a shard.
        shard_bytes: most bytes of features in a shard with more than one row group.

    Raises:
        StoreError: a limit is below 1, or a row group would not fit into one page.
    """

    row_group_bytes: int = 4 * 2**20
    shard_row_groups: int = 4096
    shard_bytes: int = 2 * 2**30

    def __post_init__(self) -> None:
        problems = [
            Problem(rule="range", place=name, value=getattr(self, name), expected="at least 1")
            for name in self.__dataclass_fields__
            if getattr(self, name) < 1
        ]
        if self.row_group_bytes > MAX_CLIP_BYTES:
            value, expected = self.row_group_bytes, f"at most {MAX_CLIP_BYTES}"
            problems.append(Problem(rule="range", place="row_group_bytes", value=value, expected=expected))
        if problems:
            raise StoreError(problems)


def shard_name(index: int) -> str:
    """Returns the file name of a shard, such as `features-00000.parquet`."""
    return f"features-{index:05d}.parquet"
