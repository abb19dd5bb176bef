"""Interrupts and kills real drivers and workers: nothing is lost or trained twice, and the bits are equal."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeps.service.run.executor.interruption import BURST_SECONDS
from sweeps.service.run.worker import run_trial
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.sweeps import small

pytestmark = [
    pytest.mark.service,
    pytest.mark.xdist_group("engine"),  # not beside the workers of other tests that the kernel kills
    pytest.mark.repeated(ci=1, soak=20),
]

LONGER = 10
"""Epochs of trials that must still be running when something happens to them."""


def begun(results: Path, n_trials: int) -> bool:
    return sum(bool(done) for done in small.epochs(results).values()) >= n_trials


def alone(store: Path, folder: Path, shape: str, epochs: int) -> tuple[str, str]:
    """The identity and the weights of a row that is trained without a sweep."""
    trial = small.make_trial(store, mask__shape=shape, training__epochs=epochs)
    assert run_trial(trial, ResultsFolder(folder), device="cpu").state is State.FINISHED
    return trial.identity, small.weights(folder)[trial.identity]


def test_ctrl_c_writes_checkpoints_and_the_same_command_resumes_to_the_same_bits(
    tiny_store: Path, tmp_path: Path
) -> None:
    results, log = tmp_path / "results", tmp_path / "log"
    rows = {shape: {"mask.shape": shape} for shape in ("box", "bell", "trapezoid")}
    script = small.own_script(tmp_path, "interrupted", rows)
    line = small.untracked(small.command(script, tiny_store, results, "--set", f"training.epochs={LONGER}"))
    with small.started(line, log) as driver:
        small.wait_until(lambda: begun(results, 1))
        os.killpg(driver.pid, signal.SIGINT)  # as a terminal does: to the driver, Ray's processes and the workers
        assert driver.wait(120) == 130
    output = log.read_text()
    assert "stopping" in output
    assert any("seed 1" in line and "stopped" in line and "interrupted" in line for line in output.splitlines())
    stopped = [identity for identity, said in small.statuses(results).items() if said == ["running", "stopped"]]
    assert stopped
    for identity in stopped:
        state = json.loads((results / "trials" / identity / "run" / "checkpoint" / "state.json").read_text())
        assert not state["progress"]["finished"]

    ended = small.run(line)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(small.epochs(results).values()) == [list(range(1, LONGER + 1))] * 3
    identity, digest = alone(tiny_store, tmp_path / "alone", "box", LONGER)
    assert small.weights(results)[identity] == digest


def test_a_sweep_is_refused_while_it_runs_and_its_second_ctrl_c_stops_it_at_once(
    tiny_store: Path, tmp_path: Path
) -> None:
    results, log = tmp_path / "results", tmp_path / "log"
    script = small.own_script(tmp_path, "hanging", {"box": {"loss.smoothing": 0.3}})  # no other sweep's trial
    line = small.command(script, tiny_store, results)
    with small.started(line, log, MUCON_FAILPOINT="training.step:8:hang") as driver:
        small.wait_until(lambda: begun(results, 1))
        twice = small.run(line)
        os.kill(driver.pid, signal.SIGINT)
        small.wait_until(lambda: "stopping" in log.read_text())
        assert "interrupted" not in log.read_text()
        time.sleep(BURST_SECONDS)
        assert driver.poll() is None, "the trial hangs, and the first Ctrl-C waits for it"
        os.kill(driver.pid, signal.SIGINT)
        assert driver.wait(60) == 130
    assert twice.returncode == 2
    (line_of_error,) = twice.stderr.splitlines()
    assert line_of_error.startswith(f"error: {results}: ")
    assert {"hanging", str(driver.pid)} <= set(line_of_error.replace("(", " ").split())
    assert socket.gethostname() in line_of_error
    assert "interrupted" in log.read_text(), "the second Ctrl-C ended the driver"
    assert list(small.statuses(results).values()) == [["running"]]


def test_a_trial_killed_in_mid_epoch_resumes_to_the_same_bits_and_one_that_is_killed_too_often_has_failed(
    tiny_store: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    rows = {  # three processes of less than eight steps end three epochs of six steps, and not six
        "short": {"mask.shape": "bell", "training.epochs": 3},
        "long": {"training.epochs": 6},
    }
    line = small.untracked(small.command(small.own_script(tmp_path, "killed", rows), tiny_store, results))
    at = line.index("training.epochs=3")
    del line[at - 1 : at + 1]
    ran = small.run(line, MUCON_FAILPOINT="training.step:8:kill")
    assert ran.returncode == 3
    identity, digest = alone(tiny_store, tmp_path / "alone", "bell", 3)
    assert small.weights(results) == {identity: digest}
    said = small.statuses(results)
    assert said.pop(identity) == ["running", "running", "running", "finished"]
    assert small.epochs(results)[identity] == [1, 2, 3]
    assert list(said.values()) == [["running", "running", "running", "failed"]]
    (note,) = (line for line in ran.stdout.splitlines() if line.startswith("long, split 1, seed 1"))
    assert "failed" in note
    assert "3 times" in note


def test_two_processes_that_want_one_trial_train_it_once(tiny_store: Path, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from sweeps.service.run.worker import run_trial; from tests.sweeps import small; "
        "from sweeps.service.trials.results_folder import ResultsFolder; "
        "trial = small.make_trial(pathlib.Path(sys.argv[1])); "
        "print(run_trial(trial, ResultsFolder(pathlib.Path(sys.argv[2])), device='cpu').state)"
    )
    line = [sys.executable, "-c", program, str(tiny_store), str(tmp_path)]
    both = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=small.ROOT) for _ in range(2)]
    assert [process.communicate(timeout=120)[0].strip() for process in both] == ["finished"] * 2
    assert list(small.statuses(tmp_path).values()) == [["running", "finished"]]
