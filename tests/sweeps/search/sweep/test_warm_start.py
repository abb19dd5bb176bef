"""Scores of earlier sweeps from which a search starts."""

from dataclasses import replace
from pathlib import Path

from sweeps.service.search.sweep.rows import PointPlan, point_row
from sweeps.service.search.sweep.warm_start import known_points
from tests.helpers.planted_searches import Planted, ground_of, search_of
from tests.helpers.refusals import refused


def test_points_of_an_earlier_search_are_known_with_their_seeds(tiny_store: Path, tmp_path: Path) -> None:
    earlier = Planted.open(search_of(name="earlier"), ground_of(tiny_store, tmp_path))
    earlier.train()
    earlier.points.plan.write()
    known = known_points(PointPlan(search_of(), ground_of(tiny_store, tmp_path)), ["earlier"])
    records = earlier.queue.history().records
    assert [one.scores for one in known] == [record.scores for record in records if record.scores]


def test_the_default_row_is_the_base_configuration_and_not_the_first_known_point(
    tiny_store: Path, tmp_path: Path
) -> None:
    earlier = Planted.open(search_of(name="earlier", trials=3), ground_of(tiny_store, tmp_path))
    earlier.train()
    written = earlier.points.plan
    (part,) = written.parts
    suggested = [row for row in part.experiment.variants if row.labels[0] != "0"]
    cells = tuple(cell for cell in part.cells if cell.variant in suggested)
    experiment = replace(part.experiment, variants=tuple(suggested), default_row=None)
    replace(written, parts=(replace(part, experiment=experiment, cells=cells),)).write()

    planted = Planted.open(search_of(), ground_of(tiny_store, tmp_path), warm_start=["earlier"])
    history = planted.queue.history()
    default = next(record.point for record in history.records if record.point.origin == "default")
    assert history.records[0].point.origin == "warm start"
    (part,) = planted.points.plan.parts
    assert part.experiment.default_row == point_row(planted.points.search, default).name


def test_rows_with_other_settings_are_left_out(tiny_store: Path, tmp_path: Path) -> None:
    earlier = Planted.open(search_of(name="earlier"), ground_of(tiny_store, tmp_path))
    earlier.train()
    earlier.points.plan.write()
    longer = PointPlan(search_of(), ground_of(tiny_store, tmp_path, **{"training.epochs": 4}))
    assert known_points(longer, ["earlier"]) == []


def test_a_sweep_that_is_scored_on_the_test_part_is_refused(tiny_store: Path, tmp_path: Path) -> None:
    planted = Planted.open(search_of(), ground_of(tiny_store, tmp_path))
    replace(planted.points.plan, name="leak", part="test").write()
    with refused("conflict", "--warm-start", "leak", n=1):
        known_points(planted.points, ["leak"])
    with refused("unknown", value="absent"):
        known_points(planted.points, ["absent"])
