"""The file of a study: one operation per line, as optuna's journal storage writes and optuna-dashboard reads it."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

from mucon.errors import InputError, Problem
from storage.fencing import Writer
from sweeps.service.trials.json_files import damaged

FILE = "study.journal"
HINT = "rename the file to start the study again from its finished trainings"
_LOCK_SECONDS = 5
"""Seconds after which the lock of a killed process is removed; a line takes milliseconds."""


def open_journal(path: Path, writer: Writer) -> JournalStorage:
    """The study in a file, which is created if it is missing.

    A last line that a kill has cut off is removed: its operation is done again.

    Raises:
        InputError: the file is damaged or cannot be read.
        SupersededError: another process has taken over.
    """
    try:
        content = path.read_bytes()
        if cut := len(content) - content.rfind(b"\n") - 1:
            writer.confirm_for(path)
            os.truncate(path, len(content) - cut)
        for number, line in enumerate(content.split(b"\n")[:-1], 1):
            _check(path, number, line)
    except FileNotFoundError:
        writer.confirm_for(path)
    except OSError as error:
        message, hint = f"cannot be read ({error.strerror})", "try again, or make it readable"
        problem = Problem(rule="unreadable", place=str(path), value=error.errno, message=message, hint=hint)
        raise InputError(problem) from None
    try:
        return JournalStorage(_Backend(path, writer))
    except (KeyError, ValueError, TypeError, AttributeError, AssertionError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}", HINT) from None


def _check(path: Path, number: int, line: bytes) -> None:
    try:
        operation = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"line {number}: {error}", HINT) from None
    if not isinstance(operation, dict) or "op_code" not in operation:
        raise damaged(path, f"line {number}: no operation", HINT)


class _Backend(JournalFileBackend):  # type: ignore[misc]  # optuna is not followed
    """Appends whole lines or nothing, also on a full disk, and nothing once another process has taken over."""

    def __init__(self, path: Path, writer: Writer) -> None:
        super().__init__(str(path.absolute()), JournalFileSymlinkLock(str(path.absolute()), _LOCK_SECONDS))
        self._path, self._writer = path, writer

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self._writer.confirm_for(self._path)
        size = self._path.stat().st_size
        try:
            super().append_logs(logs)
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(self._path, size)
            raise
