"""The axes of settings and scores: places of numbers, of their logarithms and of options."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from mucon.configuration import setting_text
from sweeps.service.text import printable

MAX_TICKS = 4
"""Numbers at an axis."""
MAX_OPTIONS = 12
"""Options with a label at an axis."""
BESIDE = -0.12
"""Place of values that an axis cannot have."""
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis of values, from 0 to 1.

    Attributes:
        low: number at 0; its logarithm if `log`.
        high: number at 1; its logarithm if `log`.
        log: whether numbers are placed by their logarithm.
        options: texts of a choice without order, each in the middle of an equal share; empty for numbers.
        beside: label of the values that the axis cannot have, such as the 0 of a default on a logarithmic axis, which
            are at `BESIDE`; empty without such values.
    """

    low: float = 0.0
    high: float = 1.0
    log: bool = False
    options: tuple[str, ...] = ()
    beside: str = ""

    @classmethod
    def of(cls, dimension: Mapping[str, Any], values: Sequence[object]) -> Scale:
        """The axis of a setting, with room for values outside its range, which the default may have.

        Args:
            dimension: the dimension as in the record of a search.
            values: the values that were tried.
        """
        if "options" in dimension:
            return cls(options=tuple(dict.fromkeys(map(setting_text, (*dimension["options"], *values)))))
        log = bool(dimension.get("log")) or str(dimension["kind"]).startswith("log")
        numbers = [dimension["low"], dimension["high"], *(one for one in values if is_number(one))]
        texts = ((one, number_text(one) if is_number(one) else setting_text(one)) for one in values)
        odd = {text for one, text in texts if not is_number(one) or (log and one <= 0)}
        scale = cls.of_numbers([float(one) for one in numbers if one > 0 or not log], log=log)
        return replace(scale, beside="" if not odd else odd.pop() if len(odd) == 1 else "others")

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], *, log: bool = False) -> Scale:
        """The axis from the smallest to the largest number; from 0 to 1 without numbers."""
        if not numbers:
            return cls()
        low, high = min(numbers), max(numbers)
        return cls(low=math.log(low), high=math.log(high), log=True) if log else cls(low=low, high=high)

    def place(self, value: Any) -> float:
        """The place of a value.

        >>> Scale.of_numbers([0.0, 4.0]).place(1.0), Scale(options=("a", "b")).place("b")
        (0.25, 0.75)
        """
        if self.options:
            return (self.options.index(setting_text(value)) + 0.5) / len(self.options)
        if not is_number(value) or (self.log and value <= 0):
            return BESIDE
        number = math.log(value) if self.log else float(value)
        return 0.5 if self.high == self.low else (number - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels of a few values.

        >>> Scale.of_numbers([1e-05, 0.1], log=True).ticks()
        [(0.0, '1e-5'), (0.5, '0.001'), (1.0, '0.1')]
        """
        if self.options:
            step = -(-len(self.options) // MAX_OPTIONS)
            places = [(i + 0.5) / len(self.options) for i in range(len(self.options))]
            return list(zip(places, self.options, strict=True))[::step]
        low, high = (math.exp(self.low), math.exp(self.high)) if self.log else (self.low, self.high)
        numbers = [low] if high <= low else _powers(low, high) if self.log else _round_numbers(low, high)
        if len(numbers) < 2 and high > low:
            numbers = [low, high]
        ticks = [(min(max(self.place(one), 0.0), 1.0), number_text(one)) for one in numbers]
        return [(BESIDE, self.beside), *(tick for tick in ticks if tick[0] > 0.1)] if self.beside else ticks

    def spread(self, number: int) -> float:
        """A small shift that keeps points of one option apart, the same for each number of a point; 0 for numbers."""
        return ((number * GOLDEN) % 1 - 0.5) * 0.6 / len(self.options) if self.options else 0.0


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def number_text(value: float) -> str:
    """A number in few characters.

    >>> number_text(1e-05), number_text(0.25), number_text(1e6)
    ('1e-5', '0.25', '1e6')
    """
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def cut(text: str, width: int) -> str:
    """A text on one line of a limited number of characters.

    >>> cut("trapezoid", 16), cut("a very long option", 16)
    ('trapezoid', 'a very long opt…')
    """
    line = printable(" ".join(text.split()))
    return line if len(line) <= width else f"{line[: width - 1]}…"


def cut_path(path: str, width: int = 34) -> str:
    """The end of a path, which says more than its start, in a limited number of characters.

    >>> cut_path("training.learning_rate", 16)
    '…g.learning_rate'
    """
    name = printable(path)
    return name if len(name) <= width else f"…{name[1 - width :]}"


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten within a range, with 2 and 5 times them if they are few; at most `MAX_TICKS`."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        numbers = [float(f"{factor}e{power}") for power in powers for factor in factors]
        inside = [one for one in numbers if low * (1 - 1e-9) <= one <= high * (1 + 1e-9)]
        if len(inside) > 2:
            break
    return inside[:: -(-len(inside) // MAX_TICKS)] if inside else []


def _round_numbers(low: float, high: float) -> list[float]:
    """Round numbers within a range."""
    from matplotlib.ticker import MaxNLocator

    edge = 1e-9 * (high - low)
    numbers = MaxNLocator(nbins=MAX_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return [float(one) for one in numbers if low - edge <= one <= high + edge]
