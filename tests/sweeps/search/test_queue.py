"""What a search trains next, with trainings that are functions of numbers."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sweeps.service.run.source import Exhausted
from sweeps.service.search.points import Job, Measured
from sweeps.service.search.queue import Known
from sweeps.service.search.rules import optimism
from sweeps.service.spec.columns import INFERENCE_SECONDS, MOF
from sweeps.service.spec.search import Bound, Choice, Integer, LogUniform, Sampler, Space, Uniform
from tests.helpers.refusals import refused
from tests.helpers.simulated_searches import BASE, FLAT, NESTED, TWO, hill, key, queue_on, run, search_of

FINITE: Space = {"a": Choice((0.0, 0.5, 1.0)), "c": Integer(1, 4), "w": Uniform(0, 1, step=0.5, when={"a": (1.0,)})}
"""Four values of `c`, beside them three of `a`, with three of `w` in the last one: 20 points."""


def a_of(job: Job) -> float:
    a = job.point.settings["a"]
    assert isinstance(a, float)
    return a


def test_the_base_configuration_is_first_and_has_all_seeds_and_rungs(folder: Path):
    queue = queue_on(folder / "study", search_of(seeds=3, rungs=(0.5, 0.75), trials=3))
    trained = run(queue, lambda job: Measured((0.9,) if job.point.number else (0.1,)))
    assert [(one.point.number, one.seed, one.rung) for one in trained][:5] == [
        *[(0, 1, 0.5), (0, 1, 0.75), (0, 1, None)],
        *[(0, 2, None), (0, 3, None)],
    ]
    first = queue.history().records[0]
    assert (first.point.origin, dict(first.point.settings), first.n) == ("default", {"a": 0.5, "b": 0.01, "c": 4}, 3)


def test_a_base_outside_of_the_space_is_trained_and_no_sampler_sees_it(folder: Path):
    search = search_of(trials=20, seeds=1, sampler="cmaes")
    base = {**BASE, "b": 5.0}
    queue = queue_on(folder / "study", search, base=base)
    run(queue, most=8)
    continued = queue_on(folder / "study", search, base=base)
    run(continued)
    whole = queue_on(folder / "whole", search, base=base)
    run(whole)
    assert continued.history() == whole.history()
    records = whole.history().records
    assert (records[0].point.settings["b"], records[0].state) == (5.0, "complete")
    assert len(records) == 20
    written = (folder / "whole").read_text().splitlines()
    assert any('"cmaes:generation":1' in line.replace(" ", "") for line in written)  # learnt from the points inside


@pytest.mark.parametrize("sampler", ["tpe", "random", "grid", "cmaes", "nsga2"])
@pytest.mark.parametrize("slots", [1, 4])
def test_equal_points_are_trained_once_and_a_finite_space_ends(folder: Path, sampler: Sampler, slots: int):
    queue = queue_on(
        folder / "study", search_of(FINITE, trials=100, seeds=1, sampler=sampler), base={"a": 0.5, "c": 4, "w": 0.5}
    )
    trained = run(queue, lambda job: Measured((a_of(job),)), slots=slots)
    assert set(Counter(key(job.point.settings) for job in trained).values()) == {1}
    history = queue.history()
    assert len(trained) == len(history.records) == 20
    assert history.exhausted
    states = [json.loads(line).get("state") for line in (folder / "study").read_text().splitlines()]
    assert states.count(1) == 20 + history.duplicates  # every equal suggestion has the value of its point


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_settings_that_lead_to_the_same_training_are_equal_and_an_infinite_space_of_few_ends(
    folder: Path, sampler: Sampler
):
    search = search_of(FLAT, trials=50, seeds=1, sampler=sampler)
    queue = queue_on(folder / "study", search, key=lambda settings: str(settings["c"]))
    trained = run(queue, slots=3)
    assert len({job.point.settings["c"] for job in trained}) == len(trained) <= 8
    assert queue.history().exhausted


def test_a_queue_waits_for_running_trainings_and_then_ends(folder: Path):
    queue = queue_on(folder / "study", search_of(trials=2, seeds=1))
    jobs = [queue.next(), queue.next()]
    assert queue.next() is None
    for job in jobs:
        assert job is not None
        queue.ended(job, hill(job))
    with pytest.raises(Exhausted):
        queue.next()
    with pytest.raises(KeyError):
        queue.ended(job, hill(job))


def test_a_point_gets_its_next_seed_if_it_is_in_the_best_third_of_those_with_as_many(folder: Path):
    scores = iter([0.5, 0.5, 0.5, 0.9, 0.1, 0.8, 0.7, 0.6])  # of the default, then 0.9 and its seeds ...
    queue = queue_on(folder / "study", search_of(trials=5, seeds=3))
    trained = run(queue, lambda _: Measured((next(scores),)))
    assert [(job.point.number, job.seed) for job in trained] == [
        *[(0, 1), (0, 2), (0, 3)],
        *[(1, 1), (1, 2)],  # 0.9 is the best; the mean 0.5 of two seeds equals the earlier one
        *[(2, 1), (3, 1), (4, 1)],  # 0.8 is second of three, 0.7 third of four, 0.6 fourth of five
    ]


def test_only_the_best_third_of_the_points_goes_on_after_a_rung(folder: Path):
    search = search_of(trials=30, seeds=1, rungs=(0.4, 0.7), sampler="random")
    queue = queue_on(folder / "study", search)
    trained = run(queue, slots=4)
    reached = Counter(job.rung for job in trained)
    assert reached[0.4] == 30
    assert 7 <= reached[0.7] <= 13
    assert reached[None] < reached[0.7]
    history = queue.history()
    assert Counter(one.state for one in history.records) == {"complete": reached[None], "stopped": 30 - reached[None]}
    stopped = next(one for one in history.records if one.state == "stopped")
    assert (stopped.n, stopped.rung in (0.4, 0.7)) == (0, True)
    assert all(number in {job.point.number for job in trained if job.rung is None} for number in history.best)


@pytest.mark.parametrize("sampler", ["tpe", "cmaes", "nsga2"])
def test_points_that_break_a_constraint_are_never_the_best(folder: Path, sampler: Sampler):
    bound = Bound(column=INFERENCE_SECONDS, at_most=0.6)
    search = search_of(trials=25, seeds=2, constraints=(bound,), sampler=sampler)
    queue = queue_on(folder / "study", search)
    run(queue, lambda job: Measured((a_of(job),), (a_of(job),)))  # the better, the slower
    history = queue.history()
    states = {one.point.number: one.state for one in history.records}
    assert {"complete", "infeasible"} == set(states.values())
    assert {states[number] for number in (*history.best, *history.front)} == {"complete"}
    assert history.record(history.best[0]).mean[0] <= 0.6
    broken = next(one for one in history.records if one.state == "infeasible")
    assert broken.violations[0] == pytest.approx(broken.mean[0] - 0.6)
    assert broken.n == 1


@pytest.mark.parametrize("failure", ["diverged in epoch 3", Measured((float("nan"),))])
def test_a_point_with_a_failed_training_has_failed(folder: Path, failure: Any):
    queue = queue_on(folder / "study", search_of(trials=10, seeds=2, sampler="random"))
    run(queue, lambda job: failure if a_of(job) > 0.7 or (not job.point.number and job.seed == 2) else hill(job))
    history = queue.history()
    default = history.records[0]
    assert (default.state, default.n, bool(default.reason)) == ("failed", 1, True)
    failed = {one.point.number for one in history.records if one.state == "failed"}
    assert len(failed) > 2
    assert not failed & {*history.best, *history.front}
    assert set(history.best) == {one.point.number for one in history.records} - failed


def test_a_sampler_learns_where_trainings_fail(folder: Path):
    """Optuna's samplers pass over failed trials: with such, three quarters of the later points would fail here."""
    queue = queue_on(folder / "study", search_of(trials=50, seeds=1))
    run(queue, lambda job: Measured((a_of(job),)) if a_of(job) <= 0.6 else "diverged")
    states = [one.state for one in queue.history().records]
    assert states[10:].count("failed") < 20
    assert queue.history().record(queue.history().best[0]).mean[0] > 0.58


def test_known_configurations_are_not_trained_and_those_outside_are_named(folder: Path):
    known = [
        Known(
            "sweep: row 1",
            {"a": 0.123456789123, "b": 0.0123456789, "c": 3},
            {1: Measured((0.95,)), 2: Measured((0.93,))},
        ),
        Known("sweep: row 2", {"a": 0.5, "b": 2.0, "c": 3}, {1: Measured((0.9,))}),
        Known("sweep: row 3", {"a": 0.5, "b": 0.01}, {1: Measured((0.9,))}),
        Known("sweep: row 4", {"a": 0.5, "b": 0.02, "c": 1}, {1: Measured((float("nan"),))}),
    ]
    search = search_of(trials=4, seeds=2)
    for _ in range(2):
        queue = queue_on(folder / "study", search, known=known)
        trained = run(queue)
        assert queue.outside == ("sweep: row 2", "sweep: row 3", "sweep: row 4")
        records = queue.history().records
        assert [one.point.origin for one in records] == ["warm start", "default", *["suggested"] * 3]
    assert not trained
    assert dict(records[0].point.settings) == dict(known[0].configuration)
    assert (records[0].mean, records[0].n) == ((pytest.approx(0.94),), 2)
    assert queue.history().best[0] == 0


def test_a_known_base_configuration_is_the_default_and_not_trained_again(folder: Path):
    known = [Known("sweep: base", BASE, {1: Measured((0.5,)), 2: Measured((0.7,))})]
    queue = queue_on(folder / "study", search_of(trials=3, seeds=2), known=known)
    assert {job.point.number for job in run(queue)} == {1, 2}
    assert [one.point.origin for one in queue.history().records] == ["default", "suggested", "suggested"]


def test_a_search_with_more_points_continues_with_the_suggestions_of_a_longer_one(folder: Path):
    run(queue_on(folder / "grown", search_of(trials=8, seeds=1)))
    grown = queue_on(folder / "grown", search_of(trials=8, seeds=1), trials=14)
    run(grown)
    long = queue_on(folder / "long", search_of(trials=14, seeds=1))
    run(long)
    assert grown.history() == long.history()


def test_several_objectives_have_a_front_of_points_that_none_dominates(folder: Path):
    queue = queue_on(folder / "study", search_of(trials=25, objectives=TWO, sampler="nsga2", rungs=(0.5,)))
    run(queue, lambda job: Measured((a_of(job), a_of(job) ** 2 + (0.3 if job.point.number % 2 else 0))), slots=2)
    history = queue.history()
    whole = {one.point.number: one.mean for one in history.records if one.n}
    dominated = {
        number
        for number, (mof, seconds) in whole.items()
        for mof_, seconds_ in whole.values()
        if (mof_, seconds_) != (mof, seconds) and mof_ >= mof and seconds_ <= seconds
    }
    assert set(history.front) == set(whole) - dominated
    assert 1 < len(history.front) < len(whole)


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"sampler": "grid"}, "space.a"),
        ({"sampler": "grid", "space": {"a": Integer(1, 101), "b": Integer(1, 101)}}, "space"),
        ({"sampler": "cmaes", "space": {"a": Choice((1, 2)), "b": Uniform(0, 1, when={"a": (1,)})}}, "space"),
        ({"sampler": "cmaes", "objectives": TWO}, "objectives"),
    ],
)
def test_a_sampler_that_does_not_fit_the_search_is_refused(folder: Path, settings: dict[str, Any], place: str):
    search = search_of(**{"space": FLAT, **settings})
    with refused("conflict" if place != "space" or search.sampler == "cmaes" else "range", place, search.sampler):
        queue_on(folder / "study", search)


@pytest.mark.parametrize("space", [FLAT, NESTED], ids=["flat", "nested"])
def test_a_reopened_search_of_several_slots_knows_the_same_and_trains_the_same_next(folder: Path, space: Space):
    search = search_of(space, trials=30, seeds=2, rungs=(0.5,))
    order = random.Random(3)
    queue = queue_on(folder / "study", search)
    running: list[Job] = []
    for step in range(30):
        while len(running) < 4 and (job := queue.next()) is not None:
            running.append(job)
        job = running.pop(order.randrange(len(running)))
        queue.ended(job, hill(job))
        if step % 10 == 7:  # all that ran is lost with the process
            known = queue.history()
            queue = queue_on(folder / "study", search)
            assert queue.history() == known
            again = [job for job in (queue.next() for _ in range(4)) if job is not None]
            assert all(job in again for job in running)
            running = again


def test_importance_finds_the_setting_that_matters_and_needs_points(folder: Path):
    queue = queue_on(folder / "study", search_of(NESTED, trials=30, seeds=1, sampler="random"))
    run(queue, most=5)
    assert queue.history(with_importance=True).importance == ({},)
    run(queue)
    (first,), (again,) = (queue.history(with_importance=True).importance for _ in range(2))
    assert first == again
    assert max(first, key=lambda path: first[path]) == "a"
    assert set(first) <= set(NESTED)


def test_settings_are_within_the_space_and_only_those_with_an_effect(folder: Path):
    space: Space = {
        **NESTED,
        "step": Uniform(0.1, 1.0, step=0.3),
        "rate": LogUniform(1e-5, 1e-1),
        "count": Integer(1, 64, log=True),
    }
    queue = queue_on(
        folder / "study", search_of(space, trials=40, seeds=1), base={**BASE, "step": 0.4, "rate": 1e-3, "count": 2}
    )
    run(queue)
    for one in queue.history().records:
        settings = one.point.settings
        assert ("width" in settings) == (settings["kind"] == "bell")
        assert settings["step"] in (0.1, 0.4, 0.7, 1.0)
        assert settings["pair"] in ((1, 2), (3, 4), 5)
        assert isinstance(settings["count"], int)
        assert 1e-5 <= settings["rate"] <= 1e-1  # type: ignore[operator]


def test_the_best_score_of_many_equal_points_flatters(folder: Path):
    noise = random.Random(7)
    overstated = []
    for seed in range(12):
        search = search_of({"a": Uniform(0, 1)}, trials=15, seeds=2, sampler="random", sampler_seed=seed)
        queue = queue_on(folder / f"study-{seed}", search)
        run(queue, lambda _: Measured((noise.gauss(0.6, 0.02),)))
        history = queue.history()
        fresh = [noise.gauss(0.6, 0.02) for _ in range(5)]
        overstated.append(optimism(MOF, history.record(history.best[0]).mean, fresh))
    assert sum(overstated) / len(overstated) > 0.01
