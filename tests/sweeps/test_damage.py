"""Damaged files of a results folder: the trial is named and set aside, the others go on, and a run heals it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.service.cli import main
from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.plan.sweep_folder import SweepInfo, read_sweep, read_sweeps, write_sweep
from sweeps.service.report.figures.pictures import DIGESTS
from sweeps.service.run.worker import run_trial
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.standing import Standing
from sweeps.service.track.content.records import read_record
from sweeps.service.trials import lease
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.helpers.planted_sweeps import EVALUATION, make_sweep
from tests.helpers.refusals import refused
from tests.helpers.trial_folders import append_epoch, append_status
from tests.sweeps import small

EXPERIMENT = Experiment(
    name="planted",
    title="Planted",
    label_titles=("Row",),
    variants=tuple(Variant(labels=(row,), settings={"loss.smoothing": i}) for i, row in enumerate(("box", "bell"))),
)


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(64))


def not_utf8(path: Path) -> None:
    path.write_bytes(b'{"format_version": 2, "identity": "\xff\xfe"}')


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def another_weight(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 0x40
    path.write_bytes(content)


def other_shape(path: Path) -> None:
    path.write_text(json.dumps({"format_version": 2}))


def a_list(path: Path) -> None:
    path.write_text("[1, 2]")


def wrong_score(path: Path) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "scores": {"full": {"mof": "high"}}}))


def wrong_scores_of_a_video(path: Path) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "per_video": [{"id": "a", "full": 5}]}))


def line_of_zeros(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], bytes(40) + b"\n", *lines[1:]]))


def half_a_line_inside(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-1], b'{"kind": "epo\n', lines[-1]]))


def line_of_another_shape(path: Path) -> None:
    with path.open("a") as file:
        file.write('{"kind": "epoch"}\n{"kind": "status", "status": 3}\n[]\n')


FILES = (half, empty, zeros, not_utf8, directory, other_shape, a_list)
RESULTS = (*FILES, wrong_score)
LINES = (directory, line_of_zeros, half_a_line_inside, line_of_another_shape)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    plan = make_sweep(tmp_path / "results", EXPERIMENT, lambda *_: 0.5, n_seeds=2)
    for folder in plan.tracked.folders:
        append_epoch(folder, 1)
        append_epoch(folder, 2)
        append_status(folder, "finished", 5)
    return plan


def reported(plan: Plan, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(None, ["report", plan.name, "--results", str(plan.results.path)]) == 3
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((f"evaluations/{EVALUATION}/result.json", damage) for damage in RESULTS),
        *(("training.json", damage) for damage in FILES),
        *(("journal.jsonl", damage) for damage in LINES),
    ],
)
def test_a_damaged_trial_is_a_state_with_file_and_reason_and_the_others_keep_their_values(
    plan: Plan, name: str, damage: Callable[[Path], None]
) -> None:
    first = plan.tracked.folders[0]
    damage(first.path / name)
    standing = Standing.of(plan)
    states = [result.state for result in standing.results.values()]
    assert states == [State.DAMAGED, *[State.FINISHED] * 3]
    (note,) = standing.tables["planted"].notes.missing
    assert str(first.path / name) in note
    assert "damaged" in note


def test_a_report_shows_the_others_names_the_damaged_trial_and_exits_with_3(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    zeros(plan.tracked.folders[1].result_path(EVALUATION))
    line_of_zeros(plan.tracked.folders[0].journal_path)
    (plan.folder / DIGESTS).write_bytes(bytes(9))
    for folder in plan.tracked.folders:
        folder.checkpoint_path.mkdir(parents=True)
        (folder.checkpoint_path / "config.json").write_bytes(bytes(9))
    out = reported(plan, capsys)
    assert str(plan.tracked.folders[1].result_path(EVALUATION)) in out
    assert str(plan.tracked.folders[0].journal_path) in out
    assert "50.0" in out
    assert "damaged" in (plan.folder / "planted.html").read_text()
    with refused("damaged", place=str(plan.tracked.folders[0].journal_path)):
        read_record(TrialReading(plan.tracked.folders[0]))


def test_a_report_that_cannot_be_written_is_refused(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    in_the_way = plan.folder / f".plan.json.{os.getpid()}"
    in_the_way.mkdir()
    assert main(None, ["report", plan.name, "--results", str(plan.results.path)]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert str(in_the_way) in error


@pytest.mark.parametrize("damage", [half, zeros, directory, a_list])
def test_a_damaged_record_of_a_sweep_is_named_and_the_other_sweeps_go_on(
    plan: Plan, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("planted", "other"):
        write_sweep(plan.results, SweepInfo(name=name, title="t", command="c", config={}), "mucon", {})
    file = plan.folder / "sweep.json"
    damage(file)
    records, unreadable = read_sweeps(plan.results)
    assert [record.sweep.name for record in records] == ["other"]
    assert str(file) in unreadable["planted"]
    if damage is zeros:
        assert str(file) in reported(plan, capsys)
    write_sweep(plan.results, SweepInfo(name="planted", title="t", command="c", config={}), "mucon", {})
    assert read_sweep(plan.folder) is not None
    assert file.with_name("sweep.json.damaged-1").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../elsewhere"},
        {"tables": [{"name": "../../elsewhere"}]},
        {"tables": [{"cells": [[0, "1", 1, "../../elsewhere", EVALUATION]]}]},
        {"tables": [{"cells": [[9, "1", 1, "0" * 16, EVALUATION]]}]},
        {"tables": [{"columns": [{"metric": 5}]}]},
        {"tables": [{"columns": [{"metric": "mof", "prediction": "../../elsewhere"}]}]},
        {"tables": [{"rows": [{"labels": ["a"], "settings": {}, "prediction": "../../elsewhere"}]}]},
        {"splits": {"1": {}}},
        {"store": None},
    ],
)
def test_a_plan_of_another_shape_or_with_paths_for_names_is_refused_and_nothing_is_written(
    plan: Plan, tmp_path: Path, change: dict[str, object]
) -> None:
    file = plan.folder / "plan.json"
    content = json.loads(file.read_text())
    if isinstance(change.get("tables"), list):
        change = {"tables": [{**content["tables"][0], **change["tables"][0]}]}  # type: ignore[index]
    file.write_text(json.dumps({**content, **change}))
    before = sorted(tmp_path.rglob("*"))
    with refused("damaged", place=str(file), n=1):
        read_plan(plan.results, plan.name)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.fixture(scope="module")
def trained(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, Path]:
    trial = small.make_trial(tiny_store)
    results = ResultsFolder(tmp_path_factory.mktemp("trained"))
    assert run_trial(trial, results, device="cpu").state is State.FINISHED
    return trial, results.path


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("evaluations/{}/result.json", zeros),
        ("evaluations/{}/result.json", wrong_scores_of_a_video),
        ("evaluations/{}/result.json", directory),
        ("training.json", half),
        ("trial.json", empty),
        ("journal.jsonl", half_a_line_inside),
        ("journal.jsonl", directory),
        ("run/checkpoint/state.json", zeros),
        ("run/checkpoint/config.json", half),
        ("run/checkpoint/weights.safetensors", another_weight),
    ],
)
def test_a_run_renames_what_is_damaged_and_comes_to_the_same_weights(
    trained: tuple[Trial, Path], tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    trial, source = trained
    results = ResultsFolder(tmp_path / "results")
    shutil.copytree(source, results.path)
    folder, name = results.trial(trial.identity), name.format(trial.evaluation)
    if name.startswith("run/"):  # an intact result needs no checkpoint
        folder.result_path(trial.evaluation).unlink()
    damage(folder.path / name)
    assert run_trial(trial, results, device="cpu").state is State.FINISHED
    assert small.weights(results.path) == small.weights(source)
    assert len(list(folder.path.rglob("*.damaged-1"))) >= 1
    reading = results.reading(trial.identity)
    assert reading.damage is None
    assert reading.exists
    assert reading.result(trial.evaluation) is not None
    assert [record["kind"] for record in reading.records].count("repair") == (name == "journal.jsonl")


def test_a_file_in_the_place_of_a_directory_is_renamed(trained: tuple[Trial, Path], tmp_path: Path) -> None:
    trial, source = trained
    folder = ResultsFolder(tmp_path).trial(trial.identity)
    folder.path.parent.mkdir(parents=True)
    folder.path.write_text("a file")
    assert run_trial(trial, ResultsFolder(tmp_path), device="cpu").state is State.FINISHED
    assert small.weights(tmp_path) == small.weights(source)


@pytest.mark.parametrize("content", [b"", b"\x00\x00", b"[]", b'{"token": 1}', b"\xff"])
def test_a_damaged_lease_counts_as_held_for_a_while_and_then_as_free(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lease-00000001.json"
    path.write_bytes(content)
    assert lease.acquire(tmp_path) is None
    os.utime(path, (1, 1))
    (tmp_path / "lease-copy.json").touch()
    held = lease.acquire(tmp_path)
    assert held is not None
    held.release()


def test_the_status_of_all_sweeps_names_damaged_trials_and_plans_and_goes_on(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    line_of_zeros(plan.tracked.folders[0].journal_path)
    other = plan.results.sweep("other")
    shutil.copytree(plan.folder, other)
    assert main(None, ["status", "--results", str(plan.results.path)]) == 3
    said = capsys.readouterr()
    assert "3 of 4, 1 damaged" in said.out
    assert str(other / "plan.json") in said.err
    assert main(None, ["status", "planted", "--results", str(plan.results.path)]) == 3
    assert str(plan.tracked.folders[0].path) in capsys.readouterr().out  # a long reason is cut


def test_a_plan_is_written_again_in_the_place_of_a_directory(plan: Plan) -> None:
    directory(plan.folder / "plan.json")
    with refused("damaged", place=str(plan.folder / "plan.json"), n=1):
        read_plan(plan.results, plan.name)
    plan.write()
    assert read_plan(plan.results, plan.name) == plan


def test_the_first_evaluation_stays_the_first_when_it_is_made_again(plan: Plan) -> None:
    folder = plan.tracked.folders[0]
    written = json.loads(folder.result_path(EVALUATION).read_text())
    result = {name: value for name, value in written.items() if name not in ("first", "evaluation")}
    folder.write_result("b" * 16, result)
    zeros(folder.result_path(EVALUATION))
    folder.mend(EVALUATION)
    folder.write_result(EVALUATION, result)
    assert next(iter(TrialReading(folder).results)) == EVALUATION


def test_another_format_version_is_refused_and_not_set_aside(plan: Plan) -> None:
    path = plan.tracked.folders[0].result_path(EVALUATION)
    path.write_text('{"format_version": 99}')
    with refused("version", place=str(path), value=99, n=1):
        Standing.of(plan)
    with refused("version", place=str(path), value=99, n=1):
        TrialFolder(plan.tracked.folders[0].path).mend(EVALUATION)
    assert path.read_text() == '{"format_version": 99}'
