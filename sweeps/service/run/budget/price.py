"""The price that a user states, and what the missing trials cost at it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from mucon.errors import InputError, Problem
from sweeps.service.run.budget.limits import HOUR
from sweeps.service.run.resources import Resources
from sweeps.service.text import significant

_PRICE = re.compile(r"(\d*\.?\d+) *([^\W\d_]{1,8}|[€$£¥])?")


@dataclass(frozen=True, slots=True)
class Price:
    """The price of an hour of a GPU, or of an hour of a core if the trials use no GPU.

    Attributes:
        amount: the number that the user states.
        label: name of the currency; may be empty.
    """

    amount: float
    label: str = ""

    def line(self, seconds: float, bounds: tuple[float, float], each: Resources) -> str:
        """The line of a dry run.

        Args:
            seconds: expected seconds of all trainings together, as if one ran after the other.
            bounds: the least and the most that they may be.
            each: resources of each training.
        """
        rate = self.amount * (each.gpus or each.cpus) / HOUR
        expected, least, most = (significant(rate * value, 3) for value in (seconds, *bounds))
        label = f" {self.label}" if self.label else ""
        between = "" if least == most else f", {least} to {most} by the measured steps"
        unit = "GPU-hour" if each.gpus else "CPU-hour"
        return f"cost: {expected}{label}{between}, at {self.amount:g}{label} per {unit}"


def read_price(text: str | None, *, is_dry_run: bool) -> Price | None:
    """The value of `--price`; None if it is not given.

    >>> read_price("2.5 EUR", is_dry_run=True)
    Price(amount=2.5, label='EUR')

    Raises:
        InputError: no such price, or no dry run.
    """
    if text is None:
        return None
    match = _PRICE.fullmatch(text.strip())
    amount = float(match[1]) if match else 0.0
    if match is None or not 0 < amount < math.inf:
        expected = "a number above 0, which the name of a currency may follow, such as 2.5 or '2.5 EUR'"
        raise InputError(Problem(rule="range", place="--price", value=text, expected=expected))
    if not is_dry_run:
        message, hint = "only a dry run prints a cost", "add --dry-run; --gpu-hours and --cpu-hours limit a sweep"
        raise InputError(Problem(rule="conflict", place="--price", value=text, message=message, hint=hint))
    return Price(amount, match[2] or "")
