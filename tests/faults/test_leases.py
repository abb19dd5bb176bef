"""Two writers of one trial: frozen ones that thaw, containers, machines whose clocks differ, a full disk."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweeps.service.run.worker import run_trial
from sweeps.service.trials import lease
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.services import need
from tests.sweeps import small

LEASE = 3.0
"""Seconds: long enough for a process that a loaded machine rarely runs."""
WORKERS = """
    import os, pathlib, signal, sys
    import mucon.inference.predictor, mucon.training.mucon_learner, numba, scipy.special, scipy.sparse
    from mucon import checkpoint_files
    from sweeps.service.run.worker import run_trial
    from sweeps.service.trials.results_folder import ResultsFolder
    from tests.sweeps import small

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        store, results, failpoint, exchange = line.split()
        if os.fork():
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        print(os.getpid(), flush=True)
        os.environ["MUCON_FAILPOINT"] = failpoint
        if exchange == "no":  # as on NFS
            checkpoint_files.exchange = lambda first, second: False
        trial, folder = small.make_trial(pathlib.Path(store)), ResultsFolder(pathlib.Path(results))
        print(run_trial(trial, folder, device="cpu", lease_duration={lease}, checkpoint_seconds=0).state, flush=True)
        os._exit(0)
"""
"""Forks a worker for each line, so that torch is imported once."""
MOMENTS = (
    ("training.epoch:1:stop", "yes"),  # behind the record of an epoch, before its checkpoint
    ("checkpoint.weights:2:stop", "yes"),  # within a checkpoint
    ("fence.checkpoint:1:stop", "yes"),  # between the look at the lease and the rename of the first one
    ("fence.checkpoint:2:stop", "yes"),  # and of the second one
    ("fence.checkpoint:2:stop", "no"),
    ("checkpoint.between:1:stop", "no"),  # between the two renames
    ("fence.journal.jsonl:5:stop", "yes"),  # between the look at the lease and the record of the second epoch
    ("fence.training.json:1:stop", "yes"),
    ("fence.full.json:1:stop", "yes"),  # of the predictions
    ("sweeps.worker.evaluated:1:stop", "yes"),  # before the result
    ("fence.result.json:1:stop", "yes"),
)


@dataclass(frozen=True)
class Frozen:
    """A worker that is frozen, and the results folder of its trial."""

    pid: int
    results: ResultsFolder


@pytest.fixture(scope="module")
def workers() -> "Iterator[subprocess.Popen[str]]":
    with running([sys.executable, "-c", textwrap.dedent(WORKERS).format(lease=LEASE)]) as process:
        yield process


@pytest.fixture(scope="module")
def frozen(
    workers: "subprocess.Popen[str]", tiny_store: Path, tmp_path_factory: pytest.TempPathFactory, repetition: int
) -> dict[tuple[str, str], Frozen]:
    """A worker of this repetition that is frozen at each moment; their leases expire while the others are started."""
    begun = {}
    for failpoint, exchange in MOMENTS:
        results = tmp_path_factory.mktemp("results")
        print(tiny_store, results, failpoint, exchange, file=workers.stdin)
        pid = int(said(workers))
        small.wait_until(lambda pid=pid: state_of(pid) == "T")
        begun[failpoint, exchange] = Frozen(pid, ResultsFolder(results))
    return begun


@pytest.fixture(scope="module")
def undisturbed(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("undisturbed")
    assert run_trial(small.make_trial(tiny_store), ResultsFolder(results), device="cpu").state is State.FINISHED
    return results


@contextmanager
def running(line: list[str]) -> "Iterator[subprocess.Popen[str]]":
    """A process with pipes and a group of its own, which is killed at the end."""
    with subprocess.Popen(
        line,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=small.ROOT,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def state_of(pid: int) -> str:
    """Letter of the process's state, such as T for a frozen one."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def content(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file, leases included: digest and time of its last change."""
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.repeated(ci=1, soak=20)
@pytest.mark.xdist_group("frozen")  # one process freezes the workers of all moments
@pytest.mark.parametrize("moment", MOMENTS, ids=[f"{name[:-5]} {exchange}" for name, exchange in MOMENTS])
def test_a_writer_that_thaws_after_its_lease_writes_not_one_byte_more(
    moment: tuple[str, str],
    frozen: dict[tuple[str, str], Frozen],
    workers: "subprocess.Popen[str]",
    tiny_store: Path,
    undisturbed: Path,
) -> None:
    worker, trial = frozen[moment], small.make_trial(tiny_store)
    successor = run_trial(trial, worker.results, device="cpu", lease_duration=LEASE, checkpoint_seconds=0)
    assert successor.state is State.FINISHED
    before = content(worker.results.path)
    os.kill(worker.pid, signal.SIGCONT)
    assert said(workers) == "lost"
    assert content(worker.results.path) == before
    assert small.weights(worker.results.path) == small.weights(undisturbed)
    assert small.epochs(worker.results.path) == small.epochs(undisturbed)
    assert small.statuses(worker.results.path)[trial.identity][-1] == "finished"


def test_a_trial_that_was_copied_without_its_leases_resumes(
    tiny_store: Path, tmp_path: Path, undisturbed: Path
) -> None:
    """Its checkpoint is of a later writer than the first one here."""
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    folder = results.trial(trial.identity)
    for _ in range(3):
        run_trial(trial, results, device="cpu", should_stop=iter([False] * 3 + [True] * 9).__next__)
    for path in folder.path.glob("lease-*"):
        path.unlink()
    assert run_trial(trial, results, device="cpu").state is State.FINISHED
    assert small.weights(tmp_path) == small.weights(undisturbed)
    state = json.loads((folder.checkpoint_path / "state.json").read_text())
    assert state["writer"] == 4


HOLDER = """
    import pathlib, sys, time
    from sweeps.service.trials import lease
    folder, duration, ahead, elsewhere = sys.argv[1:]
    clock = time.time
    time.time = lambda: clock() + float(ahead)
    if elsewhere == "yes":
        lease.machine = lambda: "another machine"
    held = lease.acquire(pathlib.Path(folder), duration=float(duration))
    print("held" if held else "refused", flush=True)
    time.sleep(60)
"""


def holder(folder: Path, *before: str, duration: float = LEASE, ahead: int = 0, elsewhere: str = "no") -> list[str]:
    """The command line of a process that asks for a lease and holds it for a minute.

    Args:
        folder: the folder.
        before: words in front of it.
        duration: of the lease, in seconds.
        ahead: seconds by which its clock is ahead of this process's.
        elsewhere: whether it is on another machine as far as others can tell.
    """
    return [*before, sys.executable, "-c", textwrap.dedent(HOLDER), str(folder), str(duration), str(ahead), elsewhere]


@pytest.mark.repeated(ci=1, soak=20)
@pytest.mark.parametrize("ahead", [60, -60])
def test_clocks_that_differ_neither_steal_a_living_lease_nor_keep_a_dead_one(
    tmp_path: Path, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() - ahead)
    with running(holder(tmp_path, ahead=ahead, elsewhere="yes")) as process:
        assert said(process) == "held"
        until = time.monotonic() + 1.5 * LEASE
        while time.monotonic() < until:
            assert lease.holder(tmp_path) is not None
            assert lease.acquire(tmp_path) is None
            time.sleep(0.1)
    assert lease.acquire(tmp_path) is None, "nobody knows yet that it has died"
    small.wait_until(lambda: lease.holder(tmp_path) is None, 10 * LEASE)
    (lease.acquire(tmp_path) or pytest.fail("expired")).release()


def planted(folder: Path, *, changed: float, expires: float, **more: object) -> None:
    """Writes the lease of a process on another machine that has died; `changed` is the file's time."""
    value = {
        "token": "a",
        "host": "elsewhere",
        "pid": 1,
        "process_start": 1,
        "expires": expires,
        "machine": "b",
        **more,
    }
    path = folder / "lease-00000001.json"
    path.write_text(json.dumps(value))
    os.utime(path, (changed, changed))


def test_the_time_in_a_lease_is_compared_with_no_clock(tmp_path: Path) -> None:
    now = time.time()
    planted(tmp_path, changed=now, expires=now - 3600)
    assert lease.holder(tmp_path) is not None
    assert lease.acquire(tmp_path) is None
    planted(tmp_path, changed=now - 60, expires=now + 3600)
    assert lease.holder(tmp_path) is None
    (lease.acquire(tmp_path) or pytest.fail("expired")).release()


def test_a_dead_lease_whose_file_is_newer_than_now_is_free_for_who_waits(tmp_path: Path) -> None:
    """The clock of the file server was set back."""
    planted(tmp_path, changed=time.time() + 3600, expires=time.time() + 3600, duration=0.5)
    assert lease.holder(tmp_path) is not None
    assert lease.acquire(tmp_path) is None
    begun = time.monotonic()
    assert lease.acquire_when_free(tmp_path, give_up=lambda: True) is None
    held = lease.acquire_when_free(tmp_path, give_up=lambda: time.monotonic() > begun + 60)
    (held or pytest.fail("unchanged for longer than its duration")).release()


@pytest.mark.repeated(ci=1, soak=20)
def test_containers_with_one_host_name_and_their_own_process_numbers_respect_each_other(tmp_path: Path) -> None:
    container = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
    allowed = subprocess.run([*container, "true"], capture_output=True, check=False).returncode == 0
    need(allowed, "the permission to make namespaces (unshare)")
    here, there = tmp_path / "here", tmp_path / "there"
    with lease.acquire(here) or pytest.fail("free"), running(holder(here, *container)) as process:
        assert said(process) == "refused"
    with running(holder(there, *container)) as process:
        assert said(process) == "held"
        seen = lease.holder(there)
        assert seen is not None
        assert seen.pid == 1, "in its own numbers; here, process 1 is another one"
        assert lease.acquire(there) is None
    held = lease.acquire_when_free(there)
    (held or pytest.fail("its process has died")).release()


FULL = """
    import pathlib, resource, signal, sys, time
    from sweeps.service.trials import lease
    held = lease.acquire(pathlib.Path(sys.argv[1]), duration=1.5)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))
    time.sleep(3)
    held.confirm()
    held.release()
    print("released")
"""


def test_a_lease_is_renewed_and_released_on_a_full_disk(tmp_path: Path) -> None:
    line = [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path)]
    ran = subprocess.run(line, capture_output=True, text=True, check=True, cwd=small.ROOT)
    assert ran.stdout.strip() == "released"
    assert list(tmp_path.iterdir()) == []
    (lease.acquire(tmp_path) or pytest.fail("free")).release()
