"""Results of finished trials in one file of a sweep, so that the files of an unchanged trial are not parsed again.

The file is only a shortcut: an entry counts while inode, size and times of every file behind it are those of its
reading. Without the file, or with a damaged one, all trials are read.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from mucon.errors import InputError
from sweeps.service.trials.cell_results import Attempt, CellResult
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.json_files import ANY_KEY, NUMBER, SCORE, read_json, write_json

FILE = "known.json"
FORMAT_VERSION = 3
"""Raised whenever a result of the same files has another content."""
SETTLED_SECONDS = 2.0
"""A file that has changed so recently may change again without another time, and its trial has no stamp yet."""
SHAPE = {
    "results": {
        ANY_KEY: {
            **{"stamp": str, "n_videos": int, "scores": {ANY_KEY: {ANY_KEY: SCORE}}},
            "undefined": {ANY_KEY: {ANY_KEY: int}},
            **{"epoch": int, "since": (*NUMBER, type(None)), "ended": (*NUMBER, type(None))},
        }
    }
}


def stamp_of(folder: TrialFolder, evaluation: str) -> str:
    """Digest of inode, size and times of the files that tables and pages show of an evaluation.

    Empty if the evaluation is not finished, if a file has just changed, or in a directory of format 1.
    """
    path = str(folder.path)
    facts = [
        file_facts(f"{path}/{name}")  # pathlib takes longer than the system's call
        for name in (
            "result.json",
            f"evaluations/{evaluation}/result.json",
            "training.json",
            "trial.json",
            "journal.jsonl",
            "run/checkpoint/config.json",
        )
    ]
    if facts[0] is not None or facts[1] is None:
        return ""
    last = max(moment for one in facts if one is not None for moment in one[2:])
    settled = time.time_ns() - last > SETTLED_SECONDS * 1e9
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32] if settled else ""


def file_facts(path: str | Path) -> tuple[int, int, int, int] | None:
    """Inode, size, and times of the last changes of content and inode in nanoseconds; None without such a file."""
    try:
        facts = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def read_known(folder: Path) -> dict[str, CellResult]:
    """The results in a sweep's directory, by key of the cell; each counts only while its stamp does."""
    try:
        value = read_json(folder / FILE, versions=(FORMAT_VERSION,), hint="", shape=SHAPE)
    except InputError:
        return {}
    return {
        key: CellResult(
            State.FINISHED,
            scores=one["scores"],
            undefined=one["undefined"],
            n_videos=one["n_videos"],
            stamp=one["stamp"],
            attempt=Attempt(one["epoch"], one["since"], one["ended"]),
        )
        for key, one in value["results"].items()
    }


def write_known(folder: Path, results: Mapping[str, CellResult]) -> None:
    """Writes the finished results that have a stamp."""
    value = {
        key: {
            "stamp": result.stamp,
            "n_videos": result.n_videos,
            "scores": result.scores,
            "undefined": result.undefined,
            **result.attempt._asdict(),
        }
        for key, result in results.items()
        if result.is_finished and result.stamp
    }
    write_json(folder / FILE, {"format_version": FORMAT_VERSION, "results": value}, compact=True)
