"""Where a sweep's trials compute, and how many of them at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sweeps.service.run import resources as preflight
from sweeps.service.run.resources import Resources


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
    each = preflight.resources(cpus, gpus, n_gpus=n_gpus)
    slots = None if preflight.is_cluster() else each.slots({"this machine": (preflight.cpu_count(), n_gpus)})
    return Placement(device=device if device != "auto" else "cuda" if each.gpus else "cpu", each=each, slots=slots)
