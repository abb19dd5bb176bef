"""Tables whose results decided how many seeds each row has: decisions in the notes, no bold, no p, no interval."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.report.figures.pictures import figure_data
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.seeds import SeedRule, read_seeds
from sweeps.service.stats.sequential import Decision
from sweeps.service.tables.best import best_of
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.text import comma_separated
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.helpers.refusals import refused

NOISE = [0.004, -0.003, 0.001, -0.005, 0.003, 0.002]


def planted(
    folder: Path,
    advantages: dict[str, float],
    *,
    seeds: dict[str, int] | None = None,
    until: float = 1.0,
    unfinished: dict[tuple[str, str, int], Unfinished] | None = None,
    columns: tuple[Column, ...] = (Column(metric="mof"),),
) -> Plan:
    """A sweep of some rows, the first of which is the default row, with six seeds or as many as a row needs."""
    names = list(advantages)
    shape = Experiment(
        name="rows",
        title="Rows",
        label_titles=("Row",),
        variants=tuple(Variant(labels=(name,)) for name in names),
        columns=columns,
        default_row=names[0],
    )

    def score(row: str, split: str, seed: int, prediction: str) -> float:
        return 0.5 + advantages[row] + NOISE[(seed + names.index(row)) % len(NOISE)]

    plan = make_sweep(folder, shape, score, n_seeds=6, unfinished=unfinished)
    (part,) = plan.parts
    cells = tuple(cell for cell in part.cells if cell.seed <= (seeds or {}).get(cell.variant.name, 6))
    plan = replace(plan, parts=(replace(part, cells=cells),), seed_rule=SeedRule(least=3, most=6, until=until))
    plan.write()
    return plan


def decisions(plan: Plan) -> dict[str, Decision | None]:
    table = Standing.of(plan).tables["rows"]
    return {row.name: row.decision for row in table.rows if row.kind == "row"}


def test_each_row_has_its_decision_with_the_interval_and_its_own_number_of_seeds(tmp_path: Path) -> None:
    advantages = {"plain": 0.0, "up": 0.2, "down": -0.2, "same": 0.0}
    plan = planted(tmp_path, advantages, seeds={"up": 4, "down": 4}, until=3.0)
    assert decisions(plan) == {
        "plain": None,
        "up": Decision.BETTER,
        "down": Decision.WORSE,
        "same": Decision.EQUIVALENT,
    }
    table = Standing.of(read_plan(plan.results, "rows")).tables["rows"]  # as `report` makes it later
    assert [str(row.seeds) for row in table.rows[:4]] == ["6", "4", "4", "6"]
    text = " ".join(table.notes.statistics)
    assert all(name in text for name in ("'up' better: +", "'down' worse: -", "'same' equivalent: "))
    assert table.notes.ranking == table.notes.differences == ()


def test_the_csv_has_a_column_for_the_decision(tmp_path: Path) -> None:
    plan = planted(tmp_path, {"default": 0.0, "better": 0.2})
    rows = list(csv.DictReader(io.StringIO(comma_separated(Standing.of(plan).tables["rows"]))))
    found = {row["Row"]: row["decision"] for row in rows if row["kind"] == "row"}
    assert found == {name: str(decision or "") for name, decision in decisions(plan).items()}
    assert found["better"] == "better"


def test_nothing_is_tested_that_needs_a_fixed_number_of_seeds(tmp_path: Path) -> None:
    plan = planted(tmp_path, {"plain": 0.0, "up": 0.2})
    standing = Standing.of(plan)
    (table,) = standing.tables.values()
    for row in table.rows:
        assert not any(row.bold)
        assert row.p_values == row.against_best == (None,)
        assert all(summary is None or summary.interval is None for summary in row.summaries)
    for line in csv.DictReader(io.StringIO(comma_separated(table))):
        assert {line[f"full.mof.{name}"] for name in ("low", "high", "p_seeds", "p_paper", "p_best")} == {""}
    data = figure_data(plan.parts[0], standing)
    assert [data.interval(row.y) for row in data.rows] == [None, None]
    fixed = replace(plan, seed_rule=None)
    (table,) = Standing.of(fixed).tables.values()
    assert table.rows[1].bold == (True,)
    assert table.rows[1].summaries[0].interval is not None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("advantages", "is_shown"),
    [
        ({"plain": 0.0, "down": -0.2, "worse": -0.3}, True),
        ({"plain": 0.0, "up": 0.2}, True),
        ({"plain": 0.0, "up": 0.2, "down": -0.2}, False),  # the two others are not compared with each other
        ({"plain": 0.0, "same": 0.0005}, False),
    ],
)
def test_a_row_is_the_best_one_only_if_the_rule_has_shown_it(
    tmp_path: Path, advantages: dict[str, float], is_shown: bool
) -> None:
    plan = planted(tmp_path, advantages)
    found = best_of(Standing.of(plan), plan.parts[0])
    assert found is not None
    assert found.is_shown is is_shown


def test_a_difference_counts_in_the_points_of_its_column(tmp_path: Path) -> None:
    frames = (Column(metric="boundary_error_frames"),)
    wide = planted(tmp_path / "wide", {"plain": 0.0, "near": 0.001}, until=1.5, columns=frames)
    narrow = planted(tmp_path / "narrow", {"plain": 0.0, "near": 0.001}, until=0.015, columns=frames)
    up = planted(tmp_path / "up", {"plain": 0.0, "up": 0.2}, columns=frames)
    assert decisions(wide)["near"] is Decision.EQUIVALENT
    assert decisions(narrow)["near"] is Decision.OPEN
    assert decisions(up)["up"] is Decision.BETTER  # fewer frames


def test_rows_without_values_have_no_interval(tmp_path: Path) -> None:
    lost = {("up", "1", seed): Unfinished("failed", "reason") for seed in range(1, 4)}
    plan = planted(tmp_path, {"plain": 0.0, "up": 0.2}, seeds={"plain": 3, "up": 3}, unfinished=lost)
    assert decisions(plan)["up"] is Decision.NO_VALUES
    stopped = planted(tmp_path / "b", {"plain": 0.0, "up": 0.2}, unfinished={("up", "1", 2): Unfinished("stopped")})
    assert decisions(stopped)["up"] is Decision.OPEN


@pytest.mark.parametrize("rule", ["auto:3..15", [3, 15], {"least": 3}, {"least": "3", "most": 15, "until": 1.0}])
def test_a_damaged_rule_is_a_damaged_plan(tmp_path: Path, rule: object) -> None:
    plan = planted(tmp_path, {"plain": 0.0, "up": 0.2})
    path = plan.folder / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "seed_rule": rule}))
    with refused("damaged", "plan.json", n=1):
        read_plan(plan.results, "rows")


def test_a_plan_of_an_earlier_version_has_no_rule(tmp_path: Path) -> None:
    plan = planted(tmp_path, {"plain": 0.0, "up": 0.2})
    assert read_plan(plan.results, "rows").seed_rule == plan.seed_rule
    path = plan.folder / "plan.json"
    content = json.loads(path.read_text())
    del content["seed_rule"]
    path.write_text(json.dumps(content))
    assert read_plan(plan.results, "rows").seed_rule is None


@pytest.mark.parametrize("text", ["0", "-1", "x", "auto", "auto:1..5", "auto:5..3", "auto:3-15", "auto:3..", "3..15"])
def test_numbers_of_seeds_are_checked(text: str) -> None:
    with refused("range", "--seeds", text, n=1):
        read_seeds(text, None)


def test_points_are_checked_and_belong_to_a_range() -> None:
    for text in ("0", "-1", "nan", "inf", "one"):
        with refused("range", "--until", text, n=1):
            read_seeds("auto:3..15", text)
    with refused("conflict", "--until", "0.5", n=1):
        read_seeds("5", "0.5")
    with refused("range", "--seeds", "auto:9..3") as refusal:
        read_seeds("auto:9..3", "x")
    assert refusal.places == ["--seeds", "--until"]
