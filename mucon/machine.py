"""What the machine says of itself; needs nothing but the standard library."""

from __future__ import annotations

import platform
import resource
import sys
from pathlib import Path


def cpu_name() -> str:
    """The processor's name as the operating system tells it."""
    for line in _cpu_lines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def cpu_has_bfloat16() -> bool:
    """The processor multiplies bfloat16 numbers by instructions of its own (AVX512-BF16, AMX, Arm's BF16)."""
    words = {"avx512_bf16", "amx_bf16", "bf16"}
    return any(line.startswith(("flags", "Features")) and words & set(line.split()) for line in _cpu_lines())


def peak_memory() -> int:
    """The most bytes of memory that this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _cpu_lines() -> list[str]:
    info = Path("/proc/cpuinfo")
    return info.read_text().splitlines() if info.exists() else []
