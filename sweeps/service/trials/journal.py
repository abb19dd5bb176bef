"""A trial's journal: one JSON object per line, appended and flushed; it can be read while it is being written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from storage.fencing import ALONE, Writer
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
        return _content(path.read_bytes())
    except FileNotFoundError:
        return Content([])
    except OSError as error:
        return Content([], str(error))


def _content(written: bytes) -> Content:
    records, damaged = [], None
    for number, line in enumerate(written.split(b"\n")[:-1], 1):
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


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, allow_nan=False, ensure_ascii=False).encode() + b"\n"


def last_status(records: list[Record]) -> Record | None:
    """The newest status record; None if there is none."""
    return next((record for record in reversed(records) if record["kind"] == "status"), None)


class Journal:
    """Appends to a journal; only the owner of the trial's lease opens one.

    Opening copies the whole lines to a new file, which replaces the old one: an earlier owner that is frozen between
    its look at the lease and its line appends to a file that nobody reads. A damaged journal is kept under another
    name. Each epoch has one record: an epoch after the last checkpoint that is trained again (to the same bits) keeps
    its first record, whose timestamp a tracking server may already have.

    Args:
        path: the file; it is created together with its folder.
        writer: the right to write.

    Raises:
        SupersededError: another process has taken over the trial.
    """

    def __init__(self, path: Path, writer: Writer = ALONE) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._writer = path, writer
        content = path.read_bytes() if path.is_file() else b""  # an error of the disk is no damage
        records, damaged = read(path) if path.is_dir() else _content(content)
        self._steps = {record["step"] for record in records if record["kind"] == "epoch"}
        if damaged is None:
            content = content[: content.rfind(b"\n") + 1]
        else:
            repair = {"kind": "repair", "timestamp": milliseconds(), "damaged": damaged}
            content = b"".join(map(_line, (*records, repair)))
        unfinished = writer.unfinished(path)
        with writer.writing():
            self._file = unfinished.open("wb")
            self._file.write(content)
            self._file.flush()
            if content:
                os.fsync(self._file.fileno())
            if damaged is not None:
                set_aside(path, writer)
            writer.confirm_for(path)
            unfinished.replace(path)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def append(self, record: Mapping[str, Any], *, durably: bool = False) -> None:
        """Appends one line in a single write and flushes it to the operating system, or durably to the disk.

        Raises:
            SupersededError: another process has taken over the trial.
            ValueError: a value is NaN or infinite, which JSON does not support.
        """
        line = _line(record)
        self._writer.confirm_for(self._path)
        self._file.write(line)
        self._file.flush()
        if durably:
            self.sync()

    def sync(self) -> None:
        """Flushes to the disk what was appended: a machine that loses power keeps it, as it keeps a checkpoint."""
        os.fsync(self._file.fileno())

    def epoch(self, step: int, metrics: Mapping[str, float], timestamp: int | None = None) -> bool:
        """Records the metrics of a finished epoch, unless the epoch already has a record.

        Args:
            step: the epoch, counted from 1.
            metrics: name -> value.
            timestamp: milliseconds since 1970; None: now.

        Returns:
            Whether a record was added.
        """
        if step in self._steps:
            return False
        timestamp = milliseconds() if timestamp is None else timestamp
        self.append({"kind": "epoch", "step": step, "timestamp": timestamp, "metrics": dict(metrics)})
        self._steps.add(step)
        return True

    def status(
        self, status: str, *, reason: str | None, host: str, pid: int, evaluation: str = "", **more: object
    ) -> None:
        """Records a change of the trial's state; durably if it ends, because its end determines what runs again.

        Args:
            status: the new state.
            reason: why, if the trial did not finish.
            host: name of the machine.
            pid: process number.
            evaluation: identity of the evaluation for which the trial runs.
            more: `failure` with facts of the error that ended the trial; `code` with which the trial itself failed, see
                `provenance.code`.
        """
        facts = {"reason": reason, "host": host, "pid": pid, **({"evaluation": evaluation} if evaluation else {})}
        self.append(
            {"kind": "status", "status": status, "timestamp": milliseconds(), **facts, **more},
            durably=status != "running",
        )
