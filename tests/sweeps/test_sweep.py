"""A whole small sweep through a real Ray and a real MLflow store, and the same command again."""

import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from sweeps.service.run.worker import run_trial
from sweeps.service.trials.results_folder import ResultsFolder
from tests.sweeps import small
from tests.sweeps.conftest import Finished

pytestmark = pytest.mark.service


def table_of(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith(("│", "split 1"))]


def imported(ran: "subprocess.CompletedProcess[str]") -> set[str]:
    """The packages that a process has imported with PYTHONPROFILEIMPORTTIME."""
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.stderr.splitlines()}


def test_a_sweep_trains_every_cell_once_and_ends_with_its_table(finished_sweep: Finished) -> None:
    ran, results = finished_sweep.ran, finished_sweep.results
    assert (ran.returncode, ran.stderr) == (0, "")
    assert set(map(tuple, small.statuses(results).values())) == {("running", "finished")}
    assert list(small.epochs(results).values()) == [[1, 2, 3]] * 6
    table = table_of(ran.stdout)
    assert [re.split(r"\s*│\s*", line)[1] for line in table[:-1]] == [
        *["box", "bell", "trapezoid"] * 2,
        "transcript prior, equal lengths",
        "ceiling of frames, pooling x4",
    ]
    assert {"'rest'", "49.7"} <= set(table[-1].split())
    markdown = (results / "sweeps" / "ablation_masks" / "ablation_masks.md").read_text()
    assert markdown.count("\n| box |") == 2
    written = {path.name for path in (results / "sweeps" / "ablation_masks").iterdir()}
    assert written >= {f"ablation_masks.{kind}" for kind in ("md", "csv", "tex", "png", "svg", "html")}
    assert "trials.parquet" in written
    assert not (results / "running" / "ablation_masks" / "tune").exists()


def test_the_tracking_store_has_one_run_for_the_sweep_and_one_for_each_trial(
    finished_sweep: Finished, tiny_store: Path
) -> None:
    identities = set(small.journals(finished_sweep.results))
    with sqlite3.connect(tiny_store.parent / "mlflow.db") as database:
        query = "select tags.value, status from runs join tags using (run_uuid) where key = ?"
        trials = [row for row in database.execute(query, ("trial",)) if row[0] in identities]
        parents = list(database.execute(query, ("sweep",)))
    assert sorted(trials) == sorted((identity, "FINISHED") for identity in identities)
    assert ("ablation_masks", "FINISHED") in parents


def test_the_same_command_again_prints_the_table_and_imports_neither_torch_nor_the_services(
    finished_sweep: Finished,
) -> None:
    before = small.journals(finished_sweep.results)
    again = small.run(finished_sweep.command, PYTHONPROFILEIMPORTTIME="1")
    assert again.returncode == 0
    assert table_of(again.stdout) == table_of(finished_sweep.ran.stdout)
    assert small.journals(finished_sweep.results) == before
    assert {"mucon", "sweeps", "storage"} <= imported(again)
    assert not {"torch", "ray", "mlflow", "optuna"} & imported(again)


def test_finished_rows_under_another_name_reach_the_tracking_store_without_ray(
    finished_sweep: Finished, tiny_store: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(finished_sweep.results, results)
    line = small.command(small.MASKS, tiny_store, results)
    ran = small.run([*line, "--name", "two", "--rows", "bell, no", "box, no"], PYTHONPROFILEIMPORTTIME="1")
    assert ran.returncode == 0
    assert "2 trials, 0 to run" in ran.stdout
    assert [row.split("│")[1].strip() for row in table_of(ran.stdout)[:2]] == ["box", "bell"]
    assert "mlflow" in imported(ran)
    assert not {"torch", "ray"} & imported(ran)
    with sqlite3.connect(tiny_store.parent / "mlflow.db") as database:
        query = "select tags.value, status from runs join tags using (run_uuid) where key = ?"
        assert list(database.execute(query, ("sweep",))).count(("two", "FINISHED")) == 1
        assert sorted(value for value, _ in database.execute(query, ("sweep.two",))) == ["bell, no", "box, no"]
    again = small.run([*line, "--name", "two", "--rows", "bell, no", "box, no"])
    assert "to run" not in again.stdout


def test_a_report_makes_the_table_again_without_store_or_training(finished_sweep: Finished, tmp_path: Path) -> None:
    results = tmp_path / "moved"
    shutil.copytree(finished_sweep.results, results)
    written = results / "sweeps" / "ablation_masks" / "ablation_masks.csv"
    before = written.read_text()
    written.unlink()
    line = [finished_sweep.command[0], "-m", "sweeps", "report", "ablation_masks", "--results", str(results)]
    report = small.run(line)
    assert (report.returncode, report.stderr) == (0, "")
    assert table_of(report.stdout) == table_of(finished_sweep.ran.stdout)
    assert written.read_text() == before


def test_a_trial_has_the_same_bits_alone_and_in_a_reused_actor(
    finished_sweep: Finished, tiny_store: Path, tmp_path: Path
) -> None:
    started_by = {records[1]["pid"] for records in small.journals(finished_sweep.results).values()}
    assert len(started_by) <= 2, "six trials shared at most two worker processes"
    in_sweep = small.weights(finished_sweep.results)
    for settings in ({}, {"mask__shape": "trapezoid", "mask__overlap": 0.1}):
        trial = small.make_trial(tiny_store, **settings)
        run_trial(trial, ResultsFolder(tmp_path), device="cpu")
        assert small.weights(tmp_path)[trial.identity] == in_sweep[trial.identity]
    assert len(set(in_sweep.values())) == 6


def test_a_failed_trial_has_its_reason_under_the_table_and_is_the_only_one_to_run_again(
    finished_sweep: Finished, tiny_store: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(finished_sweep.results, results)
    identity = small.make_trial(tiny_store, mask__shape="bell").identity
    broken = results / "trials" / identity
    shutil.rmtree(broken)
    broken.mkdir()
    (broken / "run").write_text("a file where training needs a folder")
    others = {name: records for name, records in small.journals(results).items() if name != identity}
    line = small.command(small.MASKS, tiny_store, results)

    failed = small.run(small.untracked(line))
    assert failed.returncode == 3
    assert "1 to run" in failed.stdout
    (note,) = (line for line in failed.stdout.splitlines() if line.startswith("bell, no, split 1, seed 1"))
    assert "failed" in note
    assert "FileExistsError: [Errno 17]" in note
    assert str(broken / "run") in note
    assert "FileExistsError" in (broken / "traceback.txt").read_text()
    assert re.search(r"│ bell\s+│ no\s+│\s+–", failed.stdout)
    assert small.statuses(results)[identity] == ["running", "failed"]

    (broken / "run").unlink()
    mended = small.run(line, PYTHONPROFILEIMPORTTIME="1")
    assert mended.returncode == 0
    assert not {"torch", "ray"} & imported(mended), "the driver leaves them to other processes"
    assert small.statuses(results)[identity] == ["running", "failed", "running", "finished"]
    assert {name: records for name, records in small.journals(results).items() if name != identity} == others
    assert table_of(mended.stdout) == table_of(finished_sweep.ran.stdout)


def test_a_shipping_thread_that_dies_is_reported_and_the_same_command_ships_what_is_missing(
    finished_sweep: Finished, tiny_store: Path, tmp_path: Path, mlflow_uri: str
) -> None:
    results = tmp_path / "results"
    shutil.copytree(finished_sweep.results, results)
    line = [*small.command(small.MASKS, tiny_store, results), "--name", "two", "--rows", "bell, no", "box, no"]
    line += ["--tracking-uri", mlflow_uri]
    died = small.run(line, MUCON_FAILPOINT="sweeps.tracking.batch:1:raise")
    assert died.returncode == 3
    assert "\nMLflow: " not in died.stdout
    assert "FailpointError" in died.stdout
    again = small.run(line)
    assert (again.returncode, "\nMLflow: " in again.stdout) == (0, True)
    with sqlite3.connect(tmp_path / "mlflow.db") as opened:
        query = "select status from runs join tags using (run_uuid) where key = 'trial'"
        assert list(opened.execute(query)) == [("FINISHED",)] * 2
