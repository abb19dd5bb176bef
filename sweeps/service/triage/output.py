"""What a trial's process prints, kept for its log: the last part of standard output and error, native code's too."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

from storage.fencing import SupersededError
from sweeps.service.text import printable, redacted
from sweeps.service.trials.folder import TrialFolder

KEPT_BYTES = 64 * 1024
"""Bytes of a trial's output that are kept: the last ones."""
MOST_BYTES = 8 * KEPT_BYTES
"""Bytes at which the output of a running trial is cut to the last `KEPT_BYTES`."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at the size of a running trial's output."""


def tail(path: Path) -> str:
    """The last whole lines of a file, at most `KEPT_BYTES`, without secrets and control characters.

    Empty if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - KEPT_BYTES))
            content = file.read()
    except OSError:
        return ""
    if size > KEPT_BYTES:
        content = content.partition(b"\n")[2]
    lines = content.decode(errors="backslashreplace").replace("\r", "\n")
    return printable(redacted(lines))


def collect(folder: TrialFolder, raw: Path) -> None:
    """Adds the output of a process that has ended to a trial's log, of which the last part is kept.

    Args:
        folder: the trial's directory, with the right to write there.
        raw: what the process has printed; it is removed.

    Raises:
        SupersededError: another process has taken over the trial.
    """
    with contextlib.suppress(OSError):  # a log is not worth a trial
        text = tail(raw)
        if text:
            whole = (tail(folder.log_path) + text).encode()
            last = whole if len(whole) <= KEPT_BYTES else whole[-KEPT_BYTES:].partition(b"\n")[2]
            folder.writer.write(folder.log_path, last)
        raw.unlink(missing_ok=True)


@contextlib.contextmanager
def kept_output(folder: TrialFolder, raw: Path) -> Iterator[None]:
    """Adds what this process prints in the block to a trial's log, unless another process has taken over the trial.

    Args:
        folder: the trial's directory, with the right to write there.
        raw: where the output is written first, see `redirected`.
    """
    with redirected(raw):
        yield
    with contextlib.suppress(SupersededError):  # the successor continues `raw`
        collect(folder, raw)


@contextlib.contextmanager
def redirected(raw: Path) -> Iterator[None]:
    """Sends what this process prints in the block to a file, in which only its last part is kept.

    The file is not in the trial's directory, so that a process that has lost the trial changes nothing there. A process
    that is killed leaves it; the next attempt continues it.
    """
    try:
        raw.parent.mkdir(parents=True, exist_ok=True)
        target = os.open(raw, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:  # a full disk: the trial itself reports it
        yield
        return
    saved = {number: os.dup(number) for number in (1, 2)}
    ended = threading.Event()
    watcher = threading.Thread(target=_bounded, args=(raw, ended), name="output of a trial", daemon=True)
    try:
        _flush()
        for number in saved:
            os.dup2(target, number)
        watcher.start()
        with warnings.catch_warnings():  # each trial of a process shows its own warnings
            yield
    finally:
        _flush()
        for number, descriptor in saved.items():
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(target)
        ended.set()
        if watcher.ident is not None:
            watcher.join()


def _bounded(raw: Path, ended: threading.Event) -> None:
    """Cuts a file to its last part whenever it has become too long."""
    while not ended.wait(LOOK_SECONDS):
        with contextlib.suppress(OSError):
            if raw.stat().st_size > MOST_BYTES:
                with raw.open("rb") as file:
                    file.seek(-KEPT_BYTES, os.SEEK_END)
                    last = file.read()
                os.truncate(raw, 0)
                with raw.open("ab") as file:
                    file.write(last)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
