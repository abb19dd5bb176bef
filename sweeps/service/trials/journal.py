"""A trial's journal: one JSON object per line, appended and flushed; it can be read while it is being written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sweeps.service.trials.json_files import ANY_KEY, SCORE, misfit, set_aside

Record = dict[str, Any]
SHAPES: dict[str, dict[str, Any]] = {
    "epoch": {"step": int, "timestamp": int, "metrics": {ANY_KEY: SCORE}},
    "status": {"status": str, "timestamp": int, "reason": (str, type(None)), "host": str, "pid": int},
    "environment": {"timestamp": int},
}
"""The shape of the records of each kind; other kinds have any."""
DEFAULTS: dict[str, Record] = {"epoch": {"timestamp": 0, "metrics": {}}}
"""What a record of a kind may lack."""


class Content(NamedTuple):
    """What a journal contains.

    Attributes:
        records: the records of the whole lines.
        damaged: the first line that is no record, from 1, and what is wrong with it; None without such a line.
    """

    records: list[Record]
    damaged: str | None = None


def milliseconds() -> int:
    """The current time in whole milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def read(path: Path) -> Content:
    """Reads the complete lines of a journal; a missing file is an empty journal.

    A last line without a line feed is still being written or was cut off by a kill, and is left out.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return Content([])
    except OSError as error:
        return Content([], str(error))
    records, damaged = [], None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record, wrong = _parsed(line)
        if wrong:
            damaged = damaged or f"line {number}: {wrong}"
        else:
            records.append(record)
    return Content(records, damaged)


def _parsed(line: bytes) -> tuple[Record, str]:
    """The record of a line, and what is wrong with it."""
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        return {}, str(error)
    if wrong := misfit(record, {"kind": str}):
        return {}, wrong
    record = {**DEFAULTS.get(record["kind"], {}), **record}
    return record, misfit(record, SHAPES.get(record["kind"], {}))


def last_status(records: list[Record]) -> Record | None:
    """The newest status record; None if there is none."""
    return next((record for record in reversed(records) if record["kind"] == "status"), None)


class Journal:
    """Appends to a journal; only the owner of the trial's lease opens one.

    Opening removes an incomplete last line. A damaged journal is renamed, and its whole lines are kept. Each epoch has
    one record: an epoch after the last checkpoint that is trained again (to the same bits) keeps its first record,
    whose timestamp a tracking server may already have.

    Args:
        path: the file; it is created together with its folder.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            path.read_bytes()  # an error of the disk is no damage
        records, damaged = read(path)
        self._steps = {record["step"] for record in records if record["kind"] == "epoch"}
        if damaged is None:
            self._file = path.open("ab")
            self._file.truncate(path.read_bytes().rfind(b"\n") + 1)
        else:
            repaired = path.with_name(f".{path.name}.{os.getpid()}")
            self._file = repaired.open("wb")
            for record in (*records, {"kind": "repair", "timestamp": milliseconds(), "damaged": damaged}):
                self.append(record)
            os.fsync(self._file.fileno())
            set_aside(path)
            repaired.replace(path)

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
