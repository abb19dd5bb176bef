"""The values of a space, and which configurations lie inside."""

from __future__ import annotations

from typing import Any

import pytest

from sweeps.service.search.space import MAX_COMBINATIONS, combinations, inside, labels, suggested_value
from sweeps.service.spec.search import Choice, Integer, LogUniform, Space, Uniform

SPACE: Space = {
    "ramp": Integer(0, 8, step=4, when={"shape": ("box",)}),
    "shape": Choice(("box", "bell")),
    "rate": Choice((1, 0.5, "1", None, (1, 2))),
}


def test_combinations_leave_out_what_has_no_effect():
    found = combinations(SPACE)
    assert found is not None
    assert len(found) == (3 + 1) * 5
    assert all(("ramp" in one) == (one["shape"] == "box") for one in found)
    assert len({repr(one) for one in found}) == len(found)
    assert combinations({**SPACE, "any": Uniform(0, 1)}) is None
    assert combinations({"a": Integer(1, MAX_COMBINATIONS + 1)}) is None


def test_labels_are_texts_and_distinct():
    assert labels(Choice(("box", "bell"))) == ["box", "bell"]
    assert labels(Choice((1, 0.5, "1", None, (1, 2)))) == ["1", "0.5", '"1"', "null", "[1, 2]"]


@pytest.mark.parametrize(
    ("configuration", "settings"),
    [
        ({"shape": "box", "ramp": 4, "rate": 0.5, "other": 1}, {"shape": "box", "ramp": 4, "rate": 0.5}),
        ({"shape": "bell", "ramp": 5, "rate": [1, 2]}, {"shape": "bell", "rate": (1, 2)}),
        ({"shape": "bell", "rate": 1.0}, {"shape": "bell", "rate": 1}),
        ({"shape": "box", "ramp": 5, "rate": 1}, None),
        ({"shape": "box", "rate": 1}, None),
        ({"shape": "bell", "rate": True}, None),
        ({"shape": "line", "rate": 1}, None),
    ],
)
def test_a_configuration_lies_inside_if_all_that_has_an_effect_does(configuration: Any, settings: Any):
    assert inside(SPACE, configuration) == settings


@pytest.mark.parametrize(
    ("dimension", "value", "found"),
    [
        (Uniform(0, 1, step=0.1), 0.1 + 0.2, {"a": 0.3}),
        (Uniform(0, 1, step=0.3), 1.0, None),
        (LogUniform(1e-4, 1), 1 / 300, {"a": 1 / 300}),
        (Uniform(0, 1), 1.1, None),
        (Integer(1, 9, step=2), 4, None),
        (Integer(1, 9), 4.0, {"a": 4}),
        (Uniform(0, 1), "0.5", None),
        (Uniform(0, 1), True, None),
    ],
)
def test_numbers_lie_on_their_steps_and_within_their_limits(dimension: Any, value: Any, found: Any):
    assert inside({"a": dimension}, {"a": value}) == found


def test_suggested_numbers_have_few_digits_except_in_narrow_ranges():
    assert suggested_value(Uniform(0, 1), 0.123456789) == 0.123457
    assert suggested_value(LogUniform(1e-6, 1), 0.000123456789) == 0.000123457
    assert suggested_value(Uniform(1000, 1000.001), 1000.000123456) == 1000.000123456
    assert suggested_value(Uniform(0.1234574, 1), 0.12345741) == 0.1234574
