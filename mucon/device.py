"""Devices and facts about the machine; torch is imported only where a GPU or a tensor is concerned."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mucon.errors import DataWarning, InputError, Problem

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "bfloat16"]

CUBLAS_WORKSPACE = ":4096:8"
"""Default of CUBLAS_WORKSPACE_CONFIG: a workspace of fixed size, without which the bits of products may change."""
CONTEXT_BYTES = 600 * 2**20
"""Memory that CUDA's context takes of each process, rounded up. It depends on the GPU and is not measured here."""
OLDEST_DRIVERS = {11: 450, 12: 525, 13: 580}
"""Major version of CUDA -> major version of its oldest driver on Linux. Source: NVIDIA, CUDA Compatibility, table 1."""


def usable_precision(requested: Precision, device: torch.device) -> Precision:
    """The requested precision, or float32 if the device has no instructions for bfloat16."""
    return _usable(requested, device.type)


def _usable(requested: Precision, kind: str) -> Precision:
    if requested == "float32":
        return requested
    if kind != "cuda":
        return "bfloat16" if cpu_has_bfloat16() else "float32"
    import torch

    return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"


def planned_precision(requested: Precision, device: str) -> Precision:
    """The precision of trainings on a kind of device that may be in other machines.

    Without a GPU here, the machines of a cluster are taken to have bfloat16; their workers check it.

    Args:
        requested: precision of the configuration.
        device: `cpu`, `cuda`, or `auto` for what the cluster has.
    """
    if requested == "float32":
        return requested
    if device == "cpu":
        return _usable(requested, "cpu")
    return _usable(requested, "cuda") if gpu_count() else requested


def choose_device(name: str) -> torch.device:
    """The device of a name; `auto` is the current GPU, or the CPU without one. A GPU always has its index.

    Sets CUBLAS_WORKSPACE_CONFIG unless the user has set it; cuBLAS reads it when CUDA starts.

    Raises:
        InputError: no such device on this machine.

    Warns:
        DataWarning: `auto` is the CPU although the machine has an NVIDIA driver.
    """
    import torch

    unknown = InputError(Problem(rule="unknown", place="--device", value=name, expected="auto, cpu, cuda or cuda:N"))
    try:
        device = torch.device("cuda" if name == "auto" else name)
    except RuntimeError as error:
        raise unknown from error
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise unknown
    set_cublas_workspace()
    n_gpus = gpu_count()
    reason = "" if n_gpus else unusable_gpu()
    if name == "auto" and not n_gpus:
        if reason:
            problem = Problem(rule="unsupported", place="--device", value=name, message=f"uses the CPU: {reason}")
            warnings.warn(DataWarning(problem), stacklevel=2)
        return torch.device("cpu")
    if (device.index or 0) >= n_gpus:
        message = f"cannot use {name!r}: torch finds {n_gpus} GPUs{f'; {reason}' if reason else ''}"
        raise InputError(Problem(rule="unsupported", place="--device", value=name, message=message))
    return torch.device("cuda", torch.cuda.current_device()) if device.index is None else device


def set_cublas_workspace() -> None:
    """Sets CUBLAS_WORKSPACE_CONFIG for this process and its children, unless the user has set it."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_WORKSPACE)


def gpu_count() -> int:
    """Number of GPUs that torch can use. Does not start CUDA, and leaves torch's warnings out."""
    if "torch" not in sys.modules and not _may_have_gpu():
        return 0
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _may_have_gpu() -> bool:
    """Whether torch could find a GPU: it finds none without CUDA's driver library, or AMD's device."""
    if sys.platform != "linux" or Path("/dev/kfd").exists():
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def unusable_gpu() -> str:
    """Why torch cannot use this machine's NVIDIA GPU; empty without a driver or if CUDA_VISIBLE_DEVICES hides it."""
    driver = nvidia_driver()
    if not driver or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1", "NoDevFiles"):
        return ""
    import torch

    cuda = torch.version.cuda
    if cuda is None:
        return f"this machine has the NVIDIA driver {driver}, but torch {torch.__version__} is built without CUDA"
    oldest = OLDEST_DRIVERS.get(int(cuda.split(".")[0]), 0)
    if int(driver.split(".")[0]) < oldest:
        return f"the NVIDIA driver {driver} is too old for torch with CUDA {cuda}, which needs {oldest} or newer"
    return f"torch with CUDA {cuda} finds no GPU behind the NVIDIA driver {driver}; a container needs access to it"


def nvidia_driver(version: Path = Path("/proc/driver/nvidia/version")) -> str:
    """Version of the NVIDIA driver; empty without one.

    Args:
        version: file of the driver; without it, as under WSL, `nvidia-smi` is asked.
    """
    if version.exists():
        text = version.read_text()
    elif shutil.which("nvidia-smi"):
        words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            text = subprocess.run(words, capture_output=True, text=True, check=False, timeout=10).stdout
        except (OSError, subprocess.SubprocessError):
            return ""
    else:
        return ""
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", text)
    return found.group() if found else ""


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Computes products of float32 numbers on a GPU without TF32, and with cuDNN's deterministic algorithms.

    Restores torch's flags afterwards. Nothing changes on a CPU.
    """
    import torch

    backends: Any = torch.backends
    cudnn, matmul = backends.cudnn, None
    with contextlib.suppress(RuntimeError):  # torch cannot tell it if the caller has set the newer flags
        matmul = torch.get_float32_matmul_precision()
    exact: list[tuple[Any, str, object]] = [(cudnn, "deterministic", True), (cudnn, "benchmark", False)]
    if hasattr(cudnn, "fp32_precision"):
        operations = (cudnn.conv, cudnn.rnn, backends.cuda.matmul, backends.mkldnn.matmul)
        exact += [(operation, "fp32_precision", "ieee") for operation in operations]
    else:  # torch before 2.9
        exact.append((cudnn, "allow_tf32", False))
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in exact]
    try:
        _set_flags(None if matmul is None else "highest", exact)
        yield
    finally:
        _set_flags(matmul, before)


def _set_flags(matmul: str | None, flags: list[tuple[Any, str, object]]) -> None:
    import torch

    if matmul is not None:  # torch refuses products if this older flag contradicts the newer ones
        torch.set_float32_matmul_precision(matmul)
    for owner, name, value in flags:
        setattr(owner, name, value)


def memory_fraction(share: float, total: int) -> float:
    """The part of a GPU's memory that torch may allocate in a process with a share of the GPU.

    CUDA itself takes `CONTEXT_BYTES` of each process, of which torch's allocator does not know.

    Args:
        share: share of the GPU, above 0 and at most 1.
        total: bytes of the GPU.

    >>> memory_fraction(0.25, 24000 * 2**20), memory_fraction(1.0, 24000 * 2**20), memory_fraction(0.01, 2**33)
    (0.225, 1.0, 0.005)
    """
    return share if share >= 1 else max(share - CONTEXT_BYTES / total, share / 2)


def limit_gpu_memory(share: float) -> None:
    """Limits this process to its share of the current GPU, so that it fails instead of the others that use the GPU.

    Args:
        share: share of the GPU; nothing is limited from 1 on.
    """
    set_cublas_workspace()  # before CUDA starts
    if 0 < share < 1 and gpu_count():
        import torch

        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        torch.cuda.set_per_process_memory_fraction(memory_fraction(share, total))


def gpu_facts(device: torch.device) -> dict[str, Any]:
    """What can change the bits of a GPU's arithmetic, as plain values; empty for a CPU."""
    if device.type != "cuda":
        return {}
    import torch

    return {
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "driver": nvidia_driver(),
        "tf32": False,
        "cublas_workspace": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    }


def training_line(device: torch.device, precision: Precision, *, n_videos: int, n_parameters: int) -> str:
    """The line that a training prints at its start.

    Args:
        device: where it computes.
        precision: the requested one; the line has what the device supports.
        n_videos: videos of an epoch.
        n_parameters: weights of the network.
    """
    where = f"{device_name(device)} ({device})"
    return f"training on {where} in {usable_precision(precision, device)}: {n_videos} videos, {n_parameters:,} weights"


def process_facts(device: torch.device, packages: Iterable[str]) -> dict[str, Any]:
    """Python, versions, machine and device of this process, as plain values.

    Args:
        device: where the process computes.
        packages: names of the packages whose versions are recorded if they are installed.
    """
    return {
        "python": platform.python_version(),
        "packages": {name: version for name in packages if (version := _version(name)) is not None},
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "device": str(device),
        "device_name": device_name(device),
        **gpu_facts(device),
    }


@functools.cache
def _version(package: str) -> str | None:
    """The version of a package; None if it is not installed. Reading the metadata takes a millisecond."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def device_name(device: torch.device) -> str:
    """Name of the GPU or of the CPU."""
    if device.type != "cuda":
        return cpu_name()
    import torch

    return torch.cuda.get_device_name(device)


@contextlib.contextmanager
def cpu_threads(number: int) -> Iterator[None]:
    """Computes with a number of CPU threads, on which the last bits depend, and restores the previous one."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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


def usable_cpus(cgroups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Number of cores that this process may use: its affinity, and the quota of its container rounded down.

    Args:
        cgroups: where the control groups of version 1 or 2 are mounted.
        own: file with the control groups of this process.

    Returns:
        At least 1.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(int(min([cores, *_quotas(cgroups, own)])), 1)


def _quotas(cgroups: Path, own: Path) -> Iterator[float]:
    """The quotas in cores of the control groups that contain this process, from the innermost to the root."""
    for line in own.read_text().splitlines() if own.exists() else []:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for root in (cgroups / controllers, cgroups / "cpu") if controllers else (cgroups,):
            group = root / path.lstrip("/")
            for folder in (group, *group.parents):
                if folder.is_relative_to(root) and (quota := _quota(folder)) is not None:
                    yield quota


def _quota(group: Path) -> float | None:
    """A control group's quota in cores; None without one."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
    except OSError:
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def peak_memory() -> int:
    """Peak memory of this process in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _cpu_lines() -> list[str]:
    info = Path("/proc/cpuinfo")
    return info.read_text().splitlines() if info.exists() else []
