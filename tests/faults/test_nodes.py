"""A real cluster of two nodes in token mode; the second one sees another results folder and another store."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweeps.service.run.worker import run_trial
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.services import free_port, need, wait_until
from tests.sweeps import small

pytestmark = [pytest.mark.service, pytest.mark.xdist_group("nodes")]

RAY = Path(sys.executable).with_name("ray")
EPOCHS = 30
UNSHARE = ("unshare", "--mount", "--propagation", "private")


@dataclass(frozen=True)
class Cluster:
    """Two nodes of one core.

    Attributes:
        folder: contains `store` and `results`, which the second node sees as `other` and `elsewhere`.
        second: address of the second node.
        environment: variables of a driver.
        session: session of the second node's processes.
    """

    folder: Path
    second: str
    environment: dict[str, str]
    session: int


def processes(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                found.append(int(stat.parent.name))
    return found


def end(session: int) -> None:
    """Kills all processes of a session."""

    def killed() -> bool:
        for process in processes(session):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return not processes(session)

    wait_until(killed, 30, "the end of a node")


@contextlib.contextmanager
def node(words: list[str], log: Path, environment: dict[str, str]) -> Iterator[int]:
    """A node in a session of its own, whose number is the value; it has started when the block begins."""
    with log.open("wb") as file:
        started = subprocess.Popen(words, stdout=file, stderr=file, env=environment, start_new_session=True)
    try:
        assert started.wait(120) == 0, log.read_text()
        yield started.pid
    finally:
        end(started.pid)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need(shutil.which("unshare") and subprocess.run([*UNSHARE, "true"], check=False).returncode == 0, "unshare --mount")
    folder = tmp_path_factory.mktemp("cluster")
    small.make_store(folder / "store")
    small.make_store(folder / "other", n_train=5)
    for name in ("results", "elsewhere"):
        (folder / name).mkdir()
    first, second = (f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(200) + 20}.{i}" for i in (2, 3))
    address = f"{first}:{free_port()}"
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    environment = small.environment(**token, OMP_NUM_THREADS="1", PYTHONPATH=str(small.ROOT))
    start = [str(RAY), "start", "--num-cpus=1", "--node-ip-address"]
    temporary = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    head = [*start, first, "--head", f"--port={address.partition(':')[2]}", "--include-dashboard=false"]
    hidden = " && ".join(f"mount --bind {folder}/{there} {folder}/{here}" for here, there in PAIRS)
    joining = [*UNSHARE, "sh", "-c", f'{hidden} && exec "$@"', "sh", *start, second, f"--address={address}"]
    try:
        with (
            node([*head, f"--temp-dir={temporary}"], folder / "head.log", environment),
            node(joining, folder / "second.log", environment) as session,
        ):
            yield Cluster(folder, second, {**token, "RAY_ADDRESS": address}, session)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


PAIRS = (("results", "elsewhere"), ("store", "other"))


def test_a_node_that_sees_another_results_folder_and_another_store_is_named_and_nothing_starts(
    cluster: Cluster, tmp_path: Path
) -> None:
    script = small.own_script(tmp_path, "two", {"box": {}, "bell": {"mask.shape": "bell"}})
    store, results = cluster.folder / "store", cluster.folder / "results"
    ran = small.run(small.command(script, store, results), **cluster.environment)
    assert ran.returncode == 2, ran.stderr
    lines = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert [line.startswith(f"error: node {cluster.second}: ") for line in lines] == [True, True]
    assert [str(path) in line for path, line in zip((results, store), lines, strict=True)] == [True, True]
    assert not list(cluster.folder.glob("*/trials"))
    assert not list(results.glob("running/*/sweep-*"))
    assert not list((cluster.folder / "elsewhere").iterdir())


FROZEN = """
    import sys

    from sweeps.service.run.executor.ray_environment import set_ray_environment

    set_ray_environment()
    from sweeps.service.run.executor.cluster.preflight import ask
    from sweeps.service.run.executor.ray_session import living_nodes, ray_session
    from sweeps.service.run.preflight import Question

    folder, frozen = sys.argv[1:]
    with ray_session():
        nodes, question = living_nodes(), Question(results=folder, mark=folder, store=folder)
        ask({name: node for name, node in nodes.items() if name != frozen}, question, seconds=120)  # has Python then
        for name, answer in ask(nodes, question, seconds=10).items():
            print(name, answer.facts is not None, flush=True)
"""


def test_a_frozen_node_is_the_one_that_does_not_answer(cluster: Cluster, tmp_path: Path) -> None:
    frozen = processes(cluster.session)
    for process in frozen:
        os.kill(process, signal.SIGSTOP)
    program = [sys.executable, "-c", textwrap.dedent(FROZEN), str(tmp_path), cluster.second]
    try:
        ran = small.run(program, **cluster.environment)
    finally:
        for process in frozen:
            os.kill(process, signal.SIGCONT)
    assert ran.returncode == 0, ran.stderr
    answered = dict(map(str.split, ran.stdout.splitlines()))
    assert answered.pop(cluster.second) == "False", json.dumps(answered)
    assert list(answered.values()) == ["True"]


def test_trials_of_a_node_that_dies_resume_on_the_other_one(cluster: Cluster, tiny_store: Path, tmp_path: Path) -> None:
    """The last test of the cluster, which has one node afterwards."""
    results, log = tmp_path / "results", tmp_path / "log"
    rows = {shape: {"mask.shape": shape} for shape in ("box", "bell", "trapezoid")}
    line = small.command(small.own_script(tmp_path, "moved", rows), tiny_store, results)
    line += ["--set", f"training.epochs={EPOCHS}", "--max-concurrent", "2", "--tracking", "off"]
    at = line.index("--tracking-uri")
    with small.started([*line[:at], *line[at + 2 :]], log, **cluster.environment) as driver:
        small.wait_until(lambda: sum(bool(done) for done in small.epochs(results).values()) == 2)
        (raylet,) = (process for process in processes(cluster.session) if name(process) == "raylet")
        os.kill(raylet, signal.SIGKILL)
        assert driver.wait(240) == 0, log.read_text()
    assert list(small.epochs(results).values()) == [list(range(1, EPOCHS + 1))] * 3
    assert sorted(map(len, small.statuses(results).values())) == [2, 2, 3], "one trial ran on both nodes"
    for shape in rows:
        trial = small.make_trial(tiny_store, mask__shape=shape, training__epochs=EPOCHS)
        assert run_trial(trial, ResultsFolder(tmp_path / "alone"), device="cpu").state is State.FINISHED
        assert small.weights(results)[trial.identity] == small.weights(tmp_path / "alone")[trial.identity]


def name(process: int) -> str:
    """The name of a process's program; empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return ""
