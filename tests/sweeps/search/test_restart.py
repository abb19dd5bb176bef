"""A search that is killed at any moment ends as the same study as an undisturbed one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sweeps.service.search.points import Job, Measured
from sweeps.service.spec.search import Choice, Integer, Sampler
from tests.helpers.simulated_searches import FLAT, NESTED, hill, queue_on, run, search_of

RUNGS = {"rungs": (0.5,), "seeds": 2}


def content(path: Path) -> list[dict[str, Any]]:
    """The trials of a study, without times."""
    trials: list[dict[str, Any]] = []
    for line in path.read_text().splitlines():
        operation = json.loads(line)
        if operation["op_code"] == 4:
            kept = ("state", "values", "value", "params", "distributions", "user_attrs")
            trials.append({name: operation.get(name) for name in kept})
            trials[-1]["generations"] = [k for k in operation.get("system_attrs", {}) if "generation" in k]
        elif "trial_id" in operation:
            trial = trials[operation["trial_id"]]
            for name in ("user_attr", "system_attr"):
                trial.setdefault(name, {}).update(operation.get(name, {}))
            if "step" in operation:
                trial.setdefault("curve", {})[operation["step"]] = operation["intermediate_value"]
            trial.update({name: operation[name] for name in ("state", "values") if name in operation})
    return trials


def small_space(job: Job) -> Measured | str:
    """Some trainings fail."""
    a, c = job.point.settings["a"], job.point.settings["c"]
    assert isinstance(a, float)
    assert isinstance(c, int)
    return "diverged" if (a, c) == (0.5, 2) else Measured((a + c / 10 + job.seed / 100,))


def test_after_a_kill_at_any_line_of_the_journal_the_study_is_that_of_an_undisturbed_search(folder: Path):
    space = {"a": Choice((0.0, 0.5, 1.0)), "c": Integer(1, 2)}
    search = search_of(space, trials=20, sampler="random", **RUNGS)
    base = {"a": 0.5, "c": 1}
    whole = folder / "whole"
    run(queue_on(whole, search, base=base), small_space)
    lines, expected = whole.read_bytes().splitlines(keepends=True), content(whole)
    assert len(expected) > 6  # equal suggestions among them
    for n in range(len(lines)):
        cut = folder / f"cut-{n}"
        cut.write_bytes(b"".join(lines[:n]) + lines[n][: n % len(lines[n])])
        run(queue_on(cut, search, base=base), small_space)
        assert content(cut) == expected, n


def cliff(job: Job) -> Measured | str:
    """Diverges with a small `a`, but only after the first rung."""
    a = job.point.settings["a"]
    assert isinstance(a, float)
    return "diverged" if a < 0.3 and job.rung is None else hill(job)


@pytest.mark.parametrize("sampler", ["tpe", "cmaes", "nsga2"])
@pytest.mark.parametrize("space", [FLAT, NESTED], ids=["flat", "nested"])
def test_samplers_continue_with_the_same_suggestions(folder: Path, sampler: Sampler, space: Any):
    search = search_of(space, trials=34, sampler=sampler, **RUNGS)
    run(queue_on(folder / "whole", search), cliff)
    for most in (5, 13, 17):
        run(queue_on(folder / "killed", search), cliff, most=most)
    run(queue_on(folder / "killed", search), cliff)
    assert content(folder / "killed") == content(folder / "whole")
