"""What fresh seeds say of a search: by how much it flatters, and whether there is a difference at all."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.service.search.sweep.last_step import final_plan
from sweeps.service.search.sweep.optimism import Fresh, comma_separated, fresh_points, optimism_table
from sweeps.service.spec.columns import MOF
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.text import markdown
from sweeps.service.trials.trial import Trial
from tests.helpers.planted_searches import Planted, ground_of, plant, rate_score, search_of

Found = tuple[Planted, list[Fresh], tuple[str, ...], str]


def search_and_last_step(store: Path, results: Path, score: Callable[[Trial], float]) -> Found:
    planted = Planted.open(search_of(trials=8, best=2, sampler="random"), ground_of(store, results))
    planted.train(score)
    search, history = planted.points.search, planted.queue.history()
    plan, trials = final_plan(search, planted.points.ground, history)
    for cell in plan.cells:
        plant(plan.results, cell, score(trials[cell.key]))
    (final,) = Standing.of(plan).tables.values()
    points = fresh_points(history, final)
    table = optimism_table(search.name, search.title, points, final)
    assert all(note in markdown(table) for note in table.notes.statistics)
    return planted, points, table.notes.statistics, comma_separated(points, final)


def noise(trial: Trial) -> float:
    """The same for all points."""
    return 0.5 + random.Random(f"{trial.identity}").gauss(0, 0.03)


def test_on_noise_the_best_score_is_optimistic_and_no_difference_is_shown(tiny_store: Path, tmp_path: Path) -> None:
    _, points, notes, _ = search_and_last_step(tiny_store, tmp_path, noise)
    first = points[0]
    gap = first.optimism(MOF)
    assert gap is not None
    assert gap > 0
    assert first.search is not None
    assert first.fresh is not None
    assert gap == pytest.approx(first.search.mean - first.fresh.mean)
    assert len(notes) == 4


def test_a_difference_that_is_real_is_not_called_noise(tiny_store: Path, tmp_path: Path) -> None:
    planted, points, notes, text = search_and_last_step(tiny_store, tmp_path, rate_score)
    assert [point.number for point in points if not point.default] == list(planted.queue.history().best[:2])
    assert len(notes) == 3
    heads, *lines = [line.split(",") for line in text.splitlines()]
    assert heads[-3:] == ["fresh.n", "optimism", "p_fresh"]
    assert [line[0] for line in lines] == [str(point.number) for point in points]
    assert [float(line[-2]) for line in lines] == [point.optimism(MOF) for point in points]
