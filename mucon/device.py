"""Devices and facts about the machine."""

from __future__ import annotations

import platform
import resource
import sys
from pathlib import Path
from typing import Literal

import torch

from mucon.errors import InputError, Problem

Precision = Literal["float32", "bfloat16"]


def usable_precision(requested: Precision, device: torch.device) -> Precision:
    """The requested precision, or float32 if the device has no instructions for bfloat16."""
    if requested == "bfloat16":
        supported = torch.cuda.is_bf16_supported() if device.type == "cuda" else cpu_has_bfloat16()
        return "bfloat16" if supported else "float32"
    return requested


def choose_device(name: str) -> torch.device:
    """The device of a name; `auto` is the first GPU, or the CPU without one.

    Raises:
        InputError: no such device on this machine.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    unknown = InputError(Problem(rule="unknown", place="--device", value=name, expected="auto, cpu, cuda or cuda:N"))
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise unknown from error
    if device.type not in ("cpu", "cuda"):
        raise unknown
    n_gpus = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= n_gpus:
        message = f"cannot use {name!r}: torch finds {n_gpus} GPUs"
        raise InputError(Problem(rule="unsupported", place="--device", value=name, message=message))
    return device


def cpu_name() -> str:
    """Name of the CPU as reported by the operating system."""
    for line in _cpu_lines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def cpu_has_bfloat16() -> bool:
    """Whether the CPU has instructions for products of bfloat16 numbers (AVX512-BF16, AMX or Arm's BF16)."""
    words = {"avx512_bf16", "amx_bf16", "bf16"}
    return any(line.startswith(("flags", "Features")) and words & set(line.split()) for line in _cpu_lines())


def peak_memory() -> int:
    """Peak memory of this process in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _cpu_lines() -> list[str]:
    info = Path("/proc/cpuinfo")
    return info.read_text().splitlines() if info.exists() else []
