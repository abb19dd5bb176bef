"""What the parts of a recorded search contradict each other in; needs no optuna."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mucon.metrics.catalogue import SCALES
from sweeps.service.trials.json_files import ANY_KEY, NUMBER, misfit

LARGEST = 1e300
"""Numbers up to which sums and squares of a few are finite."""
_LIMIT = (*NUMBER, type(None))


def contradiction(value: Mapping[str, Any]) -> str:
    """The first contradiction in a record of a search that has the right shape; empty if there is none."""
    return next(filter(None, _contradictions(value)), "")


def _contradictions(value: Mapping[str, Any]) -> Iterator[str]:
    search, points = value["search"], value["points"]
    if not all(-LARGEST < number < LARGEST for number in _numbers(value)):
        yield "a number is not finite"
    for path, one in search["space"].items():
        place = f"search.space.{path}"
        yield misfit(one, {"options": list} if one["kind"] == "choice" else {"low": NUMBER, "high": NUMBER}, place)
        yield misfit(one.get("when", {}), {ANY_KEY: list}, f"{place}.when")
    for name in ("objectives", "constraints"):
        for i, one in enumerate(search[name]):
            if one["unit"] not in SCALES:
                yield f"search.{name}.{i}.unit: expected {', '.join(SCALES)}, got {one['unit']!r}"
    for i, one in enumerate(search["constraints"]):
        yield misfit(one, {"at_most": _LIMIT, "at_least": _LIMIT}, f"search.constraints.{i}")
        if (one.get("at_most") is None) == (one.get("at_least") is None):
            yield f"search.constraints.{i}: expected one limit"
    sizes = {"objectives": len(search["objectives"]), "bounded": len(search["constraints"])}
    for i, point in enumerate(points):
        for measured in (*point["scores"].values(), *point["rungs"].values()):
            if {name: len(measured[name]) for name in sizes} != sizes:
                yield f"points.{i}: expected {sizes['objectives']} objectives and {sizes['bounded']} bounded values"
        if len(point["violations"]) not in (0, sizes["bounded"]):
            yield f"points.{i}.violations: expected {sizes['bounded']} values"
    numbers = [point["number"] for point in points]
    if len(set(numbers)) < len(numbers):
        yield "points: duplicate number"
    scored = {point["number"] for point in points if point["scores"]}
    for name in ("best", "front"):
        if unknown := set(value[name]) - scored:
            yield f"{name}: point {min(unknown)} has no score"
    if len(value["importance"]) not in (0, sizes["objectives"]):
        yield f"importance: expected {sizes['objectives']} values"


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, int | float):
        yield value
