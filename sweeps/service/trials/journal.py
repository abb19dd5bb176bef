"""A trial's journal: one JSON object a line, appended and flushed, read while it is being written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def milliseconds() -> int:
    """Now, in whole milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def read(path: Path, offset: int = 0) -> tuple[list[Record], int]:
    """The whole lines of a journal behind a place, and the place behind the last of them.

    A last line without its line feed is being written, or was torn by a kill: it is left for the next call.

    Args:
        path: the journal; a file that does not exist is an empty journal.
        offset: bytes already read; one behind the end of the file (it was cut) begins anew at the file's start.

    Returns:
        The records, and the offset for the next call.
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
    """The newest status record, or None."""
    return next((record for record in reversed(records) if record["kind"] == "status"), None)


class Journal:
    """Appends to a journal; only the owner of the trial's lease opens one.

    Opening cuts a torn last line. An epoch's record is made once: when an epoch behind the last checkpoint is trained
    again (to the same bits), its record stands already, with the timestamp under which it was perhaps sent, and is
    not repeated.

    Args:
        path: the file; it is created with its folder.
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
        """Closes the file; what was appended is on disk."""
        self._file.close()

    def append(self, record: Mapping[str, Any]) -> None:
        """One line, in a single write, flushed to the operating system.

        Raises:
            ValueError: a value is NaN or infinite, which JSON cannot say.
        """
        line = json.dumps(record, allow_nan=False, ensure_ascii=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def epoch(self, step: int, metrics: Mapping[str, float]) -> bool:
        """The metrics of a finished epoch, unless that epoch has a record already.

        Returns:
            Whether a record was made.
        """
        if step in self._steps:
            return False
        self.append({"kind": "epoch", "step": step, "timestamp": milliseconds(), "metrics": dict(metrics)})
        self._steps.add(step)
        return True

    def status(self, status: str, *, reason: str | None, host: str, pid: int) -> None:
        """A change of the trial's state, with its reason; made durable, because a state decides what runs again."""
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
