"""What a machine sees of a sweep, and which differences from the driver are problems."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mucon.device import gpu_count
from mucon.errors import InputError
from storage import open_store
from sweeps.service.run import preflight
from sweeps.service.run.preflight import (
    Answer,
    Question,
    look,
    marked,
    own_facts,
    problems,
    refusal,
    space_needed,
    warnings,
)
from sweeps.service.run.resources import place_trials
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.refusals import matching, refused
from tests.helpers.remote_stores import site_of
from tests.sweeps import small


@pytest.fixture
def question(tiny_store: Path, tmp_path: Path) -> Iterator[Question]:
    results = ResultsFolder(tmp_path / "results")
    results.running("mine").mkdir(parents=True)
    with marked(results, "mine") as mark:
        yield Question(results=str(results.path), mark=str(mark), store=str(tiny_store))


def seen(question: Question) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(look(question.text(), seconds=0.0))
    return facts


def answered(facts: dict[str, Any], offers: tuple[float, float] = (1, 0)) -> Answer:
    """An answer in time."""
    return Answer(facts=facts, asked=facts["clock"], answered=facts["clock"], offers=offers)


def found(question: Question, there: Question, *, on_gpus: bool = False, offers: tuple[float, float] = (1, 0)) -> Any:
    """The problems of a node that sees other folders under the same paths."""
    return problems(question, seen(question), {"10.0.0.2": answered(seen(there), offers)}, on_gpus=on_gpus)


def test_machines_compare_the_manifest_of_a_store_at_a_uri_and_fetch_nothing_else(
    question: Question, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUCON_CACHE_DIR", str(tmp_path / "cache"))
    local = small.make_store(tmp_path / "site" / "tiny")
    with site_of(tmp_path / "site") as site:
        assert own_facts(site.uri("tiny"))["store"] == own_facts(str(local))["store"]
        assert dict(site.asked) == {"manifest.json": 1}
        assert not list(tmp_path.glob("cache/[os]*/*"))
        remote = replace(question, store=site.uri("tiny"))
        here = seen(remote)
        open_store(remote.store)
        monkeypatch.setenv("MUCON_CACHE_DIR", str(local / "manifest.json"))
        no_cache = seen(remote)
    monkeypatch.setenv("MUCON_CACHE_DIR", str(tmp_path / "cache"))
    assert seen(remote)["store"] == here["store"], "trials would use this copy"
    monkeypatch.setenv("MUCON_CACHE_DIR", str(tmp_path / "another cache"))
    away = seen(remote)
    wrong = problems(remote, here, {"a": answered(no_cache), "b": answered(away)}, on_gpus=False)
    assert [(one.rule, one.place, one.value) for one in wrong] == [
        ("mismatch", "node a", remote.store),
        ("mismatch", "node b", remote.store),
    ]
    with refused("unreachable", place=remote.store, n=1):
        own_facts(remote.store)


def test_a_node_that_sees_the_same_has_no_problem_and_nothing_is_left_behind(question: Question) -> None:
    before = sorted(Path(question.results).rglob("*"))
    assert found(question, question) == []
    assert sorted(Path(question.results).rglob("*")) == before


def test_the_mark_is_removed_at_the_end_and_that_of_a_killed_driver_at_the_start(tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path)
    results.running("mine").mkdir(parents=True)
    (results.running("mine") / "sweep-old").touch()
    with contextlib.suppress(InputError), marked(results, "mine") as mark:
        assert list(results.running("mine").iterdir()) == [mark]
        raise InputError("an error")
    assert list(results.running("mine").iterdir()) == []


def test_all_that_a_node_sees_differently_is_reported(question: Question, tmp_path: Path) -> None:
    other = small.make_store(tmp_path / "store", n_train=3)
    (tmp_path / "empty").mkdir()
    there = Question(results=str(tmp_path / "empty"), mark=str(tmp_path / "empty" / "mark"), store=str(other))
    wrong = found(question, there)
    assert {problem.place for problem in wrong} == {"node 10.0.0.2"}
    assert [(problem.rule, problem.value) for problem in wrong] == [
        ("mismatch", question.results),
        ("mismatch", question.store),
    ]
    gone = Question(results=str(tmp_path / "no"), mark=str(tmp_path / "no" / "mark"), store=str(tmp_path / "none"))
    assert [problem.value for problem in found(question, gone)] == [question.results, question.store]


def test_a_folder_that_a_node_cannot_write_is_a_problem(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, place: str) -> None:
        raise InputError("cannot be written")

    monkeypatch.setattr(preflight, "check_folder", refuse)
    facts = seen(question)
    monkeypatch.undo()
    (problem,) = problems(question, seen(question), {"a": answered(facts)}, on_gpus=False)
    assert (problem.rule, problem.place, problem.value) == ("mismatch", "node a", question.results)


@pytest.mark.parametrize(
    ("theirs", "named"),
    [
        ({"torch": "2.0.0"}, "torch"),
        ({"source": "0" * 12}, "source"),
        ({"torch": "2.0.0", "source": "0" * 12}, "torch"),
        ({"mucon": "9", "numpy": "9"}, "mucon"),
    ],
)
def test_other_versions_are_a_problem_that_names_them(question: Question, theirs: dict[str, str], named: str) -> None:
    own = seen(question)
    answer = answered({**own, "versions": {**own["versions"], **theirs}})
    (problem,) = problems(question, own, {"a": answer}, on_gpus=False)
    assert (problem.rule, problem.place) == ("version", "node a")
    assert str(problem.value).startswith(f"{named} {theirs[named]}, here ")


def test_nodes_that_do_not_answer_are_named(question: Question) -> None:
    answers = {name: Answer(failure=f"{name} is silent") for name in ("a", "b")}
    wrong = problems(question, seen(question), answers, on_gpus=False)
    assert [(problem.rule, problem.place) for problem in wrong] == [
        ("unreachable", "node a"),
        ("unreachable", "node b"),
    ]
    assert warnings(answers) == []


@pytest.mark.parametrize(("on_gpus", "gpus", "n"), [(True, 0, 1), (False, 0, 0), (True, 2, 0), (True, None, 0)])
def test_a_gpu_that_torch_does_not_find_is_a_problem_of_trials_on_gpus(
    question: Question, on_gpus: bool, gpus: int | None, n: int
) -> None:
    own = seen(question)
    answer = answered({**own, "gpus": gpus}, (1.0, 2.0))
    wrong = problems(question, own, {"a": answer}, on_gpus=on_gpus)
    assert len(matching(wrong, "unsupported", "node a", 2.0)) == len(wrong) == n


@pytest.mark.parametrize(("clock", "apart"), [(90, 10), (96, None), (103, None), (109, None), (140, 30)])
def test_a_clock_is_a_problem_if_it_is_outside_of_question_and_answer(
    question: Question, clock: float, apart: int | None
) -> None:
    own = seen(question)
    answer = Answer(facts={**own, "clock": clock}, asked=100.0, answered=110.0)
    wrong = problems(question, own, {"a": answer}, on_gpus=False)
    assert [(one.rule, one.place, one.value) for one in wrong] == ([("mismatch", "node a", apart)] if apart else [])


def test_a_node_that_sees_too_little_room_is_named(question: Question) -> None:
    own = seen(question)
    answer = answered({**own, "room": [1000, 7]})
    wrong = problems(question, own, {"a": answer}, on_gpus=False, needs=(1001, 8))
    assert [(one.rule, one.place, one.value) for one in wrong] == [
        ("unwritable", "node a", 1000),
        ("unwritable", "node a", 7),
    ]
    assert not problems(question, own, {"a": answered({**own, "room": [1000, None]})}, on_gpus=False, needs=(1000, 8))


def test_a_machine_that_has_joined_is_refused_for_each_fault_that_it_has(question: Question, tmp_path: Path) -> None:
    own = own_facts(question.store)
    assert refusal(question, own, "a", (1, 0), 0.0, on_gpus=False) == ""
    other = {**own, "store": "0" * 64, "versions": {**own["versions"], "mucon": "9"}}
    gone = replace(question, mark=str(tmp_path / "mark"))
    assert refusal(gone, other, "a", (1, 1), 0.0, on_gpus=gpu_count() == 0).count("node a: ") >= 3


def test_more_cores_than_a_node_can_use_are_suspicious() -> None:
    answer = Answer(facts={"clock": 0.0, "cpus": 4}, offers=(16.0, 0.0))
    assert len(matching(warnings({"a": answer}), "range", "node a", 16.0)) == 1


def test_a_results_folder_without_room_for_the_weights_is_refused_before_anything_starts(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials, results = [small.make_trial(tiny_store, seed=seed) for seed in (1, 2)], ResultsFolder(tmp_path)
    assert space_needed(trials, 2)[0] == 2 * space_needed(trials, 1)[0] == 4 * space_needed(trials[:1], 1)[0] > 1000
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    monkeypatch.setattr(preflight.os, "statvfs", lambda _: SimpleNamespace(f_files=100, f_favail=7))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with refused("unwritable", str(tmp_path), n=2) as refusals:
        preflight.checked_placement(
            lambda nodes: place_trials("cpu", "auto", "auto", nodes), results, tmp_path, trials, copies=1
        )
    assert refusals.values == [1000, 7]
