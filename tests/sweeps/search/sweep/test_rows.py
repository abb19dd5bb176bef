"""Points as rows of a table, and what a search refuses before it trains anything."""

from dataclasses import replace
from pathlib import Path

import pytest

from storage import StoreWriter
from sweeps.service.search.points import Job, Point
from sweeps.service.search.sweep.last_step import final_plan, fresh_seeds
from sweeps.service.search.sweep.rows import PointPlan, columns_of, point_row, search_table
from sweeps.service.spec.columns import INFERENCE_SECONDS, MATCHING_SCORE, MOF, MUCON_COLUMNS
from sweeps.service.spec.search import Bound
from tests.helpers.annotations import reads_of_labels
from tests.helpers.planted_searches import Planted, ground_of, search_of
from tests.helpers.refusals import refused

BELL = Point(3, {"training.learning_rate": 0.0123456, "mask.shape": "bell", "mask.overlap": 0.1})
BOX = Point(4, {"training.learning_rate": 0.05, "mask.shape": "box"})


def test_a_point_is_a_row_with_its_number_and_settings() -> None:
    rows = [point_row(search_of(), point) for point in (BELL, BOX)]
    assert [row.labels for row in rows] == [("3", "0.0123", "bell", "0.1"), ("4", "0.05", "box", "–")]
    table = search_table(search_of(), rows)
    assert table.label_titles == ("point", "learning_rate", "shape", "overlap")
    assert search_table(search_of(), rows, 0.7).name == "planted_rung_70"


def test_objectives_and_constraints_are_the_first_columns() -> None:
    search = search_of(objectives=(MATCHING_SCORE, MOF), constraints=(Bound(column=INFERENCE_SECONDS, at_most=1.0),))
    rest = [column for column in MUCON_COLUMNS if column not in (MATCHING_SCORE, MOF)]
    assert list(columns_of(search)) == [MATCHING_SCORE, MOF, INFERENCE_SECONDS, *rest]


def test_a_training_at_a_rung_stops_early_and_the_whole_one_continues_it(tiny_store: Path, tmp_path: Path) -> None:
    points = PointPlan(search_of(rungs=(0.4, 0.7)), ground_of(tiny_store, tmp_path, **{"training.epochs": 10}))
    first, second, whole = (next(iter(points.add(Job(BOX, 1, rung)).values())) for rung in (0.4, 0.7, None))
    assert [trial.config.to_dict()["training"]["stop_after"] for trial in (first, second, whole)] == [4, 7, None]
    assert whole.continues == (second.identity, first.identity)
    assert [part.experiment.name for part in points.plan.parts] == ["planted", "planted_rung_70", "planted_rung_40"]
    assert all(trial.part == "validation" for trial in points.trials.values())


@pytest.mark.parametrize(
    ("settings", "rule", "place"),
    [
        ({"mask.shape": "box"}, "conflict", "mask.shape"),
        ({"mask.shpe": "box"}, "unknown", "mask.shpe"),
        ({"backbone.pool_after": "1,20"}, "range", "backbone.pool_after"),
    ],
)
def test_settings_of_all_points_are_checked(
    tiny_store: Path, tmp_path: Path, settings: dict[str, object], rule: str, place: str
) -> None:
    with refused(rule, place):
        PointPlan(search_of(), ground_of(tiny_store, tmp_path, **settings))


def test_a_point_whose_rule_for_the_background_the_store_cannot_follow_is_refused(
    tiny_store: Path, tmp_path: Path
) -> None:
    points = PointPlan(search_of(), ground_of(tiny_store, tmp_path))
    assert not points.refusal(BOX)
    assert "background_rule" in points.refusal(replace(BOX, settings={"decoding.background_rule": "score"}))


def test_splits_that_are_scored_on_recordings_of_each_others_test_part_are_refused(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store", dim=2, dtype="float32", vocabulary=("a", "b")) as writer:
        for i in range(6):
            parts = tuple(f"{split}:{'test' if i % 2 == split else 'train'}" for split in (0, 1))
            writer.add(f"v{i}", [[0.0, 1.0]] * 20, transcript=[0, 1], lengths=[10, 10], splits=parts)
    ground = ground_of(tmp_path / "store", tmp_path / "results")
    with refused("conflict", "splits", n=2):
        PointPlan(search_of(), replace(ground, splits=("all",)))
    PointPlan(search_of(), replace(ground, splits=("0",)))


def test_without_lengths_the_matching_score_takes_the_place_of_mof(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store", dim=2, dtype="float32", vocabulary=("a", "b")) as writer:
        for i in range(6):
            parts = ("1:test" if i == 5 else "1:train",)
            writer.add(f"v{i}", [[0.0, 1.0]] * 20, transcript=[0, 1], splits=parts)
    points = PointPlan(search_of(), ground_of(tmp_path / "store", tmp_path / "results"))
    assert points.search.objectives == (MATCHING_SCORE,)


def test_no_label_of_the_test_part_is_read_before_the_last_step(tiny_store: Path, tmp_path: Path) -> None:
    test = {"video_06", "video_07", "video_08"}
    with reads_of_labels() as read:
        planted = Planted.open(search_of(best=2, fresh_seeds=3), ground_of(tiny_store, tmp_path))
        planted.train()
        assert read
        assert not read & test
        history, search = planted.queue.history(), planted.points.search
        plan, trials = final_plan(search, planted.points.ground, history)
        assert test < read
    assert list(fresh_seeds(search, history)) == [3, 4, 5]
    assert {trial.part for trial in trials.values()} == {"test"}
    assert {cell.seed for cell in plan.cells} == {3, 4, 5}
    rows = [row.labels[0] for row in plan.parts[0].experiment.variants]
    assert set(rows) == {"0", *(str(number) for number in history.best[:2])}
    assert plan.parts[0].experiment.default_row == point_row(search, history.record(0).point).name
