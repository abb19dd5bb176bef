"""What the process of a trial uses of its machine, measured at the end of each epoch."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

MEGABYTE = 2.0**20


class SystemUse:
    """A function that returns what this process uses; the CPU since its last call, or since it was made.

    Names: `system.cpu_percent` (100: one core), `system.memory_megabytes` (now) and, once torch has used a GPU,
    `system.gpu_memory_megabytes` (the most so far, without that of CUDA itself).
    """

    def __init__(self) -> None:
        self._last = self._now()

    def __call__(self) -> dict[str, float]:
        """Measures; leaves out what this system does not say."""
        (cpu, wall), self._last = self._last, self._now()
        found = {"system.cpu_percent": 100 * (self._last[0] - cpu) / max(self._last[1] - wall, 1e-9)}
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            found["system.memory_megabytes"] = pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE
        except OSError:  # not Linux
            pass
        torch = sys.modules.get("torch")  # whoever trains has imported it
        if torch is not None and torch.cuda.is_initialized():
            found["system.gpu_memory_megabytes"] = torch.cuda.max_memory_reserved() / MEGABYTE
        return found

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.process_time(), time.monotonic()
