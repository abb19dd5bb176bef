"""`ray up` for real: hosts on this machine, ssh between them, the cluster file as a user edits it, tokens on."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray._private.utils import get_num_cpus

from sweeps.service.run.worker import run_trial
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.hosts import RAY, STARTS, Hosts
from tests.helpers.services import wait_until
from tests.sweeps import small

pytestmark = pytest.mark.service

FILE = small.ROOT / "sweeps" / "clusters" / "local.yaml"
HEAD, WORKER = 1, 2
EPOCHS = 30
EDITS = {
    "head_ip: 192.168.1.10 ": f"head_ip: 10.77.0.{HEAD} ",
    "worker_ips: [192.168.1.11, 192.168.1.12]": f"worker_ips: [10.77.0.{WORKER}]",
    "ssh_user: me": "ssh_user: root",
    "/shared/mucon/.venv/bin": str(Path(sys.executable).parent),
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    hosts = Hosts(tmp_path_factory.mktemp("hosts"), 2)
    try:
        yield hosts
    finally:
        hosts.end()


def edited() -> str:
    """The cluster file with the values of the hosts in the lines that a user edits."""
    lines = FILE.read_text().splitlines()
    for before, after in EDITS.items():
        (number,) = (i for i, line in enumerate(lines) if before in line and "# edit" in line)
        lines[number] = lines[number].replace(before, after)
    return "\n".join(lines)


def test_a_cluster_over_ssh_runs_a_sweep_loses_a_worker_and_goes_down(hosts: Hosts) -> None:
    shared, results, log = hosts.shared, hosts.shared / "results", hosts.shared / "log"
    store, rows = small.make_store(shared / "store"), {shape: {"mask.shape": shape} for shape in ("box", "bell")}
    (shared / "cluster.yaml").write_text(edited())

    hosts.succeed(RAY, "get-auth-token", "--generate")
    for _ in range(STARTS):
        up = hosts.succeed(RAY, "up", "--yes", "cluster.yaml", attempts=STARTS)
        assert "stats collection is disabled." in up, "Ray says so on the head"
        with contextlib.suppress(TimeoutError):
            wait_until(
                lambda: (
                    hosts.ssh(WORKER, "pgrep -x raylet").returncode == 0
                    and "2 local.cluster.node" in hosts.exec("ray status").stdout
                ),
                120,
                "the start of the worker",
                pause=1,
            )
            break

    line = small.command(small.own_script(shared, "moved", rows), Path("/mnt/store"), Path("/mnt/results"))
    line = [*small.untracked(line), "--address", "auto", "--cpus-per-trial", str(get_num_cpus())]
    sweep = shlex.join([*line, "--set", f"training.epochs={EPOCHS}"]).replace(str(shared), "/mnt")
    with hosts.started(RAY, "exec", "cluster.yaml", sweep, log=log) as driver:
        wait_until(
            lambda: sum(map(bool, small.epochs(results).values())) == 2 or driver.poll() is not None,
            300,
            "the start of all trials",
        )
        assert hosts.ssh(WORKER, "pkill -KILL raylet").returncode == 0, log.read_text()
        assert driver.wait(300) == 0, log.read_text()
    assert list(small.epochs(results).values()) == [list(range(1, EPOCHS + 1))] * 2
    assert max(map(len, small.statuses(results).values())) == 3, "a trial ran on both hosts"
    for shape in rows:
        trial = small.make_trial(store, mask__shape=shape, training__epochs=EPOCHS)
        assert run_trial(trial, ResultsFolder(shared / "alone"), device="cpu").state is State.FINISHED
        assert small.weights(results)[trial.identity] == small.weights(shared / "alone")[trial.identity]

    hosts.succeed(RAY, "down", "--yes", "cluster.yaml")
    hosts.ssh(WORKER, ". ~/.mucon-cluster && ray stop")  # `ray down` leaves workers
    for host in (HEAD, WORKER):
        assert hosts.ssh(host, "pgrep -x 'raylet|gcs_server'").returncode == 1, f"Ray runs on host {host}"
