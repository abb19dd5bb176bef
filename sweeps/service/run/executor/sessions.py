"""Processes of one session of the operating system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def session_members(session: int) -> Iterator[tuple[int, str]]:
    """Number and name of each living process of a session of this machine; none on systems without /proc."""
    for folder in Path("/proc").glob("[0-9]*"):
        name, of = living(int(folder.name))
        if of == session:
            yield int(folder.name), name


def living(pid: int) -> tuple[str, int]:
    """Name and session of a process; no name and -1 if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "", -1
    name, fields = stat.split(" (", 1)[1].rsplit(")", 1)
    state, _, _, session = fields.split()[:4]
    return ("", -1) if state in "ZX" else (name, int(session))
