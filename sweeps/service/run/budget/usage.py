"""What the trials of a sweep have used, recorded by a heartbeat of each trial in the sweep's own directory.

```
sweeps/NAME/usage/IDENTITY.json     the attempts at a training and its evaluations: seconds, cores and GPUs of each
```

Only the holder of a trial's lease writes its file. A process that is killed has recorded all but its last seconds.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mucon.errors import InputError
from storage.fencing import SupersededError, Writer
from sweeps.service.trials.json_files import NUMBER, read_json, set_aside, write_json

FORMAT_VERSION = 1
FOLDER = "usage"
HEARTBEAT_SECONDS = 2.0
"""Seconds between two records of a running trial."""
SHAPE = {"attempts": [{"started": str, "seconds": NUMBER, "cpus": NUMBER, "gpus": NUMBER}]}
HINT = "rename it: what it contains then no longer counts against the budget"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a trial has used.

    Attributes:
        seconds: wall time.
        cpu_seconds: wall time times cores.
        gpu_seconds: wall time times GPUs.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.seconds + other.seconds, self.cpu_seconds + other.cpu_seconds, self.gpu_seconds + other.gpu_seconds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where a trial records what it uses, and its share of the machine.

    Attributes:
        sweep: directory of the sweep that runs the trial.
        cpus: cores of the trial.
        gpus: GPUs of the trial.
        system: returns further metrics of an epoch, see `SystemUse`; by default none.
    """

    sweep: Path
    cpus: float
    gpus: float
    system: Callable[[], Mapping[str, float]] = dict

    @contextlib.contextmanager
    def metered(self, identity: str, confirm: Callable[[], None], every: float = HEARTBEAT_SECONDS) -> Iterator[None]:
        """Records the time of the block every few seconds and at its end.

        A disk that cannot be written costs records, not the trial.

        Args:
            identity: identity of the training.
            confirm: raises `SupersededError` once another process has taken over the trial; nothing is recorded then.
            every: seconds between two records.
        """
        path = usage_path(self.sweep, identity)
        ended, started = threading.Event(), time.monotonic()
        facts = {"started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cpus": self.cpus, "gpus": self.gpus}
        earlier = _attempts_to_keep(path)

        def record() -> None:
            with contextlib.suppress(OSError, SupersededError):
                attempts = [*earlier, {**facts, "seconds": round(time.monotonic() - started, 3)}]
                write_json(path, {"format_version": FORMAT_VERSION, "attempts": attempts}, Writer(confirm=confirm))

        def beat() -> None:
            while not ended.wait(every):
                record()

        thread = threading.Thread(target=beat, name=f"usage of {identity}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            record()


def usage_path(sweep: Path, identity: str) -> Path:
    """The file with the attempts at a training."""
    return sweep / FOLDER / f"{identity}.json"


def read_usage(sweep: Path, identity: str) -> Usage:
    """What a trial has used in a sweep.

    Raises:
        InputError: its record is damaged, unreadable or of another format version.
    """
    path = usage_path(sweep, identity)
    if not path.exists():
        return Usage()
    total = Usage()
    for attempt in _read(path):
        seconds = float(attempt["seconds"])
        total += Usage(seconds, seconds * attempt["cpus"], seconds * attempt["gpus"])
    return total


def read_all_usage(sweep: Path) -> dict[str, Usage]:
    """Identity -> what the trial has used in a sweep.

    Raises:
        InputError: a record is damaged, unreadable or of another format version.
    """
    return {path.stem: read_usage(sweep, path.stem) for path in sorted((sweep / FOLDER).glob("*.json"))}


def _read(path: Path) -> list[dict[str, Any]]:
    attempts: list[dict[str, Any]] = read_json(path, versions=(FORMAT_VERSION,), hint=HINT, shape=SHAPE)["attempts"]
    return attempts


def _attempts_to_keep(path: Path) -> list[dict[str, Any]]:
    """The earlier attempts; a damaged file is renamed, because a trial does not fail for its account."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            try:
                return _read(path)
            except InputError:
                set_aside(path)
    return []
