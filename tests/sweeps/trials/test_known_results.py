"""Results of finished trials are kept in a file, and never outlive a change of the trial's files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mucon.config import TrainConfig
from sweeps.service.plan.plan import Plan, make_plan, read_plan
from sweeps.service.report.current import shown
from sweeps.service.report.report import write_report
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.best import commands_of
from sweeps.service.tables.standing import Standing
from sweeps.service.triage.status import sweep_status
from sweeps.service.trials import cell_results, journal, known_results
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_sweeps import EVALUATION, make_sweep
from tests.helpers.trial_folders import append_epoch, append_status

EXPERIMENT = Experiment(
    name="planted",
    title="Planted",
    label_titles=("Row",),
    variants=tuple(Variant(labels=(row,), settings={"loss.smoothing": i}) for i, row in enumerate(("box", "bell"))),
)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A finished sweep with a report; its figures are drawn once for all tests."""
    plan = make_sweep(tmp_path_factory.mktemp("planted") / "results", EXPERIMENT, lambda *_: 0.5, n_seeds=2)
    for folder in plan.tracked.folders:
        append_epoch(folder, 1)
        append_status(folder, "finished", 5)
    write_report(Standing.of(plan))
    return plan


@pytest.fixture
def plan(planted: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A copy, whose files count as settled at once."""
    monkeypatch.setattr(known_results, "SETTLED_SECONDS", 0.0)
    shutil.copytree(planted.results.path, tmp_path / "results")
    plan = replace(planted, results=ResultsFolder.at(tmp_path / "results"))
    write_report(Standing.of(plan))
    return plan


def page_facts(plan: Plan) -> object:
    return known_results.file_facts(plan.folder / "planted.html")


def test_an_unchanged_sweep_is_neither_read_nor_written_again(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    before, read, page = plan.read_results(), [], page_facts(plan)
    monkeypatch.setattr(cell_results, "table_values", lambda *found: read.append(found))
    standing = Standing.of(plan)
    files = write_report(standing)
    assert standing.results == before
    assert not read
    assert page_facts(plan) == page
    assert all(path.exists() for path in files.values())
    assert {"planted.csv", "planted.html", "planted.png", "trials.parquet"} <= files.keys()


def test_the_states_of_an_unchanged_sweep_need_no_journal(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "read", lambda path: pytest.fail(f"{path} is read"))
    status = sweep_status(plan.results, "planted")
    monkeypatch.undo()
    (plan.folder / known_results.FILE).unlink()
    assert status == sweep_status(plan.results, "planted")
    assert {(cell.state, cell.epoch, cell.ended) for cell in status.cells} == {("finished", 1, 0.005)}


def same_size(path: Path) -> None:
    """Flips a bit, and sets the time of the last change back."""
    times, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x80
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("damage", [same_size, lambda path: path.write_bytes(b"{\n")])
@pytest.mark.parametrize("name", [f"evaluations/{EVALUATION}/result.json", "training.json", "journal.jsonl"])
def test_a_file_that_changes_is_read_again(plan: Plan, name: str, damage: Callable[[Path], None]) -> None:
    page = page_facts(plan)
    damage(plan.tracked.folders[1].path / name)
    standing = Standing.of(plan)
    assert [result.state for result in standing.results.values()].count(State.DAMAGED) == 1
    write_report(standing)
    assert page_facts(plan) != page


@pytest.mark.parametrize("content", [None, "", "[]", '{"format_version": 0, "results": {}}'])
def test_the_file_may_be_removed_or_damaged(plan: Plan, content: str | None) -> None:
    before = plan.read_results()
    path = plan.folder / known_results.FILE
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert plan.read_results() == before
    write_report(Standing.of(plan))
    assert known_results.read_known(plan.folder) == before


@pytest.mark.parametrize("name", ["planted.csv", "planted.html", "plan.json"])
def test_a_report_that_lacks_a_file_or_has_another_content_is_written_again(plan: Plan, name: str) -> None:
    path = plan.folder / name
    content = path.read_bytes()
    path.unlink()
    write_report(Standing.of(plan))
    assert path.read_bytes() == content
    path.write_bytes(content[:-9])
    write_report(Standing.of(plan))
    assert path.read_bytes() == content


def test_files_that_have_just_changed_are_not_kept(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_results, "SETTLED_SECONDS", 3600.0)
    page = page_facts(plan)
    standing = Standing.of(plan)
    assert not any(result.stamp for result in standing.results.values())
    write_report(standing)
    assert page_facts(plan) != page


def test_the_page_of_a_moved_folder_has_the_commands_of_its_new_place(plan: Plan, tmp_path: Path) -> None:
    plan.results.path.rename(tmp_path / "moved")
    moved = replace(plan, results=ResultsFolder.at(tmp_path / "moved"))
    write_report(Standing.of(moved))
    page = (moved.folder / "planted.html").read_text()
    assert str(moved.results.path) in page
    assert f"{plan.results.path}/" not in page


def test_a_plan_that_is_read_shows_the_same_as_the_one_that_was_written(tiny_store: Path, tmp_path: Path) -> None:
    made, _ = make_plan(
        EXPERIMENT,
        store=tiny_store,
        base=lambda *_: TrainConfig(),
        settings={"decoding.beam": 20},
        seeds=(1, 2),
        splits=("1",),
        results=ResultsFolder.at(tmp_path),
    )
    made.write()
    results = {cell.key: CellResult(State.FINISHED, stamp=cell.identity) for cell in made.cells}
    digests, commands = zip(
        *(
            (shown(Standing(plan=plan, results=results, tables={})), commands_of(plan, plan.parts[0], plan.cells[0]))
            for plan in (made, read_plan(made.results, made.name))
        ),
        strict=True,
    )
    assert digests[0] == digests[1] != ""
    assert commands[0] == commands[1]
    assert commands[0]["evaluate"].endswith("--set decoding.beam=20")
