"""Budgets of real sweeps: they stop in mid-training, survive a kill, and a larger one resumes to the same bits."""

import os
import signal
import time
from pathlib import Path

import pytest

from mucon.checkpoint_files import read
from sweeps.service.run.budget.usage import read_all_usage
from sweeps.service.run.worker import run_trial
from sweeps.service.trials import lease
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.listening import listening
from tests.helpers.services import free_port
from tests.sweeps import small

pytestmark = pytest.mark.service

EPOCHS = 20
SLOW = {"MUCON_FAILPOINT": "training.step:1:slow"}
"""Each of the 120 steps of a trial waits 0.2 s, so that it needs much more than the budget."""
LIMIT = 0.001
"""Core-hours: 3.6 s of one core."""
ROOMY = ("--cpu-hours", "100", "--max-concurrent", "1")
SECRET = "s3cr3t-hook"
LONG = 100
"""Epochs of a trial that lasts 120 s with `SLOW`, and some seconds without."""
INTERVAL = 60
"""Seconds between two checkpoints."""


def used(results: Path) -> float:
    """Core-seconds that the sweep has used."""
    return sum(usage.cpu_seconds for usage in read_all_usage(results / "sweeps" / "limited").values())


def budget_line(printed: str) -> str:
    """What a sweep says of its budget at the end."""
    return [line for line in printed.splitlines() if line.startswith("budget: ")][-1]


def done(results: Path) -> int:
    return sum(map(len, small.epochs(results).values()))


@pytest.mark.repeated(ci=1, soak=20)
def test_a_budget_stops_running_trials_survives_a_kill_and_a_larger_one_resumes_to_the_same_bits(
    tiny_store: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    rows = {shape: {"mask.shape": shape} for shape in ("bell", "trapezoid")}
    line = small.untracked(small.command(small.own_script(tmp_path, "limited", rows), tiny_store, results))
    line += ["--set", f"training.epochs={EPOCHS}"]
    page = results / "sweeps" / "limited" / "index.html"

    with listening() as server:
        address = f"{server.address}/{SECRET}"
        stopped = small.run([*line, "--cpu-hours", str(LIMIT), "--notify", address], **SLOW)
    assert (stopped.returncode, stopped.stderr) == (3, "")
    assert set(map(tuple, small.statuses(results).values())) <= {("running", "stopped")}
    assert "http-equiv" not in page.read_text()
    last = budget_line(stopped.stdout)
    assert f"of {LIMIT} CPU-hours" in last
    assert "--cpu-hours " in last.rpartition(";")[2]
    assert server.kinds == ["budget", "finished"]
    assert server.received[1]["counts"] == {"stopped": 2} or "missing" in server.received[1]["counts"]
    assert used(results) > 3600 * LIMIT
    for path in results.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in stopped.stdout

    before, spent = done(results), used(results)
    assert before < 2 * EPOCHS
    with small.started([*line, *ROOMY], tmp_path / "log", **SLOW) as driver:
        small.wait_until(lambda: used(results) > spent + 3 and done(results) > before)
        assert "http-equiv" in page.read_text()
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    folders = ResultsFolder(results).trials()
    # its workers live a little longer
    small.wait_until(lambda: not any(lease.holder(folder.path) for folder in folders))
    spent = used(results)
    assert spent > 3600 * LIMIT + 3

    before = done(results)
    capped = small.run([*line, *ROOMY], MUCON_MAX_CPU_HOURS=str(spent / 3600 / 2))
    assert capped.returncode == 3
    assert "MUCON_MAX_CPU_HOURS" in budget_line(capped.stdout)
    assert (done(results), used(results)) == (before, spent)

    gone = f"http://127.0.0.1:{free_port()}/{SECRET}"
    ended = small.run([*line, *ROOMY], MUCON_NOTIFY=gone)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("notice") == 1
    assert SECRET not in ended.stdout
    assert list(small.epochs(results).values()) == [list(range(1, EPOCHS + 1))] * 2
    assert used(results) > spent
    trial = small.make_trial(tiny_store, mask__shape="bell", training__epochs=EPOCHS)
    assert run_trial(trial, ResultsFolder(tmp_path / "alone"), device="cpu").state is State.FINISHED
    assert small.weights(results)[trial.identity] == small.weights(tmp_path / "alone")[trial.identity]
    assert not list(results.glob("running/limited/stop*"))
    (reason,) = {
        record["reason"]
        for records in small.journals(results).values()
        for record in records
        if record["kind"] == "status" and record["status"] == "stopped"
    }
    assert "budget" in reason


@pytest.mark.repeated(ci=1, soak=20)
def test_a_trial_that_is_much_slower_than_estimated_stops_within_a_checkpoint_interval_of_the_time_budget(
    tiny_store: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    rows = {shape: {"mask.shape": shape} for shape in ("bell", "trapezoid")}
    fast, slow = (small.make_trial(tiny_store, mask__shape=shape, training__epochs=LONG) for shape in rows)
    assert run_trial(fast, ResultsFolder(results), device="cpu").state is State.FINISHED
    line = small.untracked(small.command(small.own_script(tmp_path, "limited", rows), tiny_store, results))
    line += ["--set", f"training.epochs={LONG}", "--checkpoint-every", str(INTERVAL)]
    for budget in (20, 60, 100):  # the first one within which this machine starts the trial
        started = time.time()
        stopped = small.run([*line, "--time-budget", f"{budget}s"], **SLOW)
        assert (stopped.returncode, stopped.stderr) == (3, "")
        if small.epochs(results).get(slow.identity):
            break
    records = small.journals(results)[slow.identity]
    assert [record["status"] for record in records if record["kind"] == "status"] == ["running", "stopped"]
    spent = records[-1]["timestamp"] / 1000 - started
    assert budget / 2 < spent < budget + INTERVAL
    used = read_all_usage(results / "sweeps" / "limited")[slow.identity].seconds
    assert used < budget + INTERVAL
    done = small.epochs(results)[slow.identity]
    assert 0 < len(done) < LONG
    assert read(ResultsFolder(results).trial(slow.identity).checkpoint_path).progress.epoch == len(done)
    assert "--time-budget" in budget_line(stopped.stdout)
