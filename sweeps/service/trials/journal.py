"""A trial's journal: one JSON object per line, appended and flushed; it can be read while it is being written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def milliseconds() -> int:
    """The current time in whole milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def read(path: Path, offset: int = 0) -> tuple[list[Record], int]:
    """Reads the complete lines of a journal from an offset on.

    A last line without a line feed is still being written or was cut off by a kill; the next call reads it.

    Args:
        path: the journal; a missing file is an empty journal.
        offset: bytes already read; an offset beyond the end of the file (the file was cut) restarts at 0.

    Returns:
        The records and the offset for the next call.
    """
    try:
        with path.open("rb") as file:
            if offset > os.fstat(file.fileno()).st_size:
                offset = 0
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], 0
    whole = data[: data.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines() if line.strip()], offset + len(whole)


def last_status(records: list[Record]) -> Record | None:
    """The newest status record; None if there is none."""
    return next((record for record in reversed(records) if record["kind"] == "status"), None)


class Journal:
    """Appends to a journal; only the owner of the trial's lease opens one.

    Opening removes an incomplete last line. Each epoch has one record: an epoch after the last checkpoint that is
    trained again (to the same bits) keeps its first record, whose timestamp a tracking server may already have.

    Args:
        path: the file; it is created together with its folder.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        records, end = read(path)
        self._steps = {record["step"] for record in records if record["kind"] == "epoch"}
        self._file = path.open("ab")
        self._file.truncate(end)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def append(self, record: Mapping[str, Any]) -> None:
        """Appends one line in a single write and flushes it to the operating system.

        Raises:
            ValueError: a value is NaN or infinite, which JSON does not support.
        """
        line = json.dumps(record, allow_nan=False, ensure_ascii=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def epoch(self, step: int, metrics: Mapping[str, float]) -> bool:
        """Records the metrics of a finished epoch, unless the epoch already has a record.

        Returns:
            Whether a record was added.
        """
        if step in self._steps:
            return False
        self.append({"kind": "epoch", "step": step, "timestamp": milliseconds(), "metrics": dict(metrics)})
        self._steps.add(step)
        return True

    def status(self, status: str, *, reason: str | None, host: str, pid: int) -> None:
        """Records a change of the trial's state durably, because the state determines what runs again."""
        self.append(
            {
                "kind": "status",
                "status": status,
                "timestamp": milliseconds(),
                "reason": reason,
                "host": host,
                "pid": pid,
            }
        )
        os.fsync(self._file.fileno())
