"""The file of a search: what is written is read again, and everything else is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from sweeps.service.search.points import (
    FILE,
    Measured,
    Point,
    PointRecord,
    SearchHistory,
    read_history,
    write_history,
)
from tests.helpers.refusals import refused

COLUMN = {"metric": "mof", "prediction": "full", "title": "MoF", "unit": "percent", "higher_is_better": True}
SEARCH = {
    **{"name": "s", "title": "S", "sampler": "tpe", "sampler_seed": 1, "trials": 2, "seeds": 2, "rungs": [0.5]},
    **{"splits": ["1"], "space": {"a": {"kind": "uniform", "low": 0, "high": 1}}, "objectives": [COLUMN]},
    "constraints": [],
}
HISTORY = SearchHistory(
    search=SEARCH,
    records=(
        PointRecord(
            point=Point(0, {"a": 0.5}, "default"),
            state="complete",
            scores={1: Measured((0.25,)), 2: Measured((0.75,))},
            rungs={0.5: Measured((0.125,))},
        ),
        PointRecord(point=Point(2, {"a": 0.25}), state="failed", reason="diverged"),
    ),
    importance=({"a": 1.0},),
    best=(0,),
    front=(0,),
    duplicates=1,
)


def test_a_search_that_is_written_is_read_again(tmp_path: Path):
    write_history(tmp_path, HISTORY)
    assert read_history(tmp_path) == HISTORY


def test_mean_and_deviation_are_over_the_seeds_and_need_them():
    default, failed = HISTORY.records
    assert (default.mean, default.n, default.rung) == ((0.5,), 2, 0.5)
    assert default.std == pytest.approx((math.sqrt(0.125),))
    assert (failed.mean, failed.std, failed.n, failed.rung) == ((), (), 0, None)
    assert HISTORY.record(2) is failed
    with pytest.raises(KeyError):
        HISTORY.record(1)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("format_version", 99, "version"),
        ("points", [{"number": 0}], "damaged"),
        ("best", ["0"], "damaged"),
        ("search", {}, "damaged"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, key: str, value: Any, rule: str):
    (tmp_path / FILE).write_text(json.dumps({**HISTORY.to_dict(), key: value}))
    with refused(rule, FILE):
        read_history(tmp_path)


@pytest.mark.parametrize("changed", [{"state": "lost"}, {"origin": "dream"}, {"scores": {"one": {}}}])
def test_a_point_of_another_kind_is_refused(tmp_path: Path, changed: dict[str, Any]):
    value = HISTORY.to_dict()
    value["points"][1].update(changed)
    (tmp_path / FILE).write_text(json.dumps(value))
    with refused("damaged", FILE):
        read_history(tmp_path)
