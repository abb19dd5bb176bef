"""A plan that gets further cells while its trials run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sweeps.service.plan.plan import Plan
from sweeps.service.plan.running import RunningPlan
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from tests.helpers.planted_sweeps import Unfinished, make_sweep

EXPERIMENT = Experiment(
    name="grows",
    title="Grows",
    label_titles=("Row",),
    variants=(Variant(labels=("a",)), Variant(labels=("b",), settings={"training.learning_rate": 0.1})),
)


def with_rows(plan: Plan, *names: str) -> Plan:
    (part,) = plan.parts
    cells = tuple(cell for cell in part.cells if cell.variant.name in names)
    return replace(plan, parts=(replace(part, cells=cells),))


def test_further_cells_join_the_ones_to_run_and_the_earlier_ones_stay(tmp_path: Path) -> None:
    unfinished: dict[Any, Any] = {("a", "1", 2): Unfinished("stopped"), ("b", "1", 1): Unfinished("stopped")}
    whole = make_sweep(tmp_path, EXPERIMENT, lambda *_: 0.5, n_seeds=2, unfinished=unfinished)
    first = with_rows(whole, "a")
    a1, a2, b1, b2 = (cell.key for name in "ab" for cell in with_rows(whole, name).cells)
    results = whole.read_results()
    trials: dict[str, Any] = {key: f"trial {key}" for key in results}

    running = RunningPlan(first, {key: trials[key] for key in (a1, a2)}, first.read_results())
    cells, to_run = running.cells, running.to_run
    assert set(cells) == {a1, a2}
    assert set(to_run) == {a2}
    running.extend(whole, trials, results)
    assert running.plan is whole
    assert running.trials == trials
    assert running.results == results
    assert set(cells) == {a1, a2, b1, b2}
    assert set(to_run) == {a2, b1}
    running.limit({b1})
    assert set(to_run) == {b1}
    assert set(cells) == {a1, a2, b1, b2}
