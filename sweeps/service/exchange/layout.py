"""The columns of a results file: three tables in one Parquet file, named by the column `kind`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sweeps.service.tables.parquet import CELL_FIELDS
from sweeps.service.trials.provenance import PACKAGES

FORMAT_VERSION = 1
"""Version of the results file, see docs/results-file.md."""
KINDS = ("trials", "metrics", "videos")
CONTENT_KEY, DIGEST_KEY = b"mucon.results", b"mucon.digest"
"""Keys of the file's metadata: a JSON document with the version, the plan and the imported rows; and the digest."""
SETTING = "config."
"""Begins the names of columns with settings."""
RUNS = ".runs"
"""Ends the names of columns with predictions."""
ENVIRONMENT = ("host", "device", "device_name", "precision", "python", "platform", "git_commit")
"""Recorded facts that are columns of texts; those that name a place on the machine are left out."""
RUNS_TYPE = pa.list_(pa.struct([("action", pa.string()), ("start", pa.int64()), ("length", pa.int64())]))
COUNTS_TYPE = pa.list_(pa.struct([("score", pa.string()), ("videos", pa.int64())]))
TIME = pa.timestamp("ms")
"""In UTC."""
FIELDS = (
    pa.field("kind", pa.string(), nullable=False),
    *(pa.field(field.name, field.type) for field in CELL_FIELDS),
    pa.field("epochs", pa.int64()),
    pa.field("started", TIME),
    pa.field("ended", TIME),
    pa.field("weights_sha256", pa.string()),
    pa.field("test_videos", pa.int64()),
    pa.field("undefined", COUNTS_TYPE),
    *(pa.field(name, pa.string()) for name in ENVIRONMENT),
    pa.field("git_changed", pa.bool_()),
    *(pa.field(f"version.{name}", pa.string()) for name in PACKAGES),
    pa.field("epoch", pa.int64()),
    pa.field("time", TIME),
    pa.field("name", pa.string()),
    pa.field("value", pa.float64()),
    pa.field("video", pa.string()),
    pa.field("n_frames", pa.int64()),
)
"""The columns that every file has, before those with scores, predictions and settings."""


def column_of(values: Sequence[Any]) -> pa.Array:
    """Plain values as a typed column; as JSON texts if they have no common type.

    >>> [str(column_of(values).type) for values in ([1, None], [1, 0.5], [[1, 2], [3]], [None], [1, "a"])]
    ['int64', 'double', 'list<item: int64>', 'string', 'string']
    """
    try:
        column = pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError):
        column = None
    if column is not None and all(value is None for value in values):
        return column.cast(pa.string())
    if column is None or "null" in str(column.type):
        return pa.array([None if value is None else json.dumps(value, ensure_ascii=False) for value in values])
    return column


def digest_of(file: BinaryIO, n_bytes: int, content: bytes) -> str:
    """SHA-256 of the first bytes of a file, which contain the rows, and of the document about them.

    Args:
        file: the file, read from its beginning.
        n_bytes: bytes before the footer.
        content: the document.
    """
    found = hashlib.sha256(content)
    file.seek(0)
    while n_bytes > 0 and (part := file.read(min(n_bytes, 2**20))):
        found.update(part)
        n_bytes -= len(part)
    return found.hexdigest()


def rows_end(path: Path) -> int:
    """Bytes of a Parquet file before its footer."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        return file.tell() - int.from_bytes(file.read(4), "little")
