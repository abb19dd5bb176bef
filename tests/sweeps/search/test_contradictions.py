"""A record of a search that was damaged is refused by its file, or the report can show it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mucon.errors import InputError
from sweeps.service.report.search.charts import charts_of
from sweeps.service.report.search.findings import Findings
from sweeps.service.report.search.page import make_page
from sweeps.service.report.search.texts import markdown, search_lines, search_metrics
from sweeps.service.report.search.values import Shown
from sweeps.service.search.points import FILE, read_history
from tests.helpers.planted_points import planted_search
from tests.helpers.refusals import refused

WHOLE = json.loads(json.dumps(planted_search(7, 3, 2).to_dict()))
GONE = object()
Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """The place of everything in a plain value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in pairs:
        yield (*at, key)
        yield from places(one, (*at, key))


def changed(place: Place, new: object) -> dict[str, Any]:
    value = copy.deepcopy(WHOLE)
    inner: Any = value
    for key in place[:-1]:
        inner = inner[key]
    if new is GONE:
        del inner[place[-1]]
    else:
        inner[place[-1]] = new
    return dict(value)


@pytest.mark.parametrize(
    "new", [GONE, "x", None, [], -1, 10**400, float("nan")], ids=["gone", "text", "none", "list", "-1", "huge", "nan"]
)
def test_a_damaged_value_is_refused_or_shown(new: object, tmp_path: Path) -> None:
    rules = []
    for place in places(WHOLE):
        (tmp_path / FILE).write_text(json.dumps(changed(place, new)))
        try:
            history = read_history(tmp_path)
        except InputError as error:
            rules += [problem.rule for problem in error.problems]
            continue
        findings = Findings(history=history)
        assert all(chart.csv for chart in charts_of(Shown.of(history, ""), ""))
        assert make_page(findings, [], tmp_path)
        assert search_lines(findings)
        assert markdown(findings)
        assert search_metrics(findings)
    assert set(rules) <= {"damaged", "version"}
    assert len(rules) > 50


@pytest.mark.parametrize(
    ("place", "new"),
    [
        (("points", 0, "scores", "1", "objectives"), [0.5]),
        (("points", 0, "violations"), [0.1, 0.2]),
        (("points", 1, "number"), 0),
        (("best",), [5]),
        (("front",), [99]),
        (("importance",), [{}]),
        (("search", "objectives", 0, "unit"), "miles"),
        (("search", "space", "mask.shape", "options"), None),
        (("search", "constraints", 0, "at_least"), 0.1),
    ],
)
def test_parts_that_contradict_each_other_are_damage(place: Place, new: object, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps(changed(place, new)))
    with refused("damaged", FILE):
        read_history(tmp_path)
