"""What is looked at and set before Ray starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from mucon.errors import InputError
from sweeps.service.run.ray_environment import is_cluster

GPU_SHARE = 0.25
"""Of a GPU for each trial, where one is found and nothing else is told."""
CPUS_WITH_GPU = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What each trial gets.

    Attributes:
        cpus: processor cores.
        gpus: graphics processors; less than one shares it.
    """

    cpus: float
    gpus: float

    def __str__(self) -> str:
        return f"{self.cpus:g} CPU and {self.gpus:g} GPU for each trial"

    def slots(self, nodes: Mapping[str, tuple[float, float]]) -> int:
        """How many trials run at a time.

        Args:
            nodes: name -> (cores, GPUs) of each machine.

        Raises:
            InputError: a trial fits on no machine, so that it would wait for ever.
        """
        fitting = sum(self._on(*there) for there in nodes.values())
        if not fitting:
            has = "; ".join(f"{name} has {cpus:g} CPU and {gpus:g} GPU" for name, (cpus, gpus) in nodes.items())
            raise InputError(
                f"a trial must fit on a machine, one of {self.cpus:g} CPU and {self.gpus:g} GPU does not ({has}): "
                "lower --cpus-per-trial or --gpus-per-trial"
            )
        return fitting

    def _on(self, cpus: float, gpus: float) -> int:
        by_cpu = int(cpus / self.cpus + 1e-9)
        if not self.gpus:
            return by_cpu
        whole = int(gpus / self.gpus + 1e-9) if self.gpus >= 1 else int(gpus) * int(1 / self.gpus + 1e-9)
        return min(by_cpu, whole)


def resources(cpus: str, gpus: str, *, n_gpus: int) -> Resources:
    """What `--cpus-per-trial` and `--gpus-per-trial` say, `auto` resolved.

    Args:
        cpus: a number above 0, or `auto`: 2 beside a GPU, else 1.
        gpus: a number of at least 0, or `auto`: 0.25 where there is a GPU, else 0.
        n_gpus: GPUs that trials may use here.

    Raises:
        InputError: not such a number.
    """
    share = (GPU_SHARE if n_gpus else 0.0) if gpus == "auto" else _number("--gpus-per-trial", gpus, 0.0)
    if share > 1 and share != int(share):
        raise InputError(f"--gpus-per-trial above 1 is a whole number, not {gpus}: use {int(share)}")
    cores = (CPUS_WITH_GPU if share else 1.0) if cpus == "auto" else _number("--cpus-per-trial", cpus, 0.01)
    return Resources(cpus=cores, gpus=share)


def cpu_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _number(option: str, text: str, least: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value < float("inf"):
        raise InputError(f"{option} is a number of at least {least:g} or auto, not {text!r}: correct it")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What each trial gets.

    Attributes:
        device: `cpu` or `cuda`, or as it was told.
        each: cores and GPUs.
        slots: trials at a time on this machine; None on a cluster, which is asked when the sweep starts.
    """

    device: str
    each: Resources
    slots: int | None


def place_trials(device: str, cpus: str, gpus: str) -> Placement:
    """What the command line's options come to on this machine, or on the cluster that RAY_ADDRESS names.

    Args:
        device: `auto`, `cpu` or `cuda`.
        cpus: for each trial, a number or `auto`.
        gpus: for each trial, a number or `auto`.

    Raises:
        InputError: no such numbers, or a trial that does not fit on this machine.
    """
    n_gpus = 0 if device == "cpu" else torch.cuda.device_count()
    each = resources(cpus, gpus, n_gpus=n_gpus)
    slots = None if is_cluster() else each.slots({"this machine": (cpu_count(), n_gpus)})
    return Placement(device=device if device != "auto" else "cuda" if each.gpus else "cpu", each=each, slots=slots)
