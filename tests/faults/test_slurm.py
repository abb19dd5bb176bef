"""Jobs of slurm.sbatch on a stand-in for SLURM that signals and kills them; the sweep is completed by requeued jobs.

The moments are chosen by a seed that pytest prints with the test's name.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.service.run.worker import run_trial
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers import slurm_jobs
from tests.helpers.services import need
from tests.sweeps import small

pytestmark = [pytest.mark.service, pytest.mark.xdist_group("slurm")]

EPOCHS = 25
ROWS: dict[str, dict[str, object]] = {shape: {"mask.shape": shape} for shape in ("box", "bell", "trapezoid")}


@pytest.fixture(scope="module")
def undisturbed(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Identity -> sha256 of the weights of trials that nobody has interrupted."""
    results = tmp_path_factory.mktemp("undisturbed")
    for shape in ROWS:
        trial = small.make_trial(tiny_store, mask__shape=shape, training__epochs=EPOCHS)
        assert run_trial(trial, ResultsFolder(results), device="cpu").state is State.FINISHED
    return small.weights(results)


@pytest.fixture
def job(tiny_store: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[slurm_jobs.Job]:
    """A job of a sweep on the number of nodes that the test's parameter gives."""
    need(slurm_jobs.can_run(), "unshare and ip for network namespaces")
    line = small.command(small.own_script(tmp_path, "rows", ROWS), tiny_store, tmp_path / "results")
    at = line.index("--tracking-uri")
    line = ["python", *line[1:at], *line[at + 2 :], "--tracking", "off", "--set", f"training.epochs={EPOCHS}"]
    submitted = slurm_jobs.Job(tmp_path / "job", line, request.param)
    yield submitted
    submitted.kill()


def wait_for_epochs(results: Path, n: int) -> None:
    """Waits until the journals have more than a number of epochs."""
    small.wait_until(lambda: n_epochs(results) > n, 240)


def n_epochs(results: Path) -> int:
    return sum(map(len, small.epochs(results).values()))


def check_whole(job: slurm_jobs.Job, results: Path, undisturbed: dict[str, str]) -> None:
    """Every trial is finished once, with every epoch once and the bits of an undisturbed one; no file is left over."""
    assert small.weights(results) == undisturbed
    assert small.epochs(results) == {name: list(range(1, EPOCHS + 1)) for name in undisturbed}
    assert [said.count("finished") for said in small.statuses(results).values()] == [1] * len(ROWS)
    assert not job.files.exists()


@pytest.mark.repeated(ci=1, soak=8)
@pytest.mark.parametrize("job", [1, 2], indirect=True)
def test_a_job_that_reaches_its_limit_or_is_killed_is_requeued_until_its_sweep_is_finished(
    job: slurm_jobs.Job, tmp_path: Path, undisturbed: dict[str, str], repetition: int
) -> None:
    chosen, results = random.Random(repetition), tmp_path / "results"
    faults = chosen.sample((job.warn, job.kill), 2)
    for fault in faults:
        known = n_epochs(results)
        job.start()
        wait_for_epochs(results, known)
        time.sleep(chosen.uniform(0, 1))
        fault()
    job.start()
    assert job.wait() == 0, job.log
    check_whole(job, results, undisturbed)
