"""CPU cores and GPUs of trials: what each gets, and how many run at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mucon.device import choose_device, gpu_count, unusable_gpu, usable_cpus
from mucon.errors import InputError, Problem
from sweeps.service.run.executor.ray_environment import is_cluster

GPUS_PER_TRIAL = 0.25
"""Default of --gpus-per-trial if there is a GPU."""
CPUS_PER_GPU_TRIAL = 2.0
"""Default of --cpus-per-trial for trials that use a GPU."""
MAX_CONCURRENT = "MUCON_MAX_CONCURRENT"
"""Environment variable with the largest number of trials at a time, which the command line cannot raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Resources of each trial.

    Attributes:
        cpus: CPU cores.
        gpus: GPUs; a fraction below 1 shares one.
    """

    cpus: float
    gpus: float

    def __str__(self) -> str:
        return f"{self.share} for each trial"

    @property
    def share(self) -> str:
        """The share of a machine, as text."""
        return f"{self.cpus:g} CPU and {self.gpus:g} GPU"

    @property
    def option(self) -> str:
        """The option that gives each trial this share, so that fewer run at a time."""
        return f"--gpus-per-trial {self.gpus:g}" if self.gpus else f"--cpus-per-trial {self.cpus:g}"

    def larger(self, nodes: Mapping[str, tuple[float, float]]) -> Resources:
        """Twice the GPUs, or twice the cores of a trial without GPU, as far as a machine has them.

        >>> Resources(cpus=2, gpus=0.25).larger({"a": (8, 1)})
        Resources(cpus=2, gpus=0.5)
        >>> Resources(cpus=3, gpus=0).larger({"a": (4, 0)})
        Resources(cpus=4, gpus=0)
        """
        most_cpus = max((cpus for cpus, _ in nodes.values()), default=0.0)
        most_gpus = max((gpus for _, gpus in nodes.values()), default=0.0)
        if self.gpus:
            larger = replace(self, gpus=max(self.gpus, min(2 * self.gpus, 1 if self.gpus < 1 else most_gpus)))
        else:
            larger = replace(self, cpus=max(self.cpus, min(2 * self.cpus, most_cpus)))
        return larger if any(larger.slots_of(*node) for node in nodes.values()) else self

    def slots(self, nodes: Mapping[str, tuple[float, float]]) -> int:
        """The number of trials that run at a time.

        Args:
            nodes: name -> (cores, GPUs) of each machine.

        Raises:
            InputError: a trial does not fit on any machine.
        """
        slots = self.fitting(nodes)
        if not slots:
            sizes = "; ".join(f"{name} has {cpus:g} CPU and {gpus:g} GPU" for name, (cpus, gpus) in nodes.items())
            raise InputError(
                Problem(
                    rule="unsupported",
                    place="--cpus-per-trial, --gpus-per-trial",
                    value=(self.cpus, self.gpus),
                    message=f"no machine can run a trial with {self.cpus:g} CPU and {self.gpus:g} GPU ({sizes})",
                    hint="request less per trial",
                )
            )
        return slots

    def fitting(self, nodes: Mapping[str, tuple[float, float]]) -> int:
        """As `slots`; 0 if a trial does not fit on any machine."""
        return sum(self.slots_of(*node) for node in nodes.values())

    def slots_of(self, cpus: float, gpus: float) -> int:
        """The number of trials that run at a time on a machine with some cores and GPUs."""
        by_cpu = int(cpus / self.cpus + 1e-9)
        if not self.gpus:
            return by_cpu
        whole = int(gpus / self.gpus + 1e-9) if self.gpus >= 1 else int(gpus) * int(1 / self.gpus + 1e-9)
        return min(by_cpu, whole)


def resources(cpus: str, gpus: str, *, n_gpus: int) -> Resources:
    """The values of `--cpus-per-trial` and `--gpus-per-trial`, with `auto` resolved.

    Args:
        cpus: a number of at least 0.01, or `auto`: 2 for a trial that uses a GPU, otherwise 1.
        gpus: a number of at least 0, whole if above 1, or `auto`: 0.25 if there is a GPU, otherwise 0.
        n_gpus: number of GPUs that trials may use here.

    Raises:
        InputError: not such a number.
    """
    share = (GPUS_PER_TRIAL if n_gpus else 0.0) if gpus == "auto" else _number("--gpus-per-trial", gpus, 0.0)
    if share > 1 and share != int(share):
        raise InputError(
            Problem(rule="range", place="--gpus-per-trial", value=gpus, expected="a whole number if above 1")
        )
    cores = (CPUS_PER_GPU_TRIAL if share else 1.0) if cpus == "auto" else _number("--cpus-per-trial", cpus, 0.01)
    return Resources(cpus=cores, gpus=share)


def _number(option: str, text: str, least: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value < float("inf"):
        raise InputError(
            Problem(rule="range", place=option, value=text, expected=f"a number of at least {least:g}, or auto")
        )
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where trials run.

    Attributes:
        device: `cpu` or `cuda`; `auto` if that depends on a cluster that has not been asked.
        each: resources of each trial; without a GPU for `auto`.
        slots: number of trials at a time; None for a cluster that has not been asked.
        reason: why a GPU of this machine is not used; empty if there is nothing to report.
        most: the largest number of trials at a time, whatever the resources; None without a limit.
        limit: the option or variable that gives `most`.
    """

    device: str
    each: Resources
    slots: int | None
    reason: str = ""
    most: int | None = None
    limit: str = ""

    def __str__(self) -> str:
        if self.device == "auto":
            return f"on cpu, {self.each}, or on the GPUs of the cluster if it has any"
        return f"on {self.device}{f' ({self.reason})' if self.reason else ''}, {self.each}"

    @property
    def at_a_time(self) -> str:
        """The number of trials at a time, as text."""
        limit = f" ({self.limit})" if self.slots == self.most else ""
        return (
            f"{self.slots} at a time{limit}" if self.slots else "as many at a time as fit on the cluster at RAY_ADDRESS"
        )

    def limited(self, given: int | None) -> Placement:
        """The placement with at most a number of trials at a time, and at most `MUCON_MAX_CONCURRENT`.

        Args:
            given: value of --max-concurrent; None without a limit.

        Raises:
            InputError: the variable is no whole number of at least 1.
        """
        limits = {} if given is None else {"--max-concurrent": given}
        if text := os.environ.get(MAX_CONCURRENT):
            if not text.isdecimal() or int(text) < 1:
                expected = "a whole number, at least 1"
                raise InputError(Problem(rule="range", place=MAX_CONCURRENT, value=text, expected=expected))
            limits[MAX_CONCURRENT] = int(text)
        if not limits:
            return self
        limit = min(limits, key=lambda name: limits[name])
        most = limits[limit]
        return replace(self, slots=min(self.slots or most, most), most=most, limit=limit)


def place_trials(
    device: str, cpus: str, gpus: str, nodes: Mapping[str, tuple[float, float]] | None = None
) -> Placement:
    """Resolves the command line's options for this machine, or for the cluster at RAY_ADDRESS.

    Args:
        device: `auto`, `cpu` or `cuda`.
        cpus: cores per trial, a number or `auto`.
        gpus: GPUs per trial, a number or `auto`.
        nodes: name -> (cores, GPUs) of each machine of the cluster; None if it has not been asked.

    Raises:
        InputError: an invalid number, a device and a number of GPUs that contradict each other, no GPU for `cuda`, or a
            trial that does not fit on any machine.
    """
    reason = ""
    if not is_cluster():
        n_gpus = 0 if device == "cpu" else gpu_count()
        if device == "cuda" and not n_gpus:
            choose_device(device)  # raises an error with the reason
        reason = unusable_gpu() if device == "auto" and not n_gpus else ""
        nodes = {"this machine": (usable_cpus(), n_gpus)}
    n_gpus = {"cpu": 0, "cuda": 1, "auto": round(sum(gpus for _, gpus in (nodes or {}).values()))}[device]
    each = resources(cpus, gpus, n_gpus=n_gpus)
    if (device == "cuda" and not each.gpus) or (device == "cpu" and each.gpus):
        message = f"contradicts --device {device}"
        hint = f"leave it out, or use --device {'cpu' if device == 'cuda' else 'cuda'}"
        raise InputError(Problem(rule="conflict", place="--gpus-per-trial", value=gpus, message=message, hint=hint))
    if device == "auto":
        device = "auto" if nodes is None and gpus == "auto" else "cuda" if each.gpus else "cpu"
    return Placement(device=device, each=each, slots=None if nodes is None else each.slots(nodes), reason=reason)
