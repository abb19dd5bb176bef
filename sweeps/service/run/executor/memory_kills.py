"""Whether the kernel has killed a worker for lack of memory, which it does not tell anyone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

RECENT_SECONDS = 60.0
"""Seconds within which the death of a worker follows from a kill; its driver learns of it late on a busy machine."""


class MemoryKills:
    """The processes of this machine that the kernel has recently killed for lack of memory.

    The kernel counts those of all programs, so a kill explains the death of one worker, and only soon after it.

    Args:
        counters: file with the kernel's counters; without it there are no kills.
        clock: the time in seconds.
    """

    def __init__(self, counters: Path = Path("/proc/vmstat"), clock: Callable[[], float] = time.monotonic) -> None:
        self._counters, self._clock = counters, clock
        self._counted = self._count()
        self._unexplained: list[float] = []

    def look(self) -> None:
        """Records the time of new kills; must be called more often than each `RECENT_SECONDS`."""
        now, before = self._clock(), self._counted
        self._counted = self._count()
        recent = [kill for kill in self._unexplained if now - kill < RECENT_SECONDS]
        self._unexplained = [*recent, *[now] * (self._counted - before)]

    def take(self) -> bool:
        """Whether a kill explains the death of a worker of which the driver has just learned."""
        self.look()
        if not self._unexplained:
            return False
        del self._unexplained[0]
        return True

    def _count(self) -> int:
        try:
            lines = self._counters.read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
