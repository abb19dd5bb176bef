"""Numbers of the published program: where they are, and how close is equal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

FOLDER = Path(os.environ.get("MUCON_PARITY_DIR", Path(__file__).parents[2] / "data" / "parity"))
NETWORK, LOSS, GRADIENT, MASK = 1e-5, 1e-4, 1e-3, 1e-3
"""Tolerances relative to the largest absolute value, but the masks' one, which is absolute."""

Arrays = dict[str, NDArray[Any]]


def read(name: str) -> dict[str, Arrays]:
    """The arrays of a file: case (or `weights`) -> rest of the key -> array."""
    groups: dict[str, Arrays] = {}
    with np.load(FOLDER / name) as golden:
        for key in golden.files:
            group, _, rest = key.partition("/")
            groups.setdefault(group, {})[rest] = golden[key]
    assert any(group.startswith("case") for group in groups), f"{FOLDER / name} has no case"
    return groups


def cases(groups: dict[str, Arrays]) -> dict[str, Arrays]:
    return {name: arrays for name, arrays in groups.items() if name.startswith("case")}


def count_outputs(name: str, inputs: tuple[str, ...]) -> int:
    """How many keys of a file's cases are no inputs, counted in the file's listing."""
    with np.load(FOLDER / name) as golden:
        rests = [key.partition("/")[2] for key in golden.files if key.startswith("case")]
    return sum(rest not in inputs for rest in rests)


def assert_close(ours: Any, theirs: NDArray[Any], relative: float, place: str, floor: float = 0.0) -> None:
    """max|a - b| <= relative * max|b| + floor, shapes equal."""
    a = np.asarray(ours.detach().cpu() if hasattr(ours, "detach") else ours, dtype=np.float64)
    b = np.asarray(theirs, dtype=np.float64)
    assert a.shape == b.shape, place
    worst, scale = (float(np.max(np.abs(x), initial=0.0)) for x in (a - b, b))
    if not worst <= relative * scale + floor:
        pytest.fail(f"{place}: differs by {worst:.3g}, allowed is {relative:.3g} * {scale:.3g} + {floor:.3g}")


def setting(path: str) -> tuple[str, float, bool]:
    """Shape, overlap and corner alignment of `box/overlap0.1/align_corners_True`."""
    shape, overlap, aligned = path.split("/")
    return shape, float(overlap.removeprefix("overlap")), {"True": True, "False": False}[aligned.rsplit("_", 1)[1]]
