"""Nodes of a real Ray cluster on loopback addresses, each in a session of the operating system of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.services import wait_until

RAY = Path(sys.executable).with_name("ray")


def session(process: int) -> int:
    """The session of a process; 0 if it has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[3])
    return 0


def members(of: int) -> list[int]:
    """The processes of a session."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if session(int(path.name)) == of]


@contextlib.contextmanager
def ray_node(words: list[str], log: Path, environment: dict[str, str], *inside: str) -> Iterator[int]:
    """Starts a node with the options of `ray start`, and kills it at the end; the value is its session.

    Args:
        words: the options.
        log: receives what it prints.
        environment: its variables.
        inside: words of a command that runs the command after them.
    """
    with log.open("wb") as file:
        line = [*inside, str(RAY), "start", *words]
        started = subprocess.Popen(line, stdout=file, stderr=file, env=environment, start_new_session=True)

    def killed() -> bool:
        for process in members(started.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return not members(started.pid)

    try:
        assert started.wait(240) == 0, log.read_text()
        yield started.pid
    finally:
        wait_until(killed, 30, "the end of a node")
