"""Searches with made-up points: dimensions of every kind with a condition, and points in every state."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from sweeps.service.search.points import Measured, Point, PointRecord, SearchHistory, State

HOSTILE = "a <b>&\" '$<script>alert(1)</script>"
SPACE: Mapping[str, Mapping[str, Any]] = {
    "training.learning_rate": {"kind": "log uniform", "low": 1e-5, "high": 0.1},
    "mask.shape": {"kind": "choice", "options": ["box", "trapezoid", "bell", HOSTILE]},
    "mask.overlap": {"kind": "uniform", "low": 0.0, "high": 0.5, "when": {"mask.shape": ["trapezoid", "bell"]}},
    "loss.smoothing": {"kind": "log uniform", "low": 0.001, "high": 0.008},
    "training.epochs": {"kind": "integer", "low": 10, "high": 60, "step": 10},
    "model.encoder.number_of_hidden_layers_per_stage": {"kind": "integer", "low": 1, "high": 512, "log": True},
    "training.weight_decay": {"kind": "log uniform", "low": 1e-8, "high": 0.1},
    "decoding.beam": {"kind": "choice", "options": [None, 10, 50, 100]},
    "model.kernels": {"kind": "choice", "options": [[1, 2, 4], [1, 2, 4, 8, 16, 32], [3]]},
    "model.dropout": {"kind": "uniform", "low": 0.0, "high": 0.9},
    "model.name": {"kind": "choice", "options": [f"option_{i}" for i in range(9)]},
    "model.width": {"kind": "uniform", "low": 0.95, "high": 0.96},
}
MOF = {"metric": "mof", "prediction": "full", "title": "MoF", "unit": "percent", "higher_is_better": True}
SECONDS = {
    **{"metric": "inference_seconds", "prediction": "full", "title": "s/video", "unit": "seconds"},
    "higher_is_better": False,
}
STATES: tuple[State, ...] = ("complete", "complete", "complete", "stopped", "infeasible", "failed", "running")


def planted_search(n_points: int, n_dimensions: int, n_objectives: int = 1, *, name: str = "planted") -> SearchHistory:
    """A search whose points have every state in turn, from the third on; the first is the default.

    Args:
        n_points: number of points.
        n_dimensions: number of dimensions of `SPACE`.
        n_objectives: 1 (MoF) or 2 (MoF and seconds).
        name: name of the search.
    """
    numbers = random.Random(n_points)
    space = dict(list(SPACE.items())[:n_dimensions])
    records = tuple(_record(i, space, n_objectives, numbers) for i in range(n_points))
    ranked = sorted((one for one in records if one.state == "complete"), key=lambda one: -one.mean[0])
    best = tuple(one.point.number for one in ranked)
    front = sorted(
        one.point.number
        for one in ranked
        if not any(a.mean[0] > one.mean[0] and a.mean[-1] < one.mean[-1] for a in ranked)
    )
    shares = {path: 2.0 ** -(i + 1) for i, path in enumerate(space)} if records else {}
    return SearchHistory(
        search={
            **{"name": name, "title": f"Search {HOSTILE}", "sampler": "tpe", "sampler_seed": 1, "trials": n_points},
            **{"seeds": 3, "rungs": [0.5], "splits": ["1"], "space": space},
            **{
                "objectives": [MOF, SECONDS][:n_objectives],
                "constraints": [{**SECONDS, "at_most": 0.03, "at_least": None}],
            },
        },
        records=records,
        importance=(shares,) * n_objectives,
        best=best,
        front=tuple(front) if n_objectives > 1 else best[:1],
        duplicates=2,
    )


def _record(
    number: int, space: Mapping[str, Mapping[str, Any]], n_objectives: int, numbers: random.Random
) -> PointRecord:
    values = {path: _value(dimension, numbers) for path, dimension in space.items()}
    settings = {
        path: value
        for path, value in values.items()
        if all(values[other] in of for other, of in space[path].get("when", {}).items())
    }
    state = STATES[number % len(STATES)]
    level = 0.5 - 0.03 * abs(math.log10(float(values["training.learning_rate"])) + 3) - (numbers.random() < 0.02) * 0.2

    def measured() -> Measured:
        mof = level + numbers.gauss(0, 0.007)
        return Measured(
            (mof, 0.02 * math.exp(5 * (mof - 0.48)) * numbers.lognormvariate(0, 0.3))[:n_objectives], (0.02,)
        )

    return PointRecord(
        point=Point(number, settings, "suggested" if number else "default"),
        state=state,
        scores={seed: measured() for seed in range(1, 2 + number % 3)} if state in ("complete", "infeasible") else {},
        rungs={0.5: measured()} if state == "stopped" else {},
        violations=(0.01 if state == "infeasible" else -0.01,) if state in ("complete", "infeasible") else (),
        reason=f"diverged: {HOSTILE}" if state == "failed" else "",
    )


def _value(dimension: Mapping[str, Any], numbers: random.Random) -> Any:
    if "options" in dimension:
        return numbers.choice(dimension["options"])
    low, high = dimension["low"], dimension["high"]
    if dimension["kind"] == "integer":
        return numbers.randrange(low, high + 1, dimension.get("step", 1))
    if dimension["kind"] == "log uniform":
        return math.exp(numbers.uniform(math.log(low), math.log(high)))
    return numbers.uniform(low, high)
