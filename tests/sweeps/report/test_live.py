"""The page of a running sweep: what it shows, how often it is written, and that it stays at the end."""

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sweeps.service.plan.running import RunningPlan
from sweeps.service.report.live import COST, EVERY_SECONDS, RELOAD_SECONDS, SOONEST_SECONDS, LivePage
from sweeps.service.report.report import write_report
from sweeps.service.report.watching import page_maker
from sweeps.service.run.budget.budgeting import Budgeting
from sweeps.service.run.budget.limits import Budget
from sweeps.service.run.progress import Progress
from sweeps.service.run.resources import Placement, Resources
from sweeps.service.run.worker import Outcome
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.folder import State
from sweeps.service.trials.reading import ACCURACY, LOSS
from tests.helpers.planted_pages import EXPERIMENT, FAILED, HOSTILE, MOF
from tests.helpers.planted_sweeps import Unfinished, make_sweep

REFRESH = f"<meta http-equiv='refresh' content='{RELOAD_SECONDS}'>"
DONE = Outcome(State.FINISHED)


class Making:
    """Makes pages that take a while on a clock of their own."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.calls: list[tuple[float, list[str], int | None]] = []
        self.page = LivePage(folder, self.make, lambda: self.now)

    def make(self, ended: Sequence[str], reload_seconds: int | None) -> str:
        self.calls.append((self.now, list(ended), reload_seconds))
        self.now += self.seconds
        return f"page {len(self.calls)}"

    def run(self, until: float) -> None:
        while self.now < until:
            self.page.check()
            self.now += 1.0


def test_the_page_is_written_at_once_when_a_trial_ends_and_now_and_then(tmp_path: Path) -> None:
    made = Making(tmp_path, 0.0)
    made.run(10.0)
    assert made.calls == [(0.0, [], RELOAD_SECONDS)]
    made.page.ended("a", DONE)
    made.page.ended("b", DONE)
    made.run(11.0)
    assert made.calls[1:] == [(10.0, ["a", "b"], RELOAD_SECONDS)]
    made.page.ended("c", DONE)
    made.run(11.0 + EVERY_SECONDS + SOONEST_SECONDS)
    assert [ended for _, ended, _ in made.calls[2:]] == [["c"], []]
    made.page.close()
    assert made.calls[-1][1:] == ([], None)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == f"page {len(made.calls)}"


@pytest.mark.parametrize("seconds", [0.5, 10.0])
def test_a_page_that_takes_long_is_written_seldom(tmp_path: Path, seconds: float) -> None:
    made = Making(tmp_path, seconds)
    for _ in range(1000):
        made.page.ended("a", DONE)
        made.run(made.now + 1.0)
    assert len(made.calls) * seconds <= COST * made.now + seconds


def test_the_page_shows_running_failed_and_finished_trials_and_reloads_until_the_end(tmp_path: Path) -> None:
    unfinished: dict[Any, Any] = {
        ("hundred", "1", 2): Unfinished("failed", FAILED),
        ("ten", "1", 2): Unfinished("stopped"),
    }
    plan = make_sweep(tmp_path, EXPERIMENT, lambda row, *_: MOF[row], n_seeds=2, unfinished=unfinished)
    cells = {(cell.variant.name, cell.seed): cell for cell in plan.cells}
    running, ended = cells["ten", 2], cells["nine", 2]
    folder = plan.results.trial(ended.identity)
    path = folder.result_path(ended.evaluation)
    path.rename(path.with_suffix(".later"))
    results = plan.read_results()
    budgeting = Budgeting(
        Budget(),
        (),
        started=0.0,
        sweep=plan.folder,
        trials={},
        results={},
        folder=plan.results,
        placement=Placement(device="cpu", each=Resources(cpus=1, gpus=0), slots=1),
    )

    progress = Progress(Console(file=io.StringIO()), {cell.key: cell for cell in plan.cells})
    progress.epoch(running.key, {"epoch": 3, "epochs": 30, LOSS: 1.25, ACCURACY: 0.5, "seconds": 60.0})
    make = page_maker(RunningPlan(plan, {}, results), progress, budgeting)
    page = make([], RELOAD_SECONDS)
    assert REFRESH in page
    for text in ("3/30", "1.2500", "50.0 %", "9:00", escape(HOSTILE), escape(FAILED), "5 of 8 finished"):
        assert text in page
    assert all(text not in page for text in (HOSTILE, FAILED, "<svg"))
    path.with_suffix(".later").rename(path)
    assert "5 of 8 finished" in make([], RELOAD_SECONDS), "only trials that have ended are read"
    last = make([ended.key], None)
    assert "6 of 8 finished" in last
    assert "http-equiv" not in last


def test_the_report_replaces_the_page_of_the_running_sweep(tmp_path: Path) -> None:
    plan = make_sweep(tmp_path, EXPERIMENT, lambda row, *_: MOF[row], n_seeds=1)
    (plan.folder / "index.html").write_text(REFRESH)
    paths = write_report(Standing.of(plan))
    assert "index.html" not in paths
    assert (plan.folder / "index.html").read_text() == paths["planted_page.html"].read_text()
