"""The values that describe a search: what is refused, and where."""

from typing import Any

import pytest

from sweeps.service.spec.columns import MOF
from sweeps.service.spec.search import Bound, Choice, Dimension, Integer, LogUniform, Search, Space, Uniform
from tests.helpers.refusals import refused

SHAPES = Choice(("box", "bell"))


def search(space: Space, **values: Any) -> Search:
    return Search(name="mine", title="Mine", space=space, **values)


@pytest.mark.parametrize(
    ("dimension", "rule", "place"),
    [
        (Uniform(1, 0), "range", "space.x"),
        (Uniform(0, float("inf")), "range", "space.x"),
        (Uniform(0, 1, step=0), "range", "space.x.step"),
        (LogUniform(0, 1), "range", "space.x"),
        (Integer(0, 8, log=True), "range", "space.x"),
        (Integer(1, 8, log=True, step=2), "conflict", "space.x.step"),
        (Integer(1, 8, step=0), "range", "space.x.step"),
        (Choice(()), "missing", "space.x"),
        (Choice((1, 2, 1)), "duplicate", "space.x"),
        (Uniform(0, 1, when={"shape": ("round",)}), "unknown", "space.x.when"),
        (Uniform(0, 1, when={"absent": ("box",)}), "unknown", "space.x.when"),
        (Choice((1, 2), when={"x": (1,)}), "unknown", "space.x.when"),
    ],
)
def test_a_wrong_dimension_is_refused_at_its_path(dimension: Dimension, rule: str, place: str) -> None:
    with refused(rule, place) as refusal:
        search({"shape": SHAPES, "x": dimension})
    assert refusal.places == [place]


def test_dimensions_that_depend_on_each_other_are_refused() -> None:
    space = {"a": Choice((1, 2), when={"b": (1,)}), "b": Choice((1, 2), when={"a": (1,)})}
    with refused("conflict", "space.a.when") as refusal:
        search(space)
    assert refusal.places == ["space.a.when", "space.b.when"]


@pytest.mark.parametrize(
    ("values", "rule", "place"),
    [
        ({"trials": 0}, "range", "trials"),
        ({"fresh_seeds": 0}, "range", "fresh_seeds"),
        ({"objectives": ()}, "missing", "objectives"),
        ({"sampler": "guess"}, "unknown", "sampler"),
        ({"rungs": (0.9, 0.6)}, "range", "rungs"),
        ({"rungs": (0.6, 1.0)}, "range", "rungs"),
    ],
)
def test_a_wrong_value_is_refused_at_its_name(values: dict[str, Any], rule: str, place: str) -> None:
    with refused(rule, place) as refusal:
        search({"shape": SHAPES}, **values)
    assert refusal.places == [place]


def test_the_seed_is_not_searched_and_an_empty_space_is_refused() -> None:
    with refused("conflict", "space.seed"):
        search({"seed": Integer(1, 9)})
    with refused("missing", "space"):
        search({})


def test_a_bound_has_one_limit_and_measures_by_how_much_it_is_exceeded() -> None:
    assert Bound(column=MOF, at_least=0.5).violation(0.4) == pytest.approx(0.1)
    assert Bound(column=MOF, at_most=0.5).violation(0.4) == pytest.approx(-0.1)
    for limits in ({}, {"at_least": 0.1, "at_most": 0.2}):
        with refused("conflict", "constraints"):
            Bound(column=MOF, **limits)
