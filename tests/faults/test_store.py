"""A store that is replaced or loses a file while a sweep runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweeps import small

pytestmark = pytest.mark.service


@pytest.mark.repeated(ci=1, soak=20)
def test_a_store_that_loses_a_file_under_a_sweep_fails_the_trials_that_need_it_and_not_the_finished_one(
    tmp_path: Path,
) -> None:
    store, results, log = small.make_store(tmp_path / "store"), tmp_path / "results", tmp_path / "log"
    rows = {"first": {"training.epochs": 1}, "second": {"training.epochs": 30}, "third": {"training.epochs": 2}}
    line = small.untracked(small.command(small.own_script(tmp_path, "losing", rows), store, results))
    line += ["--max-concurrent", "1"]
    at = line.index("training.epochs=3")
    del line[at - 1 : at + 1]
    (lost,) = store.glob("features-*")
    with small.started(line, log) as driver:
        small.wait_until(lambda: len(small.epochs(results)) == 2)  # the second has started
        lost.rename(tmp_path / lost.name)
        assert driver.wait(120) == 3
    assert [said[-1] for said in small.statuses(results).values()].count("failed") == 2
    assert len(list(results.glob("trials/*/evaluations/*/result.json"))) == 1
    notes = [line for line in log.read_text().splitlines() if "not averaged" in line]
    (note,) = notes
    assert note.startswith("2 cells")
    assert all(row in note for row in ("second, ", "third, ", str(lost)))
