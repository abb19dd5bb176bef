"""Results of the previous release (trial directories of format 1) are converted when they are first read.

`tests/data/results_v1` was written by that release: two trained rows, a second evaluation of one of them, a third row
that was interrupted in epoch 4 of 8, and the CSV of its report.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.service.cli import main
from sweeps.service.run.worker import run_trial
from sweeps.service.track.content.records import artifacts, read_record
from sweeps.service.trials import lease
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.json_files import write_json
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.helpers.refusals import refused
from tests.sweeps import small

RESULTS_V1 = small.ROOT / "tests" / "data" / "results_v1"
BOX, BELL, TRAPEZOID = "8ddddd1ccd741599", "6d9ec8db62de23b7", "67fb599367fc2d6c"
FIRST, BEAM = "5c0b2ec12275cb03", "8d42d46f157d91d3"
STEPS = 5
"""Moments between two steps of a conversion."""
READ = "import pathlib, sys; from sweeps.service.trials.results_folder import ResultsFolder; " + (
    "ResultsFolder(pathlib.Path(sys.argv[1])).reading(sys.argv[2])"
)


@pytest.fixture
def results(tmp_path: Path) -> ResultsFolder:
    """A copy of the earlier results."""
    shutil.copytree(RESULTS_V1, tmp_path / "results")
    return ResultsFolder(tmp_path / "results")


def content(folder: Path, *, times: bool = False) -> dict[str, object]:
    """Path -> bytes, and modification time if asked for, of each file except leases."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns if times else 0)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("lease-")
    }


def earlier(identity: str, file: str) -> dict[str, object]:
    return dict(json.loads((RESULTS_V1 / "trials" / identity / file).read_text()))


def numbers(table: Path) -> list[dict[str, str]]:
    """The labels, means, deviations and numbers of seeds of a CSV table; intervals and tests follow other rules now."""
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert any(name.endswith(".mean") for name in rows[0])
    kept = {name for name in rows[0] if "." not in name or name.rpartition(".")[2] in ("mean", "std", "n")}
    kept -= {"collapsed", "decision"}  # earlier versions did not have them
    return [{name: row[name] for name in kept} for row in rows]


def test_the_report_of_earlier_results_has_the_same_numbers_and_trains_nothing(
    results: ResultsFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    table = results.sweep("earlier") / "earlier.csv"
    before = numbers(table)
    table.unlink()
    assert main(None, ["report", "earlier", "--results", str(results.path)]) == 0
    assert numbers(table) == before
    out = capsys.readouterr().out
    assert all(number in out for number in ("65.5", "70.6", "0.267", "0.400", "69.0", "98.0"))
    for identity in (BOX, BELL, TRAPEZOID):
        folder, old = results.trial(identity), RESULTS_V1 / "trials" / identity
        assert folder.journal_path.read_bytes() == (old / "journal.jsonl").read_bytes()
        assert content(folder.run_path) == content(old / "run")


@pytest.mark.parametrize("identity", [BOX, BELL])
def test_every_file_of_a_finished_trial_is_at_its_new_place_with_its_old_content(
    results: ResultsFolder, identity: str
) -> None:
    reading, old = results.reading(identity), RESULTS_V1 / "trials" / identity
    folder = reading.folder
    result = earlier(identity, "result.json")
    assert reading.result(FIRST) == {**result, "format_version": 2, "first": True}
    assert reading.trial == {**earlier(identity, "trial.json"), "format_version": 2}
    facts = {name: result[name] for name in ("identity", "weights_sha256", "train_seconds")}
    assert reading.training == {"format_version": 2, **facts}
    assert content(folder.predictions_path(FIRST)) == content(old / "predictions")
    moved = {f"evaluations/{FIRST}/result.json", "training.json", "trial.json"}
    moved |= {f"evaluations/{FIRST}/{path.relative_to(old)}" for path in old.glob("predictions/*")}
    others = {path for path in content(old) if path != "result.json" and not path.startswith("predictions/")}
    assert set(content(folder.path)) == moved | others
    for path in others - {"trial.json"}:
        assert (folder.path / path).read_bytes() == (old / path).read_bytes()
    assert reading.state(FIRST) == (State.FINISHED, None)
    trial = Trial.from_dict(reading.trial)
    again = Trial.of(trial.config, split=trial.split, data_fingerprint=trial.data_fingerprint, store=trial.store)
    assert (trial.identity, again.identity) == (identity, identity)


def test_the_first_evaluation_stays_the_first_for_the_tracking_server(results: ResultsFolder) -> None:
    reading = results.reading(BELL)
    assert list(reading.results) == [FIRST, BEAM]
    record = read_record(reading)
    assert record is not None
    assert record.state is State.FINISHED
    assert record.tags["weights_sha256"] == earlier(BELL, "result.json")["weights_sha256"]
    scores = {point.name: point.value for point in record.scores}
    assert scores["final_test/full/mof"] == pytest.approx(0.49746192893401014)
    later = {point.name: point.value for point in record.evaluations[BEAM]}
    assert later["final_test/beam 2/full/matching_score"] == pytest.approx(0.4)
    assert record.data.schema == "", "the earlier release did not record dimension and dtype"
    assert {place for _, place in artifacts(reading)} == {"checkpoint", "predictions", ""}


def test_a_second_reading_changes_nothing(results: ResultsFolder) -> None:
    def read() -> dict[str, object]:
        for identity in (BOX, BELL, TRAPEZOID):
            results.reading(identity).state()
        return content(results.path, times=True)

    before = content(RESULTS_V1)
    first = read()
    assert set(first) != set(before)
    assert read() == first


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_conversion_that_is_killed_between_two_steps_is_completed_by_the_next_reading(
    results: ResultsFolder, tmp_path: Path, step: int
) -> None:
    shutil.copytree(RESULTS_V1, tmp_path / "undisturbed")
    undisturbed = ResultsFolder(tmp_path / "undisturbed")
    undisturbed.reading(BELL)
    killed = subprocess.run(
        [sys.executable, "-c", READ, str(results.path), BELL],
        env={**os.environ, "PYTHONPATH": str(small.ROOT), "MUCON_FAILPOINT": f"sweeps.trials.upgrade:{step}:kill"},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    folder = results.trial(BELL)
    assert (folder.path / "result.json").exists()
    assert list(results.reading(BELL).results) == [FIRST, BEAM]
    assert not (folder.path / "result.json").exists()
    assert content(folder.path) == content(undisturbed.trial(BELL).path)


def test_a_conversion_has_as_many_steps_as_are_killed(results: ResultsFolder) -> None:
    complete = subprocess.run(
        [sys.executable, "-c", READ, str(results.path), BELL],
        env={**os.environ, "PYTHONPATH": str(small.ROOT), "MUCON_FAILPOINT": f"sweeps.trials.upgrade:{STEPS + 1}:kill"},
        check=False,
    )
    assert complete.returncode == 0


def test_a_trial_that_another_process_holds_is_not_converted(results: ResultsFolder) -> None:
    folder = results.trial(BOX)
    with lease.acquire(folder.path) or pytest.fail("free"):
        before = content(folder.path)
        assert results.reading(BOX).state() == (State.RUNNING, None)
        assert content(folder.path) == before
    assert results.reading(BOX).state() == (State.FINISHED, None)


def test_a_worker_converts_what_it_waited_for_and_does_not_train_it_again(results: ResultsFolder) -> None:
    """The process that held the trial, of the earlier release, ends after the worker has started to wait."""
    trial = Trial.from_dict(earlier(BOX, "trial.json"))
    folder = results.trial(BOX)
    held = lease.acquire(folder.path)
    assert held is not None
    waits: list[None] = []

    def should_stop() -> bool:
        waits.append(None)
        held.release()
        return False

    before = folder.journal_path.read_bytes()
    assert run_trial(trial, results, device="cpu", should_stop=should_stop).state is State.FINISHED
    assert len(waits) == 1
    assert folder.journal_path.read_bytes() == before
    assert results.reading(BOX).first_result is not None


def on_store(results: ResultsFolder, identity: str, store: Path) -> Trial:
    """The recorded trial, on a store with the same recordings."""
    value = results.reading(identity).trial
    trial = Trial.from_dict({**value, "store": str(store)})
    assert small.make_trial(store).data_fingerprint == trial.data_fingerprint
    return trial


def test_a_further_evaluation_of_an_earlier_trial_does_not_train_it_again(
    results: ResultsFolder, tiny_store: Path
) -> None:
    old = on_store(results, BOX, tiny_store)
    config = old.config.with_values({"decoding.beam": 2})
    trial = Trial.of(config, split="1", data_fingerprint=old.data_fingerprint, store=str(tiny_store))
    assert (trial.identity, trial.evaluation) == (BOX, BEAM)
    before = content(results.trial(BOX).run_path), results.trial(BOX).training_path.read_bytes()
    assert run_trial(trial, results, device="cpu").state is State.FINISHED
    assert (content(results.trial(BOX).run_path), results.trial(BOX).training_path.read_bytes()) == before
    reading = results.reading(BOX)
    assert list(reading.results) == [FIRST, BEAM]
    assert {result["weights_sha256"] for result in reading.results.values()} == {
        earlier(BOX, "result.json")["weights_sha256"]
    }


def test_an_interrupted_trial_of_the_earlier_release_resumes(results: ResultsFolder, tiny_store: Path) -> None:
    trial = on_store(results, TRAPEZOID, tiny_store)
    before = results.reading(TRAPEZOID)
    assert before.state(trial.evaluation)[0] is State.STOPPED
    assert before.n_epochs == 3
    trained: list[int] = []
    outcome = run_trial(trial, results, device="cpu", report=lambda epoch: trained.append(epoch.epoch))
    assert outcome.state is State.FINISHED
    assert trained == [4, 5, 6, 7, 8]
    after = results.reading(TRAPEZOID)
    assert after.epochs[:3] == before.epochs
    assert list(after.results) == [FIRST]
    assert after.trial["data"] == {"dim": 6, "dtype": "float32"}


@contextlib.contextmanager
def without_permissions() -> Iterator[None]:
    """Root may write everywhere, so it becomes another user for the duration of the block."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_earlier_results_that_cannot_be_written_are_refused_with_their_version() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        shutil.copytree(RESULTS_V1, Path(place) / "results")
        folders = [Path(place, "results"), *filter(Path.is_dir, Path(place, "results").rglob("*"))]
        for folder in folders:
            folder.chmod(0o555)
        results = ResultsFolder(Path(place) / "results")
        before = content(results.path, times=True)
        with without_permissions(), refused("version", place=str(results.trial(BOX).path), value=1, n=1):
            results.reading(BOX)
        assert results.reading(TRAPEZOID).exists
        assert content(results.path, times=True) == before
        for folder in folders:
            folder.chmod(0o755)


def test_a_damaged_result_and_one_of_an_unknown_version_are_refused_and_left_alone(results: ResultsFolder) -> None:
    for text, rule, value in (('{"format_ver', "damaged", None), ('{"format_version": 99}', "version", 99)):
        path = results.trial(BOX).path / "result.json"
        path.write_text(text)
        with refused(rule, place=str(path), n=1) as refusal:
            results.reading(BOX).check()
        if value is not None:
            assert refusal.values == [value]
        assert path.read_text() == text
        assert lease.holder(results.trial(BOX).path) is None


def test_a_directory_of_the_current_format_is_not_touched(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path / "trials" / "ab")
    folder.path.mkdir(parents=True)
    write_json(folder.trial_path, {"format_version": 2})
    before = sorted(folder.path.iterdir())
    folder.upgrade()
    assert sorted(folder.path.iterdir()) == before
