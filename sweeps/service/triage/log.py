"""What a trial has recorded and printed, as readable lines."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from mucon.errors import InputError
from sweeps.service.text import printable, redacted
from sweeps.service.triage.output import tail
from sweeps.service.trials import journal, lease
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.journal import Record
from sweeps.service.trials.reading import LOSS, TrialReading, accuracy_of
from sweeps.service.trials.results_folder import ResultsFolder

FACTS = ("host", "device", "device_name", "threads", "precision", "python", "git_commit", "damaged", "evaluations")
"""Facts of an environment, a repair or a merge that its line shows, besides the version of torch."""


def journal_lines(folder: TrialFolder) -> list[str]:
    """One line per record of a journal, and one for the first damaged line of the file."""
    records, damaged = journal.read(folder.journal_path)
    epochs = _epochs(folder)
    lines = [f"{_clock(record)}  {_text(record, epochs)}" for record in records]
    return [*lines, *([f"damaged journal: {damaged}"] if damaged else [])]


def traceback_lines(folder: TrialFolder) -> list[str]:
    """The traceback of the last attempt; empty if it did not fail with one."""
    try:
        return printable(folder.traceback_path.read_text(encoding="utf-8", errors="replace")).splitlines()
    except OSError:
        return []


def output_lines(folder: TrialFolder) -> list[str]:
    """The last part of what the trial's processes printed, including a running one."""
    raw = ResultsFolder(folder.path.parent.parent).output(folder.identity)
    return (tail(folder.log_path) + tail(raw)).splitlines()


def log_lines(folder: TrialFolder, n: int) -> Iterator[str]:
    """The last `n` lines of a trial's journal, of its traceback and of its output, with a heading for the last two."""
    yield from journal_lines(folder)[-n:]
    for title, lines in (("traceback", traceback_lines(folder)), ("output", output_lines(folder))):
        if lines:
            yield f"--- {title}"
            yield from lines[-n:]


def follow(folder: TrialFolder, sweeps: Iterable[Path], wait: Callable[[], bool]) -> Iterator[str]:
    """The lines that a trial's journal and output get from now on, until no process runs it.

    Args:
        folder: the trial's directory.
        sweeps: scratch directories of the sweeps that contain it; while one of them runs, a trial without any attempt
            is waited for.
        wait: waits for a moment; returns whether to look again.
    """
    seen, printed = len(journal_lines(folder)), output_lines(folder)

    def is_running() -> bool:
        begins = not folder.journal_path.exists() and any(lease.holder(path) is not None for path in sweeps)
        return begins or lease.holder(folder.path) is not None

    runs = is_running()
    while runs and wait():
        runs = is_running()  # before the lines, so that the last ones are shown
        lines, output = journal_lines(folder), output_lines(folder)
        yield from lines[seen:]
        yield from _added(printed, output)
        seen, printed = len(lines), output
    if not runs:
        raised = traceback_lines(folder)
        yield from ["--- traceback", *raised] if raised else []


def _added(before: list[str], after: list[str]) -> list[str]:
    """The lines of `after` that follow `before`, whose beginning may have been cut off.

    >>> _added(["a", "b", "c"], ["b", "c", "d"]), _added([], ["a"]), _added(["a"], ["x", "y"])
    (['d'], ['a'], ['x', 'y'])
    """
    shared = next((n for n in range(min(len(before), len(after)), 0, -1) if before[-n:] == after[:n]), 0)
    return after[shared:]


def _epochs(folder: TrialFolder) -> str:
    """`/N`, the number of epochs of the training; empty if trial.json cannot be read."""
    with contextlib.suppress(InputError, KeyError, TypeError):
        return f"/{TrialReading(folder).trial['config']['training']['epochs']}"
    return ""


def _clock(record: Record) -> str:
    seconds = record.get("timestamp", record.get("at", 0))
    seconds = seconds / 1000 if isinstance(seconds, int | float) and 0 <= seconds < 1e14 else 0
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _text(record: Record, epochs: str) -> str:
    if record["kind"] == "epoch":
        loss, accuracy = record["metrics"].get(LOSS), accuracy_of(record["metrics"])
        text = f"epoch {record['step']}{epochs}{'' if loss is None else f'  loss {loss:.4f}'}"
        return text + ("" if accuracy is None else f"  training MoF {100 * accuracy:.1f} %")
    if record["kind"] == "status":
        reason = f": {record['reason']}" if record["reason"] else ""
        return _line(f"{record['status']}{reason} (process {record['pid']} on {record['host']})")
    if "text" in record:
        return _line(str(record["text"]))
    facts: dict[str, Any] = {name: record[name] for name in FACTS if name in record}
    packages = record.get("packages")
    if isinstance(packages, dict) and "torch" in packages:
        facts["torch"] = packages["torch"]
    return _line(f"{record['kind']}: {', '.join(f'{name} {value}' for name, value in facts.items())}")


def _line(text: str) -> str:
    return printable(redacted(" ".join(text.split("\n"))))
