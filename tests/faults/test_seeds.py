"""A sweep whose results decide its seeds, killed in the middle: the same command ends with the seeds of the rule."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from sweeps.service.plan.plan import read_plan
from sweeps.service.stats.sequential import Decision
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.results_folder import ResultsFolder
from tests.sweeps import small

pytestmark = pytest.mark.service


@pytest.mark.repeated(ci=1, soak=20)
def test_a_killed_sweep_with_a_rule_for_seeds_ends_with_those_that_the_rule_needs(tmp_path: Path) -> None:
    results = tmp_path / "results"
    rows: dict[str, dict[str, object]] = {"default": {}, "slow": {"training.learning_rate": 1e-5}}
    script = small.own_script(tmp_path, "rule", rows)
    line = small.command(script, small.make_store(tmp_path / "store"), results)
    line[line.index("--seeds") + 1] = "auto:3..5"
    line = [*small.untracked(line), "--until", "2"]

    def finished() -> int:
        return len([*results.glob("trials/*/training.json")])

    with small.started([*line, "--max-concurrent", "1"], tmp_path / "log") as process:
        small.wait_until(lambda: finished() >= 3 or process.poll() is not None)
        os.kill(process.pid, signal.SIGKILL)
    again = small.run(line)
    assert again.returncode == 0, again.stderr

    plan = read_plan(ResultsFolder.at(results), "rule")
    standing = Standing.of(plan)
    seeds = {row: sorted(cell.seed for cell in plan.cells if cell.variant.name == row) for row in rows}
    assert seeds["slow"] == seeds["default"] == [*range(1, len(seeds["slow"]) + 1)]
    assert 3 <= len(seeds["slow"]) <= 5
    assert standing.is_complete
    assert finished() == len(plan.cells)  # no seed was trained that no row needs
    assert all(steps == [1, 2, 3] for steps in map(sorted, map(set, small.epochs(results).values())))
    found = {row.name: row.decision for row in standing.tables["rule"].rows if row.kind == "row"}
    assert found["slow"] is Decision.WORSE or len(seeds["slow"]) == 5
    record = json.loads((plan.folder / "sweep.json").read_text())
    assert record["config"]["seeds"] == "auto:3..5 until 2"
    assert set(record["rows"]) == {cell.identity for cell in plan.cells}
