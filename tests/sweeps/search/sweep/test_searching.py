"""The order of a search and its last step, with trainings that are known already, so that no Ray starts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeps.service import driver
from sweeps.service.cli import main
from sweeps.service.report.report import write_report
from sweeps.service.run.budget.limits import Budget, Limit
from sweeps.service.search.points import read_history
from sweeps.service.search.sweep.last_step import final_plan
from sweeps.service.searching import _rest
from sweeps.service.trials import known_results, lease
from sweeps.service.trials.results_folder import STOP_FILE, ResultsFolder
from tests.helpers.planted_searches import Planted, ground_of, plant, rate_score, search_of
from tests.sweeps.small import TINY

SPACE = {
    "training.learning_rate": {"loguniform": [0.001, 0.1]},
    "mask.shape": ["box", "bell"],
    "mask.overlap": {"choice": [0.0, 0.1], "when": {"mask.shape": ["bell"]}},
}


@pytest.fixture
def planted(tiny_store: Path, tmp_path: Path) -> Planted:
    """A search whose trainings, and those of its last step, are finished."""
    search = search_of(best=2, fresh_seeds=3)
    planted = Planted.open(search, ground_of(tiny_store, tmp_path / "results"))
    planted.train()
    plan, trials = final_plan(planted.points.search, planted.points.ground, planted.queue.history())
    for cell in plan.cells:
        plant(plan.results, cell, rate_score(trials[cell.key]) - 0.01)
    return planted


def words(planted: Planted, folder: Path) -> list[str]:
    """The command line of the same search from a file."""
    file = folder / "planted.yaml"
    search = {"space": SPACE, "trials": 5, "best": 2, "fresh_seeds": 3}
    file.write_text(
        yaml.safe_dump({"title": "Planted", "seeds": 2, "set": dict(TINY), "search": search}, sort_keys=False)
    )
    ground = planted.points.ground
    line = ["run", str(file), "--store", str(ground.store), "--results", str(ground.results.path), "--device", "cpu"]
    return [*line, "--tracking", "off", "--max-concurrent", "1"]


def test_a_search_whose_trainings_are_known_ends_with_its_optimism_and_changes_nothing_when_repeated(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = words(planted, tmp_path)
    assert main(None, line) == 0
    folder = planted.points.folder
    history = read_history(folder)
    assert history.records == planted.queue.history().records
    assert {*history.fresh} == {0, *history.best[:2]}
    assert all({*scores} == {3, 4, 5} for scores in history.fresh.values())
    assert "planted_final" in capsys.readouterr().out
    names = ("search.json", "study.journal", "planted_optimism.csv", "planted.csv")
    before = {name: ((folder / name).read_bytes(), (folder / name).stat().st_mtime_ns) for name in names}
    assert main(None, line) == 0
    assert [name for name in names if (folder / name).read_bytes() != before[name][0]] == []
    assert [name for name in names[:2] if (folder / name).stat().st_mtime_ns != before[name][1]] == []


def test_a_search_that_another_process_runs_and_one_with_another_space_are_refused(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = words(planted, tmp_path)
    with lease.acquire(ResultsFolder.at(tmp_path / "results").running("planted")) or pytest.fail("free"):
        assert main(None, line) == 2
    assert "planted" in capsys.readouterr().err
    assert main(None, [*line, "--set", "loss.smoothing=0.3"]) == 2
    assert "study.journal" in capsys.readouterr().err


def test_a_damaged_plan_of_the_last_step_is_made_again_by_the_same_command(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_results, "SETTLED_SECONDS", 0.0)
    line = words(planted, tmp_path)
    assert main(None, line) == 0
    table = planted.points.folder / "planted_optimism.csv"
    before = table.read_bytes()
    plan = planted.points.ground.results.sweep("planted_final") / "plan.json"
    plan.write_text("{")
    table.unlink()  # so that the report is not current
    assert main(arguments=["report", "planted", "--results", str(tmp_path / "results")]) == 3
    assert str(plan) in capsys.readouterr().out
    assert main(None, line) == 0
    assert json.loads(plan.read_text())["name"] == "planted_final"
    assert table.read_bytes() == before


def test_status_has_points_best_and_last_step_of_a_search(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    line = ["status", "planted", "--results", str(results)]

    def search() -> dict[str, Any]:
        capsys.readouterr()
        main(arguments=[*line, "--json"])
        (sweep,) = json.loads(capsys.readouterr().out)["sweeps"]
        return {**sweep["search"], "state": sweep["state"]}

    planted.points.plan.write()
    before = search()
    assert (before["trials"], before["points"], before["fresh"]) == (5, {"complete": 5}, 0)
    assert (before["complete"], before["state"]) == (False, "incomplete"), "the last step is still to come"
    assert main(arguments=line) == 3
    with lease.acquire(ResultsFolder.at(results).running("planted_final")) or pytest.fail("free"):
        assert search()["state"] == "running"
    best = planted.queue.history().record(planted.queue.history().best[0])
    assert before["best"]["mean"] == list(best.mean)
    assert (before["best"]["point"], before["best"]["seeds"]) == (best.point.number, best.n)
    assert main(None, words(planted, tmp_path)) == 0
    capsys.readouterr()
    assert main(arguments=line) == 0
    assert f"best: point {best.point.number}, MoF" in capsys.readouterr().out
    after = search()
    assert (after["complete"], after["fresh"], after["state"]) == (True, 3, "finished")
    (planted.points.folder / "search.json").write_text("{")
    assert main(arguments=line) == 3
    assert "search.json" in search()["damage"]


def test_the_study_may_be_in_a_database_whose_password_is_nowhere_in_the_folder(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (planted.points.folder / "study.journal").unlink()  # that of the fixture
    line, folder = words(planted, tmp_path), planted.points.folder
    url = f"sqlite:///{tmp_path}/studies.db?password=s3cret-word"
    assert main(None, [*line, "--study-storage", url]) == 0
    printed = capsys.readouterr().out
    assert f"optuna-dashboard 'sqlite:///{tmp_path}/studies.db?password=***'" in printed
    assert not (folder / "study.journal").exists()
    assert read_history(folder).records == planted.queue.history().records
    assert main(None, line) == 2, "it would be another study"
    assert "--study-storage" in capsys.readouterr().err
    monkeypatch.setenv("MUCON_STUDY_STORAGE", url)
    assert main(None, line) == 0
    texts = [path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert not [text for text in texts if b"s3cret" in text]
    assert "s3cret" not in capsys.readouterr().out


def test_a_stop_between_the_search_and_its_last_step_is_obeyed_and_the_last_step_is_stopped_by_both_names(
    planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = ResultsFolder.at(tmp_path / "results")
    stop, words_of_stop = results.running("planted") / STOP_FILE, ["stop", "planted", "--results", str(results.path)]

    def report(*arguments: Any, **options: Any) -> Any:
        assert main(arguments=words_of_stop) == 0
        return write_report(*arguments, **options)

    monkeypatch.setattr(driver, "write_report", report)
    assert main(None, words(planted, tmp_path)) == 130
    assert stop.exists()
    assert not results.sweep("planted_final").exists()
    monkeypatch.undo()
    with lease.acquire(results.running("planted_final")) or pytest.fail("free"):
        assert main(arguments=words_of_stop) == 0
    assert (results.running("planted_final") / STOP_FILE).exists()
    assert main(None, words(planted, tmp_path)) == 0


def test_the_last_step_has_what_the_search_left_of_the_budget(planted: Planted) -> None:
    trials, hours = Limit(100, "--max-trials", "--max-trials"), Limit(7200.0, "--cpu-hours", "--cpu-hours")
    n = len(planted.trained)
    assert _rest(Budget(trials=trials, cpu_hours=hours), planted.points) == Budget(
        trials=replace(trials, value=100 - n), cpu_hours=hours
    )
