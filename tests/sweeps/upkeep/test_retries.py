"""Failures that a run does not repeat, and how `retry` queues them."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from mucon.training import EpochReport
from sweeps.service.cli import main
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import Rerun, SweepInfo, hold, read_sweep, write_sweep
from sweeps.service.run.executor.verdicts import mark_failed
from sweeps.service.run.worker import run_trial
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.triage.failures import Failure
from sweeps.service.trials import lease, provenance
from sweeps.service.trials.cell_results import CellResult, keys_to_run, read_result
from sweeps.service.trials.folder import FORMAT_VERSION, State
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep.retries import earlier_failures, failures, queue, rerun_of
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.helpers.refusals import refused
from tests.helpers.trial_folders import append
from tests.sweeps import small

EXPERIMENT = Experiment(
    name="planted",
    title="Planted",
    label_titles=("Row",),
    variants=tuple(Variant(labels=(row,), settings={"loss.smoothing": i}) for i, row in enumerate("abc")),
)
FAILED = State.FAILED


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Row b has failed by itself, row c has diverged."""
    unfinished = {("b", "1", 1): Unfinished("finished"), ("c", "1", 1): Unfinished("diverged", "NaN")}
    plan = make_sweep(tmp_path, EXPERIMENT, lambda *_: 0.5, n_seeds=1, unfinished=unfinished)
    record = {"kind": "status", "timestamp": 2, "host": "h", "pid": 1, "reason": "KeyError: 3"}
    append(plan.tracked.folders[1], {**record, "status": "failed", "code": provenance.code()})
    return plan


def states(plan: Plan) -> list[str]:
    return [str(result.state) for result in plan.read_results().values()]


def record(plan: Plan, sweep: str, *words: str, folder: Path) -> None:
    rerun = Rerun(sweep=sweep, words=words, folder=str(folder))
    info = SweepInfo(name=plan.name, title=plan.title, command="the command", config={}, rerun=rerun)
    write_sweep(plan.results, info, "mucon", plan.rows)


def test_a_trial_that_failed_by_itself_is_left_alone_by_the_same_code_only() -> None:
    def to_run(state: State, code: str | None = None) -> bool:
        return bool(keys_to_run({"a-b": CellResult(state, failed_code=code)}))

    assert not to_run(FAILED, provenance.code())
    assert to_run(FAILED, "other code")
    assert to_run(FAILED), "a failure of disk, memory or device, or one of an earlier version"
    assert not to_run(State.DIVERGED)
    assert all(to_run(state) for state in (State.MISSING, State.LOST, State.STOPPED, State.DAMAGED, State.RUNNING))


@pytest.mark.parametrize(
    ("error", "own"), [(KeyError(3), True), (ConnectionResetError("reset"), False), (MemoryError(), False)]
)
def test_a_worker_records_the_code_of_the_trials_own_failures(
    tiny_store: Path, tmp_path: Path, error: Exception, own: bool
) -> None:
    def fail(_: EpochReport) -> None:
        raise error

    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    assert run_trial(trial, results, device="cpu", report=fail).state is FAILED
    result = read_result(results.reading(trial.identity), trial.evaluation)
    assert result.failed_code == (provenance.code() if own else None)
    other = read_result(results.reading(trial.identity), "f" * 16)
    assert (other.state, other.failed_code) == (FAILED, result.failed_code), "its training failed, too"


@pytest.mark.parametrize(("crashes", "own"), [(2, False), (3, True)])
def test_a_trial_that_crashes_again_and_again_in_native_code_is_left_to_retry(
    tiny_store: Path, tmp_path: Path, crashes: int, own: bool
) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    raw = results.output(trial.identity)
    raw.parent.mkdir(parents=True)
    raw.write_text("epoch 1\nFatal Python error: Segmentation fault\n\nCurrent thread 0x1:\n" * crashes + "epoch 1\n")
    marked = mark_failed(trial, results, "its worker process died 3 times")
    assert marked.state is FAILED
    result = read_result(results.reading(trial.identity), trial.evaluation)
    assert result.failed_code == (provenance.code() if own else None)
    failure = Failure.recorded(results.reading(trial.identity).last_status)
    assert failure is not None
    assert failure.message == "Segmentation fault"
    assert not raw.exists(), "the next command counts from the start"


def test_a_failed_evaluation_says_nothing_about_another_one(plan: Plan) -> None:
    folder = plan.tracked.folders[0]
    status = {"kind": "status", "timestamp": 2, "host": "h", "pid": 1, "reason": "no beam", "evaluation": "f" * 16}
    append(folder, {**status, "status": "failed", "code": "c"})
    reading = plan.results.reading(folder.identity)
    assert read_result(reading, "f" * 16).state is FAILED
    assert read_result(reading, "d" * 16).state is State.MISSING


def test_the_failures_that_a_run_does_not_repeat_are_named_with_the_command(plan: Plan) -> None:
    (line,) = earlier_failures(plan.results, plan.name, plan.read_results())
    assert line.endswith(f"mucon-sweeps retry planted --diverged --failed --results {plan.results.path}")
    (line,) = earlier_failures(
        ResultsFolder.at(Path("results")), "x", {"a-b": CellResult(FAILED, "", {}, {}, 0, provenance.code())}
    )
    assert line.endswith("mucon-sweeps retry x")
    assert earlier_failures(plan.results, "x", {"a-b": CellResult(FAILED)}) == []


def test_a_sweep_of_another_machine_is_waited_for_until_its_lease_expires_or_is_renewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, told = ResultsFolder(tmp_path), list[str]()
    folder = results.running("one")

    def plant(duration: float) -> Path:
        value = {"token": "a", "host": "elsewhere", "pid": 1, "process_start": 1, "expires": 1.0, "machine": "b"}
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "lease-00000001.json"
        path.write_text(json.dumps({**value, "duration": duration}))
        return path

    plant(1.0)
    with refused("busy", value="one"):
        hold(results, "one")
    with hold(results, "one", told.append), refused("busy", value="one"):
        hold(results, "one", told.append)  # its process is of this machine, and lives
    assert len(told) == 1
    assert "process 1 on elsewhere" in told[0]
    for path in folder.iterdir():
        path.unlink()
    path = plant(3600.0)
    with refused("busy", value="one"):
        hold(results, "one", lambda _: os.utime(path, (time.time() + 1, time.time() + 1)))


def test_retry_queues_the_chosen_trials_durably(plan: Plan) -> None:
    chosen = failures(plan.results, plan.name, {FAILED})
    assert [(cell.row, cell.state, cell.reason) for cell in chosen] == [("b", FAILED, "KeyError: 3")]
    with hold(plan.results, plan.name), refused("busy", value=plan.name):
        queue(plan.results, plan.name, chosen)
    assert states(plan) == ["finished", "failed", "diverged"]
    with lease.acquire(plan.tracked.folders[1].path) or pytest.fail("free"):
        queue(plan.results, plan.name, chosen)  # runs already
    assert states(plan) == ["finished", "failed", "diverged"]
    queue(plan.results, plan.name, chosen)
    queue(plan.results, plan.name, failures(plan.results, plan.name, {State.DIVERGED}))
    assert states(plan) == ["finished", "missing", "missing"]
    assert len(keys_to_run(plan.read_results())) == 2


def test_the_recorded_command_is_run_in_this_folder_and_what_it_needs_may_be_gone(plan: Plan, tmp_path: Path) -> None:
    with refused("missing", value="rerun"):
        rerun_of(plan.results, plan.name, {})
    record(plan, "ablation_masks", "--seeds", "3", "--results", "elsewhere", folder=tmp_path)
    rerun = rerun_of(plan.results, plan.name, {})
    assert rerun.words == ("--seeds", "3", "--results", str(plan.results.path))
    assert rerun.folder == str(tmp_path)
    record(plan, "ablation_masks", *rerun.words, folder=tmp_path)
    assert rerun_of(plan.results, plan.name, {}).words == rerun.words
    record(plan, str(tmp_path / "gone.yaml"), folder=tmp_path)
    with refused("missing", value=str(tmp_path / "gone.yaml")):
        rerun_of(plan.results, plan.name, {})
    record(plan, "ablation_masks", "--tracking-uri", "postgresql://u:***@h/d", folder=tmp_path)
    with refused("missing", place="--tracking-uri"):
        rerun_of(plan.results, plan.name, {})
    assert rerun_of(plan.results, plan.name, {"--tracking-uri": "sqlite:///x"}).words[:2] == (
        "--tracking-uri",
        "sqlite:///x",
    )


def test_given_options_replace_the_recorded_ones_and_an_address_ends_the_recorded_lack_of_tracking(
    plan: Plan, tmp_path: Path
) -> None:
    recorded = ("--tracking", "off", "--cpu-hours=2", "--seeds", "3", "--cpu-hours", "4")
    record(plan, "ablation_masks", *recorded, folder=tmp_path)
    place = ("--results", str(plan.results.path))
    assert rerun_of(plan.results, plan.name, {}).words == (*recorded, *place)
    larger = rerun_of(plan.results, plan.name, {"--cpu-hours": "9"}).words
    assert larger == ("--tracking", "off", "--seeds", "3", "--cpu-hours", "9", *place)
    tracked = rerun_of(plan.results, plan.name, {"--tracking-uri": "sqlite:///x"}).words
    assert tracked == (*recorded[2:], "--tracking-uri", "sqlite:///x", *place)
    elsewhere = rerun_of(plan.results, plan.name, {"--address": "there:6379"}).words
    assert elsewhere == (*recorded, "--address", "there:6379", *place)
    for wrong in (["--cpu-hours", "many"], ["--address", "there"]):
        assert main(arguments=["retry", plan.name, *place, *wrong]) == 2
    assert states(plan) == ["finished", "failed", "diverged"], "nothing is queued"


def test_stale_trials_are_listed_beside_those_that_are_queued(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, failed, _ = plan.tracked.folders
    rerun = Rerun(sweep="ablation_masks", words=("--notify", "***"), folder=str(tmp_path))
    info = SweepInfo(name=plan.name, title=plan.title, command="the command", config={}, rerun=rerun)
    write_sweep(plan.results, info, "mucon", {**plan.rows, "0123456789abcdef": "a"})
    earlier = old.path.rename(old.path.with_name("0123456789abcdef")) / "trial.json"
    earlier.write_text(json.dumps({"format_version": FORMAT_VERSION, "config": {}, "split": "1", "seed": 1}))
    line = ["retry", plan.name, "--results", str(plan.results.path), "--dry-run", "--json", "--stale"]
    assert main(arguments=line) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(cell["identity"], cell["state"]) for cell in shown["trials"]] == [(old.identity, "stale")]
    assert "0123456789abcdef" in shown["trials"][0]["reason"]
    assert "--notify" not in shown["command"]
    assert main(arguments=[*line, "--failed"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [cell["identity"] for cell in shown["trials"]] == [failed.identity, old.identity]


def test_the_command_lists_runs_nothing_in_a_dry_run_and_ends_with_the_status_of_the_run(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(plan, "ablation_masks", "--store", "nowhere", folder=tmp_path)
    line = ["retry", plan.name, "--results", str(plan.results.path), "--diverged", "--json"]
    assert main(arguments=[*line, "--dry-run"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(cell["row"], cell["state"]) for cell in shown["trials"]] == [("c", "diverged")]
    assert (shown["format_version"], shown["status"]) == (1, None)
    assert states(plan) == ["finished", "failed", "diverged"]
    before = Path.cwd()
    assert main(arguments=line) == 2  # the store is missing
    assert "nowhere" in capsys.readouterr().err
    assert states(plan) == ["finished", "failed", "missing"]
    assert Path.cwd() == before
    assert main(arguments=["retry", plan.name, "--results", str(plan.results.path), "--diverged"]) == 0
    assert "1 failed" in capsys.readouterr().out, "no trial is diverged, but another one could be run again"


def test_a_run_records_how_it_was_started(tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sweeps.service.commands.running.asked import lasting_name

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(small.MASKS)])
    assert lasting_name("") == "ablation_masks"
    assert lasting_name("ablation_masks") == "ablation_masks"
    assert lasting_name("own.yaml") == str(tmp_path / "own.yaml")
    monkeypatch.setattr(sys, "argv", ["own.py"])
    assert lasting_name("") == str(tmp_path / "own.py")


def test_a_damaged_record_of_a_run_is_refused(plan: Plan, tmp_path: Path) -> None:
    record(plan, "ablation_masks", folder=tmp_path)
    path = plan.folder / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rerun": {"sweep": 3}}))
    with refused("damaged", place=str(path)):
        read_sweep(plan.folder)
