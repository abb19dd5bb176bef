"""Jobs of slurm.sbatch on a stand-in for SLURM that signals and kills them; the sweep is completed by requeued jobs.

The moments are chosen by a seed that pytest prints with the test's name.
"""

from __future__ import annotations

import contextlib
import os
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

EPOCHS = 15
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
def job(tiny_store: Path, tmp_path: Path) -> Iterator[slurm_jobs.Job]:
    need(slurm_jobs.can_run(), "unshare and ip for network namespaces")
    line = small.command(small.own_script(tmp_path, "rows", ROWS), tiny_store, tmp_path / "results")
    line = ["python", *small.untracked(line)[1:], "--set", f"training.epochs={EPOCHS}"]
    with contextlib.closing(slurm_jobs.Job(tmp_path / "job", line)) as submitted:
        yield submitted


def n_epochs(results: Path) -> int:
    return sum(map(len, small.epochs(results).values()))


def check_token(job: slurm_jobs.Job) -> None:
    """The token of a cluster can be read by its user only, and is in no argument of a process and in no output."""
    path = job.files / "token"
    assert path.exists() == (job.n_nodes > 1)
    if path.exists():
        assert [oct(one.stat().st_mode & 0o777) for one in (job.files, path)] == ["0o700", "0o600"]
        token = path.read_bytes()
        assert len(token) == 64
        assert token.decode() not in job.log
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                assert token not in (process / "cmdline").read_bytes(), process


def check_whole(job: slurm_jobs.Job, results: Path, undisturbed: dict[str, str]) -> None:
    """Every trial is finished once, with every epoch once and the bits of an undisturbed one; no file is left over."""
    assert small.weights(results) == undisturbed
    assert small.epochs(results) == {name: list(range(1, EPOCHS + 1)) for name in undisturbed}
    assert [said.count("finished") for said in small.statuses(results).values()] == [1] * len(ROWS)
    assert not job.files.exists()


def expire(*leases: Path) -> None:
    """Lets the leases of a killed job expire, as a later start finds them."""
    for path in leases:
        with contextlib.suppress(FileNotFoundError):
            os.utime(path, (0, 0))


@pytest.mark.repeated(ci=1, soak=20)
def test_a_job_that_reaches_its_limit_or_is_killed_is_requeued_until_its_sweep_is_finished(
    job: slurm_jobs.Job, tmp_path: Path, undisturbed: dict[str, str], repetition: int
) -> None:
    """The number of nodes changes with the start, as `--nodes=1-2` permits."""
    chosen, results = random.Random(repetition), tmp_path / "results"
    faults = [(1, job.kill), (2, job.warn)]
    if repetition:
        faults = [(chosen.choice((1, 2)), fault) for fault in chosen.choices([job.warn, job.kill], k=3)]
    for job.n_nodes, fault in faults:
        known = n_epochs(results)
        job.start()
        if repetition and chosen.random() < 0.5:  # while Ray starts
            small.wait_until(job.files.exists)
            time.sleep(chosen.uniform(1, 12))
        else:
            small.wait_until(lambda known=known: job.has_ended or n_epochs(results) > known, 600)
            time.sleep(chosen.uniform(0, 0.5))
            if not job.has_ended:
                check_token(job)
        fault()
        if fault == job.kill and not repetition:
            expire(job.files / "alive", *results.glob("**/lease-*.json"))
    assert job.requeues or repetition, job.log
    job.n_nodes = chosen.choice((1, 2)) if repetition else 1
    job.start()
    assert job.wait() == 0, job.log
    check_whole(job, results, undisturbed)


@pytest.mark.parametrize(
    ("command", "statuses"),
    [
        ("exit 0", [0]),
        ("exit 2", [2]),
        ("exit 3", [3]),
        ("exit 130", [130]),
        ("kill -KILL $$", [None, None, 137]),
        ("[[ $SLURM_RESTART_COUNT == 2 ]] || kill -KILL $$", [None, None, 0]),
    ],
)
def test_a_sweep_that_ends_by_itself_ends_the_job_and_one_that_dies_is_tried_three_times(
    command: str, statuses: list[int | None], tmp_path: Path
) -> None:
    need(slurm_jobs.can_run(), "unshare and ip for network namespaces")
    with contextlib.closing(slurm_jobs.Job(tmp_path / "job", ["bash", "-c", command])) as job:
        for status in statuses:
            expire(job.files / "alive")
            job.start()
            assert job.wait() == status, job.log
        assert not job.files.exists()
