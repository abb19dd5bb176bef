"""The limits of a sweep: options of the command line and caps of the environment, of which the smaller one holds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mucon.errors import InputError, Problem
from sweeps.service.run.resources import Resources
from sweeps.service.text import duration, significant

CAPS = {
    "--time-budget": "MUCON_MAX_TIME",
    "--gpu-hours": "MUCON_MAX_GPU_HOURS",
    "--cpu-hours": "MUCON_MAX_CPU_HOURS",
    "--max-trials": "MUCON_MAX_TRIALS",
}
"""Option -> environment variable with the largest value that the option can have."""
HOUR = 3600.0
_SECONDS = {"s": 1.0, "m": 60.0, "h": HOUR, "d": 24 * HOUR}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit.

    Attributes:
        value: seconds of wall time, of GPUs or of cores, or a number of trainings.
        option: the option that sets such a limit.
        source: the option, or the environment variable whose value is smaller.
    """

    value: float
    option: str
    source: str

    def __str__(self) -> str:
        return f"{self.amount(self.value)} ({self.source})"

    def amount(self, value: float) -> str:
        """An amount in the unit of the limit, as text.

        >>> Limit(72000.0, "--gpu-hours", "--gpu-hours").amount(5400.0), Limit(3, "--max-trials", "").amount(2)
        ('1.5 GPU-hours', '2 trainings')
        """
        if self.option == "--time-budget":
            return duration(value) if value else "0 s"
        if self.option == "--max-trials":
            return f"{value:g} training{'s' * (value != 1)}"
        return f"{significant(value / HOUR, 3)} {'GPU' if self.option == '--gpu-hours' else 'CPU'}-hours"

    def as_option(self, value: float) -> str:
        """The option with a value that covers an amount.

        >>> Limit(60.0, "--time-budget", "").as_option(5000.0), Limit(60.0, "--gpu-hours", "").as_option(5000.0)
        ('--time-budget 84m', '--gpu-hours 1.4')
        """
        if self.option == "--max-trials":
            return f"--max-trials {value:g}"
        if self.option == "--time-budget":
            unit = "s" if value < 2 * _SECONDS["m"] else "m" if value < 2 * HOUR else "h"
            step = _SECONDS[unit] / (10 if unit == "h" else 1)
            return f"--time-budget {math.ceil(value / step - 1e-9) * step / _SECONDS[unit]:g}{unit}"
        hours = value / HOUR
        digits = max(1 - math.floor(math.log10(hours)), 0) if hours > 0 else 0
        return f"{self.option} {math.ceil(hours * 10**digits - 1e-9) / 10**digits:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of a sweep; they change no trial and no identity.

    Attributes:
        time: wall time of one command.
        gpu_hours: GPU time of the sweep over all its commands.
        cpu_hours: core time of the sweep over all its commands.
        trials: trainings of the sweep, including those that have been trained.
    """

    time: Limit | None = None
    gpu_hours: Limit | None = None
    cpu_hours: Limit | None = None
    trials: Limit | None = None

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits that are set."""
        return tuple(limit for limit in (self.time, self.gpu_hours, self.cpu_hours, self.trials) if limit is not None)

    @property
    def metered(self) -> tuple[Limit, ...]:
        """The limits that depend on what trials use."""
        return tuple(limit for limit in self.limits if limit is not self.trials)

    def check(self, each: Resources) -> None:
        """Checks that the limits mean something where the trials run.

        Raises:
            InputError: GPU-hours for trials without a GPU.
        """
        limit = self.gpu_hours
        if limit is not None and limit.source == limit.option and not each.gpus:
            message, hint = "the trials use no GPU", "use --cpu-hours or --time-budget"
            raise InputError(
                Problem(rule="conflict", place=limit.option, value=limit.value / HOUR, message=message, hint=hint)
            )

    def lines(self) -> Iterator[str]:
        """The line of the header; none without limits."""
        if self.limits:
            yield f"budget: {', '.join(map(str, self.limits))}"


def read_budget(options: Mapping[str, str | None], environment: Mapping[str, str]) -> Budget:
    """The budget of a command.

    Args:
        options: option -> its text; None or absent if it is not given.
        environment: environment variables; those of `CAPS` cap the options.

    Raises:
        InputError: one problem per text that is no such amount.
    """
    problems: list[Problem] = []
    limits: dict[str, Limit] = {}
    for option, variable in CAPS.items():
        for source, text in ((option, options.get(option)), (variable, environment.get(variable))):
            if not text:
                continue
            try:
                value = amount_of(option, text, source)
            except InputError as error:
                problems += error.problems
                continue
            if option not in limits or value < limits[option].value:
                limits[option] = Limit(value, option, source)
    if problems:
        raise InputError(problems)
    time, gpu_hours, cpu_hours, trials = (limits.get(option) for option in CAPS)
    return Budget(time=time, gpu_hours=gpu_hours, cpu_hours=cpu_hours, trials=trials)


def amount_of(option: str, text: str, place: str) -> float:
    """The amount of an option's text: seconds, or a number of trainings.

    >>> amount_of("--time-budget", "1.5h", "--time-budget"), amount_of("--gpu-hours", "0.5", "--gpu-hours")
    (5400.0, 1800.0)

    Raises:
        InputError: no such amount, or none above 0.
    """
    if option == "--time-budget":
        match, expected = _DURATION.fullmatch(text.strip()), "a time with a unit, such as 90s, 30m, 1.5h or 2d"
        value = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    elif option == "--max-trials":
        expected = "a whole number, at least 1"
        value = float(text) if text.strip().isdecimal() else 0.0
    else:
        expected = "a number of hours above 0, such as 20 or 0.5"
        try:
            value = float(text) * HOUR
        except ValueError:
            value = 0.0
    if not 0 < value < math.inf:
        raise InputError(Problem(rule="range", place=place, value=text, expected=expected))
    return value
