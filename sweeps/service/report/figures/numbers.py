"""The numbers of rows on the x axis of a curve: those of the setting that the labels name, or those in the labels."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)])[-+])?"
    r"(?P<digits>\d{1,3}(?:[,_']\d{3})+(?![\d,])(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)"
    r"(?P<exponent>e[-+]?\d+)?"
    r"(?P<factor>[kM](?![a-zA-Z]))?",
    re.ASCII,
)
_ZERO = frozenset({"no", "none", "off", "without", "zero"})
_FACTORS = {"k": 1e3, "M": 1e6}


def number_in(text: str) -> float | None:
    """The first number in a label; None without one, or if its value is open, as in 0,5 and 1/2.

    >>> number_in("10 %"), number_in("beam 50"), number_in("none"), number_in("box")
    (10.0, 50.0, 0.0, None)
    >>> number_in("1e-05"), number_in(".5"), number_in("-2.5e+03")
    (1e-05, 0.5, -2500.0)
    >>> number_in("1,000"), number_in("0,5"), number_in("2k")
    (1000.0, None, 2000.0)
    """
    plain = text.replace("−", "-").replace("E", "e")
    match = _NUMBER.search(plain)
    if match is None:
        return 0.0 if text.strip().casefold() in _ZERO else None
    if re.match(r",\d|\s?[/^:×]\s?\d|[\s\u2009\u202f]\d{3}\b|[KxXGB]", plain[match.end() :]):
        return None
    sign, digits, exponent, factor = match.groups(default="")
    plain_digits = re.sub("[,_']", "", digits)
    number = float(f"{sign}{plain_digits}{exponent}") * _FACTORS.get(factor, 1.0)
    return number if math.isfinite(number) else None


def numbers_in(labels: Sequence[str]) -> dict[str, float] | None:
    """Label -> number; None if a label has no number or two labels have the same.

    >>> numbers_in(["none", "10 %"]), numbers_in(["1/2", "1/3"]), numbers_in(["box", "3"])
    ({'none': 0.0, '10 %': 10.0}, None, None)
    """
    return _distinct({label: number_in(label) for label in labels})


def unnumbered(labels: Sequence[str]) -> list[str]:
    """The labels without a number, or with the number of another one.

    >>> unnumbered(["1/2", "1/3", "2", "box"])
    ['1/2', '1/3', 'box']
    """
    numbers = [number_in(label) for label in labels]
    return [label for label, number in zip(labels, numbers, strict=True) if number is None or numbers.count(number) > 1]


def numbers_of_setting(
    labels: Sequence[str], settings: Sequence[Mapping[str, object]], path: str
) -> dict[str, float] | None:
    """Label -> number of the setting that the labels stand for; None if no setting, or more than one, fits.

    A setting fits if it is a number in every row and each label stands for another number.

    Args:
        labels: label of each row on the x axis.
        settings: settings of each row.
        path: title of the labels; the setting of this name is preferred.

    >>> numbers_of_setting(["tiny", "small"], [{"a": 1e-5, "b": "x"}, {"a": 0.01, "b": "y"}], "rate")
    {'tiny': 1e-05, 'small': 0.01}
    """
    common = set.intersection(*(set(values) for values in settings)) if settings else set()
    fitting = {}
    for name in sorted(common):
        values = {label: row[name] for label, row in zip(labels, settings, strict=True)}
        is_constant = all(values[label] == row[name] for label, row in zip(labels, settings, strict=True))
        numbers = _distinct({label: _finite(value) for label, value in values.items()})
        if is_constant and numbers is not None:
            fitting[name] = numbers
    return fitting.get(path) or (next(iter(fitting.values())) if len(fitting) == 1 and len(labels) > 1 else None)


def _finite(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]


def _distinct(numbers: Mapping[str, float | None]) -> dict[str, float] | None:
    known = {label: number for label, number in numbers.items() if number is not None}
    return known if len(known) == len(numbers) == len(set(known.values())) else None
