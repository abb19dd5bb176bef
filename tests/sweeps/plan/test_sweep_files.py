"""The files of a sweep's own folder: what is written is read back, and damaged files are refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.ablation_masks import EXPERIMENT as MASKS
from sweeps.qualitative import EXPERIMENT as BARS
from sweeps.service.plan.plan import Plan, make_plan, read_plan
from sweeps.service.plan.sweep_folder import (
    Links,
    SweepInfo,
    read_links,
    read_sweep,
    read_sweeps,
    write_links,
    write_sweep,
)
from sweeps.service.spec.experiment import Collection, Experiment
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.refusals import ANY, refused

INFO = SweepInfo(name="masks", title="Masks", command="python masks.py", config={"seeds": 1})


def plan_of(experiment: Experiment | Collection, store: Path, results: ResultsFolder) -> Plan:
    plan, _ = make_plan(
        experiment,
        store=store,
        base=lambda table, _: table.base(),
        settings={"backbone.pool_after": "1,2"},
        seeds=[1, 2],
        splits=["1"],
        results=results,
    )
    return plan


@pytest.fixture
def results(tmp_path: Path) -> ResultsFolder:
    return ResultsFolder(tmp_path)


@pytest.mark.parametrize("experiment", [MASKS, BARS])
def test_a_plan_is_read_back_as_it_was_written(
    experiment: Experiment | Collection, tiny_store: Path, results: ResultsFolder
) -> None:
    plan = plan_of(experiment, tiny_store, results)
    plan.write()
    again = read_plan(results, experiment.name)
    assert (again.cells, again.splits, again.store) == (plan.cells, plan.splits, plan.store)
    for part, written in zip(again.parts, plan.parts, strict=True):
        assert (part.cells, part.pooling) == (written.cells, 4)
        shape = written.experiment
        assert part.experiment == replace(
            shape,
            base=part.experiment.base,
            demo_base=part.experiment.demo_base,
            seeds=part.experiment.seeds,
            demo_seeds=part.experiment.demo_seeds,
            splits=part.experiment.splits,
        )


def test_a_trial_that_several_tables_contain_is_one_cell_of_the_sweep(tiny_store: Path, results: ResultsFolder) -> None:
    plan = plan_of(BARS, tiny_store, results)
    assert len(plan.rows) == 4 * 2, "three kinds of supervision with 110 epochs, and one training for all predictions"
    assert len(plan.cells) == len(plan.tracked.folders) == len(plan.read_results()) == 8


def test_a_missing_damaged_or_other_plan_is_refused_by_name(tiny_store: Path, results: ResultsFolder) -> None:
    plan = plan_of(MASKS, tiny_store, results)
    plan.write()
    with refused("unknown", place=str(results.path), value="ablation_mask", n=1) as refusal:
        read_plan(results, "ablation_mask")
    assert "'ablation_masks'" in refusal.problems[0].message
    file = plan.folder / "plan.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "format_version": 1}))
    with refused("version", place=str(file), value=1, n=1):
        read_plan(results, plan.name)
    file.write_text("{")
    with refused("damaged", place=str(file), value=ANY, n=1):
        read_plan(results, plan.name)


def test_a_sweeps_record_keeps_its_first_time_and_earlier_rows(results: ResultsFolder) -> None:
    folder = results.sweep("masks")
    assert read_sweep(folder) is None
    write_sweep(results, INFO, "mucon", {"a": "box"})
    first = read_sweep(folder)
    assert first is not None
    assert (first.sweep, first.experiment_name, first.rows, first.tables) == (INFO, "mucon", {"a": "box"}, {})
    file = folder / "sweep.json"
    file.write_text(file.read_text().replace(str(first.created), "2020-01-01T00:00:00Z"))
    (folder / "masks.csv").touch()
    write_sweep(results, replace(INFO, labels={"box": {"Shape": "box"}}), "mucon", {})
    write_sweep(results, replace(INFO, title="New", labels={"bell": {"Shape": "bell"}}), "mucon", {"b": "bell"})
    (again,), _ = read_sweeps(results)
    assert (again.created, again.sweep.title) == ("2020-01-01T00:00:00Z", "New")
    assert again.rows == {"a": "box", "b": "bell"}
    assert again.sweep.labels == {"box": {"Shape": "box"}, "bell": {"Shape": "bell"}}
    assert again.tables == {"masks.csv": folder / "masks.csv"}


def test_sweeps_are_read_oldest_first(results: ResultsFolder) -> None:
    for name, year in (("a", 2022), ("b", 2021)):
        write_sweep(results, replace(INFO, name=name), "mucon", {})
        file = results.sweep(name) / "sweep.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "created": f"{year}-01-01T00:00:00Z"}))
    assert [record.sweep.name for record in read_sweeps(results)[0]] == ["b", "a"]


def test_a_damaged_record_or_one_of_another_version_is_refused_by_name(results: ResultsFolder) -> None:
    write_sweep(results, INFO, "mucon", {})
    folder = results.sweep("masks")
    file = folder / "sweep.json"
    file.write_text('{"format_version": 7}')
    with refused("version", place=str(file), value=7, n=1):
        read_sweep(folder)
    records, unreadable = read_sweeps(results)
    assert records == []
    assert str(file) in unreadable["masks"]
    file.write_text("")
    with refused("damaged", place=str(file), n=1):
        read_sweep(folder)


def test_links_are_read_back_and_may_be_absent(results: ResultsFolder) -> None:
    folder = results.sweep("masks")
    folder.mkdir(parents=True)
    assert read_links(folder) == Links()
    for links in (Links(sweep="http://s", trials={"a": "http://a"}), Links(trials={"a": "http://a"})):
        write_links(folder, links)
        assert read_links(folder) == links
    for content in ("[", "[]", '{"a": 1}'):
        (folder / "runs.json").write_text(content)
        assert read_links(folder) == Links()


@pytest.mark.parametrize(
    "line", ["rm -r ~", "mlflow server; rm -r ~", "mlflow server --port $(id)", "mlflow server 'a"]
)
def test_links_that_are_no_pages_and_commands_of_others_are_not_shown(results: ResultsFolder, line: str) -> None:
    folder = results.sweep("masks")
    folder.mkdir(parents=True)
    write_links(folder, Links(sweep="javascript:alert(1)", runs="http://h", serve=line, trials={"a": "file:///etc"}))
    assert read_links(folder) == Links(runs="http://h")


def test_a_table_that_is_a_link_to_another_folder_is_not_sent(results: ResultsFolder, tmp_path: Path) -> None:
    write_sweep(results, INFO, "mucon", {})
    (tmp_path / "private.csv").write_text("secret")
    folder = results.sweep("masks")
    (folder / "linked.csv").symlink_to(tmp_path / "private.csv")
    (folder / "own.csv").touch()
    (folder / "again.csv").symlink_to("own.csv")
    record = read_sweep(folder)
    assert record is not None
    assert sorted(record.tables) == ["again.csv", "own.csv"]
