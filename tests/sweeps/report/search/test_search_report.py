"""The report of a sweep that is a search: which files it has, when it is made again, and what MLflow shows of it."""

from __future__ import annotations

import html
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mucon.errors import EXIT_OK
from sweeps.service.driver import Options
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import SweepInfo, read_sweep
from sweeps.service.report.current import read_current, shown
from sweeps.service.report.report import outcome_with_search, present, write_report
from sweeps.service.report.search.gathering import findings_of
from sweeps.service.run.resources import place_trials
from sweeps.service.search.points import FILE, read_history, write_history
from sweeps.service.search.sweep.last_step import final_plan, fresh_scores
from sweeps.service.searching import run_search
from sweeps.service.tables.standing import Standing
from sweeps.service.track.tracked import is_tracked
from sweeps.service.trials import known_results
from tests.helpers.planted_searches import Planted, ground_of, plant, rate_score, search_of
from tests.helpers.refusals import refused
from tests.helpers.tracked import artifacts_of, parent_of
from tests.sweeps import small

KINDS = ("history", "parallel", "importance", "slices")
FIGURES = {f"planted_{kind}.{suffix}" for kind in KINDS for suffix in ("svg", "png", "csv")}
TEXTS = {"planted_search.html", "planted_search.md"}


@pytest.fixture
def planted(tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """A search that is over, without its last step."""
    monkeypatch.setattr(known_results, "SETTLED_SECONDS", 0.0)
    planted = Planted.open(
        search_of(trials=9, best=2, fresh_seeds=2, sampler="random"), ground_of(tiny_store, tmp_path)
    )
    planted.train()
    return planted


def train_last_step(planted: Planted) -> Plan:
    """Trains the best points with fresh seeds, which lose a tenth."""
    plan, trials = final_plan(planted.points.search, planted.points.ground, planted.queue.history())
    for cell in plan.cells:
        plant(plan.results, cell, rate_score(trials[cell.key]) - 0.1)
    plan.write()
    return plan


def printed(plan: Plan) -> str:
    console = Console(file=io.StringIO(), width=200)
    present(Standing.of(plan), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_report_of_a_search_has_its_figures_and_is_made_again_when_the_last_step_is_there(planted: Planted) -> None:
    plan = planted.points.plan
    files = write_report(Standing.of(plan))
    assert set(files) >= FIGURES | TEXTS
    assert "href='planted_search.html'" in files["planted.html"].read_text()
    assert read_current(plan.folder, shown(Standing.of(plan))) == files
    assert findings_of(plan).optimism is None
    last = train_last_step(planted)
    history = replace(read_history(plan.folder), fresh=fresh_scores(last, last.read_results()))
    write_history(plan.folder, history)
    assert read_current(plan.folder, shown(Standing.of(plan))) is None
    after = findings_of(plan)
    assert after.optimism is not None
    best = str(read_history(plan.folder).best[0])
    (row,) = (row for row in after.optimism.rows if row.labels[0] == best)
    optimism = row.summaries[2]
    assert optimism is not None
    assert optimism.mean == pytest.approx(0.1, abs=0.003)
    assert outcome_with_search(Standing.of(plan), after).metrics["search/optimism/full/mof"] == optimism.mean
    write_report(Standing.of(plan))
    page = files["planted_search.html"].read_text()
    assert all(html.escape(note) in page for note in after.optimism.notes.statistics)


def test_the_terminal_has_the_search_and_its_page(planted: Planted) -> None:
    plan = planted.points.plan
    write_report(Standing.of(plan))
    text = printed(plan)
    assert str(plan.folder / "planted_search.html") in text
    assert f"optuna-dashboard {plan.folder / 'study.journal'}" in text
    best = read_history(plan.folder).best[0]
    assert f"best:     point {best}, MoF" in text


def test_report_makes_the_page_of_a_search_without_optuna_and_matplotlib(planted: Planted) -> None:
    plan = planted.points.plan
    plan.write()
    write_report(Standing.of(plan))
    page = plan.folder / "planted_search.html"
    before = page.read_bytes()
    page.unlink()
    small.report_without(plan.results.path, "planted", "ray", "mlflow", "matplotlib", "optuna")
    assert page.read_bytes() == before


def test_a_damaged_record_of_a_search_is_named_and_nothing_is_written(planted: Planted) -> None:
    plan = planted.points.plan
    write_report(Standing.of(plan))
    value = json.loads((plan.folder / FILE).read_text())
    (plan.folder / FILE).write_text(json.dumps({**value, "points": [{}]}))
    before = (plan.folder / "planted_search.html").read_bytes()
    with refused("damaged", FILE):
        write_report(Standing.of(plan))
    assert (plan.folder / "planted_search.html").read_bytes() == before


@pytest.mark.service
def test_the_run_of_a_search_has_figures_numbers_page_and_optimism_also_after_a_kill(
    planted: Planted, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, console = planted.points.plan, Console(file=io.StringIO())
    train_last_step(planted)
    info = SweepInfo(name="planted", title="Search", command="python sweeps/search.py", config={})
    options = Options(device="cpu", cpus="1", gpus="0", checkpoint_seconds=0, tracking_uri=mlflow_uri, info=info)

    def killed(*_: object) -> bool:
        raise KeyboardInterrupt

    def search() -> int:
        return run_search(planted.points, options, place_trials("cpu", "1", "0"), (), console)

    with monkeypatch.context() as patch:
        patch.setattr("sweeps.service.searching.present_search", killed)  # the report is written, but not shipped
        with pytest.raises(KeyboardInterrupt):
            search()
    assert not is_tracked(plan.tracked, mlflow_uri)
    assert search() == EXIT_OK
    assert is_tracked(plan.tracked, mlflow_uri)
    run = parent_of(mlflow_uri, "planted")
    names = {path.removeprefix("tables/") for path in artifacts_of(mlflow_uri, run.info.run_id, "tables")}
    optimism = {f"planted_optimism.{suffix}" for suffix in ("md", "csv", "tex")}
    assert names >= FIGURES | TEXTS | optimism | {"planted.html"}
    record = read_sweep(plan.folder)
    assert record is not None
    assert names == set(record.tables)
    best = read_history(plan.folder).record(read_history(plan.folder).best[0])
    assert run.data.metrics["search/best/full/mof"] == best.mean[0]
    assert run.data.metrics["search/points"] == 9
    assert run.data.metrics["search/optimism/full/mof"] == pytest.approx(0.1, abs=0.003)
    assert f"| {best.point.number} |" in run.data.tags["mlflow.note.content"]
