"""Kills the driver of a sweep again and again; the same command completes it with nothing twice and nothing lost.

The moments of some kills are failpoints; the others are chosen by a seed that pytest prints with the test's name.
"""

import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweeps.service.run.worker import run_trial
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers import counted
from tests.sweeps import small

pytestmark = [pytest.mark.service, pytest.mark.xdist_group("kills")]

EPOCHS = 6
ROWS: dict[str, dict[str, object]] = {
    f"{shape} {smoothing}": {"mask.shape": shape, "loss.smoothing": smoothing}
    for shape in ("box", "bell", "trapezoid")
    for smoothing in (0.05, 0.06, 0.07, 0.08)
}
MOMENTS = (
    "checkpoint.weights:1:kill",  # before the first checkpoint of each worker process
    "checkpoint.between:2:kill",  # while a checkpoint replaces another
    "sweeps.worker.trained:1:kill",  # after the last epoch
    "sweeps.worker.evaluated:2:kill",  # before the result
)
"""Moments in a worker process; Ray starts it again until the trial has had all of its processes."""
CALLS = ("sweeps.tracking.created:2:kill", "sweeps.tracking.batch:9:kill", "sweeps.tracking.artifact:11:kill")
"""Moments in the driver, during a call to the tracking server."""


@dataclass(frozen=True)
class Sweep:
    """Twelve trials with a results folder and a tracking database of their own."""

    results: Path
    line: list[str]

    @property
    def database(self) -> Path:
        return self.results / "mlflow.db"


def sweep(folder: Path, store: Path) -> Sweep:
    folder.mkdir()
    results = folder / "results"
    script = small.own_script(folder, "twelve", ROWS)
    line = small.command(script, store, results, "--set", f"training.epochs={EPOCHS}", "--checkpoint-every", "1")
    at = line.index("--tracking-uri")
    return Sweep(results, [*line[:at], *line[at + 2 :]])


@pytest.fixture(scope="session")
def undisturbed(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Identity -> sha256 of the weights of trials that nobody has killed."""
    results = tmp_path_factory.mktemp("undisturbed")
    for row in ROWS.values():
        settings = {path.replace(".", "__"): value for path, value in row.items()}
        trial = small.make_trial(tiny_store, **settings, training__epochs=EPOCHS)
        assert run_trial(trial, ResultsFolder(results), device="cpu").state is State.FINISHED
    return small.weights(results)


def finished_journals(results: Path) -> dict[str, bytes]:
    """Identity -> the journal of each trial that has a result."""
    paths = results.glob("trials/*/evaluations/*/result.json")
    return {path.parents[2].name: (path.parents[2] / "journal.jsonl").read_bytes() for path in paths}


def files(results: Path) -> dict[Path, tuple[int, int]]:
    """Path -> size and time of the last change of every file of the trials."""
    found = {}
    for path in results.glob("trials/**/*"):
        status = path.stat()
        found[path] = (status.st_size, status.st_mtime_ns)
    return found


def check_whole(whole: Sweep, undisturbed: dict[str, str]) -> None:
    """Every trial is finished once, with the weights of an undisturbed sweep, on disk and on the tracking server."""
    assert small.weights(whole.results) == undisturbed
    epochs = list(range(1, EPOCHS + 1))
    assert small.epochs(whole.results) == dict.fromkeys(undisturbed, epochs)
    assert counted.trials(whole.database) == {name: ["FINISHED"] for name in undisturbed}
    assert counted.statuses(whole.database) == {"FINISHED": len(ROWS) + 1}
    assert counted.duplicates(whole.database) == 0
    assert counted.steps(whole.database, "train/loss/total") == dict.fromkeys(undisturbed, epochs)
    before = files(whole.results)
    time.sleep(2)  # workers of a killed driver that are still alive
    assert files(whole.results) == before


@pytest.mark.repeated(ci=1, soak=20)
def test_a_driver_that_is_killed_again_and_again_loses_nothing_and_repeats_nothing(
    tiny_store: Path, tmp_path: Path, undisturbed: dict[str, str], repetition: int
) -> None:
    chosen = random.Random(repetition)
    whole = sweep(tmp_path / "killed", tiny_store)
    log = tmp_path / "log"
    for call in chosen.sample(CALLS, 2):
        known = finished_journals(whole.results)
        with small.started(whole.line, log, MUCON_FAILPOINT=call) as driver:
            assert driver.wait(240) == -signal.SIGKILL or known, "the first call always kills the driver"
        assert {name: finished_journals(whole.results)[name] for name in known} == known, "trained or evaluated again"
    for moment in chosen.sample(MOMENTS, 2):
        if len(known := finished_journals(whole.results)) == len(ROWS):
            break
        before = starts(whole.results)
        with small.started(whole.line, log, MUCON_FAILPOINT=moment) as driver:
            small.wait_until(lambda before=before: starts(whole.results) > before, 120)
            wait = time.monotonic() + chosen.uniform(0.0, 4.0)
            while driver.poll() is None and time.monotonic() < wait:
                time.sleep(0.02)
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
        assert {name: finished_journals(whole.results)[name] for name in known} == known, "trained or evaluated again"
    known = finished_journals(whole.results)
    ended = small.run(whole.line)
    assert (ended.returncode, ended.stderr) == (0, ""), log.read_text()[-4000:]
    assert {name: finished_journals(whole.results)[name] for name in known} == known, "trained or evaluated again"
    check_whole(whole, undisturbed)


def starts(results: Path) -> int:
    """Number of times that a process has begun a trial."""
    return sum(said.count("running") for said in small.statuses(results).values())
