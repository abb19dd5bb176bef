"""A real cluster in token mode: nodes that see something else, that drain, that join late, and that die."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from storage.remote.cache import FOLDER_VARIABLE, Cache
from storage.remote.uploading import upload
from sweeps.service.run.worker import run_trial
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.counted import duplicates, steps
from tests.helpers.object_stores import CREDENTIALS, S3Server
from tests.helpers.ray_nodes import members, ray_node
from tests.helpers.services import free_port, need
from tests.sweeps import small

pytestmark = [pytest.mark.service, pytest.mark.xdist_group("nodes"), pytest.mark.repeated(ci=1, soak=20)]

EPOCHS = 40
UNSHARE = ("unshare", "--mount", "--propagation", "private")


@dataclass(frozen=True)
class Cluster:
    """A head of one core, to which nodes of one core are added.

    Attributes:
        folder: contains `store` and `results`, and in `other` what an added node sees there instead.
        head: address of the head.
        environment: variables of a driver.
        variables: variables of a node.
    """

    folder: Path
    head: str
    environment: dict[str, str]
    variables: dict[str, str]

    @contextlib.contextmanager
    def joined(self, number: int, *hidden: str, gpus: int = 0) -> Iterator[Joined]:
        """A node that sees other files at some places, and offers GPUs that it does not have."""
        address = f"{self.head.rpartition('.')[0]}.{number}"
        mounts = "".join(f"mount --bind {self.folder / 'other' / name} {self.folder / name} && " for name in hidden)
        words = ["--num-cpus=1", f"--num-gpus={gpus}", "--node-ip-address", address]
        words += ["--address", self.environment["RAY_ADDRESS"]]
        inside = [*UNSHARE, "sh", "-c", f'{mounts}exec "$@"', "sh"]
        variables = self.variables | {FOLDER_VARIABLE: str(self.cache(number))}
        with ray_node(words, self.folder / f"{number}.log", variables, *inside) as session:
            yield Joined(address, session)

    def cache(self, number: int) -> Path:
        """Where a node keeps its copies of remote stores; the head is number 2."""
        return self.folder / "caches" / str(number)


@dataclass(frozen=True)
class Joined:
    """A node besides the head.

    Attributes:
        address: its address.
        session: session of its processes.
    """

    address: str
    session: int

    @property
    def raylet(self) -> int:
        """Number of the process that is the node for Ray."""
        (found,) = (process for process in members(self.session) if name(process) == "raylet")
        return found

    def see(self, *words: str | Path) -> None:
        """Mounts or unmounts what the node sees."""
        subprocess.run(["nsenter", f"--mount=/proc/{self.raylet}/ns/mnt", *words], check=True)


@pytest.fixture(scope="module")
def cluster(repetition: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A new cluster for each repetition."""
    need(shutil.which("unshare") and subprocess.run([*UNSHARE, "true"], check=False).returncode == 0, "unshare --mount")
    folder = tmp_path_factory.mktemp("cluster")
    small.make_store(folder / "store")
    small.make_store(folder / "other" / "store", n_train=5)
    for results in (folder / "results", folder / "other" / "results"):
        results.mkdir()
    head = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(200) + 20}.2"
    address = f"{head}:{free_port()}"
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    own = {**token, **CREDENTIALS, FOLDER_VARIABLE: str(folder / "caches" / "2")}
    variables = small.environment(**own, OMP_NUM_THREADS="1", PYTHONPATH=str(small.ROOT))
    start = ["--head", "--num-cpus=1", "--node-ip-address", head, "--include-dashboard=false"]
    temporary = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    start += [f"--port={address.partition(':')[2]}", f"--temp-dir={temporary}"]
    try:
        with ray_node(start, folder / "head.log", variables | HEALTH):
            yield Cluster(folder, head, {**own, "RAY_ADDRESS": address}, variables)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@pytest.fixture(scope="module")
def second(cluster: Cluster) -> Iterator[Joined]:
    """A node that sees another results folder and another store at two places, and offers a GPU without one."""
    with cluster.joined(3, "results", "store", gpus=1) as joined:
        yield joined


@pytest.fixture(scope="module")
def remote_store(tiny_store: Path) -> Iterator[str]:
    """The URI of the tiny store on an S3 server."""
    server = S3Server()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        upload(tiny_store, server.uri("tiny"))
    yield server.uri("tiny")
    server.kill()


HEALTH = {
    f"RAY_health_check_{name}": value
    for name, value in (("period_ms", "1000"), ("timeout_ms", "10000"), ("failure_threshold", "3"))
}
"""Lets the head notice after 3 s that a node is dead, and after half a minute that it is frozen."""


def test_a_node_with_another_results_folder_store_and_version_and_without_its_gpu_is_named_and_nothing_starts(
    cluster: Cluster, second: Joined, tmp_path: Path
) -> None:
    script = small.own_script(tmp_path, "two", {"box": {}, "bell": {"mask.shape": "bell"}})
    store, results = cluster.folder / "store", cluster.folder / "results"
    source = small.ROOT / "sweeps" / "service" / "text.py"
    changed = tmp_path / source.name
    changed.write_text(f"{source.read_text()}\n")
    second.see("mount", "--bind", changed, source)
    try:
        line = small.command(script, store, results, "--device", "auto", "--cpus-per-trial", "1")
        ran = small.run(line, **cluster.environment)
    finally:
        second.see("umount", source)
    assert ran.returncode == 2, ran.stderr
    lines = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert [line.startswith(f"error: node {second.address}: ") for line in lines] == [True] * 4
    assert [str(named) in line for named, line in zip((results, store, "source", "GPU"), lines, strict=True)] == [
        True
    ] * 4
    assert not list(cluster.folder.glob("**/trials"))
    assert not list(results.glob("running/*/sweep-*"))
    assert not list((cluster.folder / "other" / "results").iterdir())


CLIENT = """
    import sys

    from sweeps.service.run.executor.ray_environment import set_ray_environment

    set_ray_environment()
    import ray
    from ray._raylet import GcsClient
    from ray.core.generated.autoscaler_pb2 import DRAIN_NODE_REASON_PREEMPTION

    from sweeps.service.run.executor.cluster.preflight import ask
    from sweeps.service.run.executor.ray_session import living_nodes, ray_session
    from sweeps.service.run.preflight import Question

    folder, second = sys.argv[1:]
    with ray_session():
        nodes, question = living_nodes(), Question(results=folder, mark=folder, store=folder)
        others = {name: node for name, node in nodes.items() if name != second}
        ask(others, question, seconds=120)  # they have Python then
        print("ready", flush=True)
        while word := sys.stdin.readline().strip():
            if word == "ask":
                answers = ask(nodes, question, seconds=10)
                print(*(name for name, answer in answers.items() if answer.facts is not None), flush=True)
            if word == "drain":
                server = GcsClient(address=ray.get_runtime_context().gcs_address)
                print(server.drain_node(nodes[second].identity, DRAIN_NODE_REASON_PREEMPTION, "a test", 0), flush=True)
"""
"""For each line `ask` says which nodes answer; for a line `drain` lets the second one drain."""


@pytest.fixture(scope="module")
def client(cluster: Cluster, second: Joined) -> Iterator[Callable[[str], str]]:
    """Tells the client what to do, and returns its answer."""
    program = [sys.executable, "-c", textwrap.dedent(CLIENT), str(cluster.folder), second.address]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = small.environment(**cluster.environment)
    with subprocess.Popen(program, **pipes, text=True, bufsize=1, env=environment, cwd=small.ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        def tell(word: str) -> str:
            process.stdin.write(f"{word}\n")
            return process.stdout.readline().strip()

        try:
            yield tell
        finally:
            process.kill()


def test_a_frozen_node_is_the_one_that_does_not_answer(
    cluster: Cluster, second: Joined, client: Callable[[str], str]
) -> None:
    frozen = members(second.session)
    for process in frozen:
        os.kill(process, signal.SIGSTOP)
    try:
        assert client("ask") == cluster.head
    finally:
        for process in frozen:
            os.kill(process, signal.SIGCONT)


def test_trials_of_nodes_that_drain_join_late_and_die_and_of_killed_processes_are_trained_once_from_copies(
    cluster: Cluster,
    second: Joined,
    client: Callable[[str], str],
    tiny_store: Path,
    remote_store: str,
    tmp_path: Path,
) -> None:
    results, log, database = cluster.folder / "results", tmp_path / "log", tmp_path / "mlflow.db"
    script = small.own_script(tmp_path, "moved", {"box": {}, "bell": {"mask.shape": "bell"}})
    line = small.command(script, tiny_store, results, "--set", f"training.epochs={EPOCHS}")
    line[line.index("--tracking-uri") + 1] = f"sqlite:///{database}"
    line[line.index(str(tiny_store))] = remote_store
    second.see("umount", results)
    with small.started(line, log, **cluster.environment) as driver:
        small.wait_until(lambda: len(begun(results)) == 2)
        (elsewhere,) = set(begun(results)) & set(members(second.session))
        (here,) = set(begun(results)) - {elsewhere}
        raylet = second.raylet
        assert client("drain")  # the second node drains
        os.kill(here, signal.SIGTERM)
        small.wait_until(lambda: all(len(states) >= 2 for states in small.statuses(results).values()))
        small.wait_until(lambda: not Path(f"/proc/{raylet}").exists() or name(raylet) == "")
        small.wait_until(lambda: len(begun(results)) == 3)
        (third,) = set(begun(results)) - {elsewhere, here}
        os.kill(third, signal.SIGSTOP)  # the head stays busy until the other node has come and gone
        with cluster.joined(4, "results") as late:
            small.wait_until(lambda: f"node {late.address}: " in log.read_text())
            assert str(results) in log.read_text().partition(f" node {late.address}: ")[2].partition("\n")[0]
            late.see("umount", results)
            small.wait_until(lambda: bool(set(begun(results)) & set(members(late.session))))
            (fourth,) = set(begun(results)) & set(members(late.session))
        os.kill(third, signal.SIGCONT)
        small.wait_until(lambda: ran_on(results, fourth)[-1] != fourth, 240)
        os.kill(driver.pid, signal.SIGKILL)
    assert all(states[:2] == ["running", "stopped"] for states in small.statuses(results).values())
    again = small.run(line, **cluster.environment)
    assert again.returncode == 0, again.stderr
    assert not list((cluster.folder / "other" / "results").iterdir())
    check(results, tiny_store, "box", "bell")
    copies = [copy for number in (2, 3, 4) for copy in Cache(cluster.cache(number), 0).stores()]
    assert [(copy.is_complete, copy.addresses) for copy in copies] == [(True, (remote_store,))] * 3
    assert duplicates(database) == 0
    assert list(steps(database, "train/loss/total").values()) == [list(range(1, EPOCHS + 1))] * 2


def ran_on(results: Path, process: int) -> list[int]:
    """The processes that began the trial that a process ran, in their order."""
    every = [
        [record["pid"] for record in records if record.get("status") == "running"]
        for records in small.journals(results).values()
    ]
    (found,) = (processes for processes in every if process in processes)
    return found


def begun(results: Path) -> list[int]:
    """Numbers of the processes in which a training has finished an epoch."""
    found = []
    for records in small.journals(results).values():
        process = 0
        for record in records:
            if record.get("status") == "running":
                process = record["pid"]
            elif record["kind"] == "epoch" and process not in found:
                found.append(process)
    return found


def check(results: Path, store: Path, *shapes: str) -> None:
    """Each epoch has one record, no trial has failed, and the weights are those of trials that run alone."""
    assert list(small.epochs(results).values()) == [list(range(1, EPOCHS + 1))] * len(shapes)
    assert not [states for states in small.statuses(results).values() if "failed" in states]
    alone = results.parent / "alone"
    for shape in shapes:
        trial = small.make_trial(store, mask__shape=shape, training__epochs=EPOCHS)
        assert run_trial(trial, ResultsFolder(alone), device="cpu").state is State.FINISHED
    assert small.weights(results) == small.weights(alone)


def name(process: int) -> str:
    """The name of a process's program; empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return ""
