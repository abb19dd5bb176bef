"""A cluster of separate services, natively: PostgreSQL, MLflow, a Ray head with its dashboard, and two workers."""

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
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from sweeps.service.run.executor.cluster.address import PLACE, VARIABLE, check_cluster, use_address
from tests.helpers.ray_nodes import ray_node, session
from tests.helpers.refusals import refused
from tests.helpers.services import MLflowServer, PostgreSQL, free_port, need
from tests.sweeps import small

pytestmark = [pytest.mark.service, pytest.mark.xdist_group("mlflow"), pytest.mark.repeated(ci=1, soak=20)]

EPOCHS = 120
SECRET = "a-password-of-this-machine"
STATUSES = (
    "select runs.status from runs join tags using (run_uuid) where lifecycle_stage = 'active' and"
    " (tags.key = 'trial' and tags.value in ({identities}) or tags.key = 'sweep' and tags.value = '{sweep}')"
)
STEPS = (
    "select tags.value, step from metrics join tags using (run_uuid)"
    " where tags.key = 'trial' and tags.value in ({identities}) and metrics.key = 'train/loss/total'"
)


@dataclass(frozen=True)
class Cluster:
    """A head without cores for trials, and two workers of one core.

    Attributes:
        address: of the control store.
        dashboard: of the dashboard.
        environment: variables of a client.
        workers: sessions of the workers.
    """

    address: str
    dashboard: str
    environment: dict[str, str]
    workers: tuple[int, ...]


@pytest.fixture(scope="module")
def cluster(repetition: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A new cluster for each repetition."""
    need(_has_jobs(), "ray[default]")
    folder, temporary = tmp_path_factory.mktemp("services"), tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    head, *workers = (f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(200) + 20}.{i}" for i in (2, 3, 4))
    address, port = f"{head}:{free_port()}", free_port()
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = small.environment(**token, PATH=path, OMP_NUM_THREADS="1", PYTHONPATH=str(small.ROOT))

    def words(host: str, *more: str) -> list[str]:
        return [f"--node-ip-address={host}", f"--dashboard-agent-listen-port={free_port()}", *more]

    opened = [f"--port={address.partition(':')[2]}", f"--dashboard-host={head}", f"--dashboard-port={port}"]
    ports = [*opened, "--include-dashboard=true", f"--temp-dir={temporary}", f"--ray-client-server-port={free_port()}"]
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, temporary, ignore_errors=True)
        stack.enter_context(ray_node(words(head, "--head", "--num-cpus=0", *ports), folder / "head.log", environment))
        sessions = [
            stack.enter_context(
                ray_node(words(host, f"--address={address}", "--num-cpus=1"), folder / f"{host}.log", environment)
            )
            for host in workers
        ]
        yield Cluster(address, f"http://{head}:{port}", {**token, "PATH": path}, tuple(sessions))


def _has_jobs() -> bool:
    program = "from ray._private.utils import get_dashboard_dependency_error as e; raise SystemExit(e() is not None)"
    return subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_cluster_with_another_token_or_other_versions_is_refused_before_ray_connects(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (VARIABLE, *cluster.environment):
        monkeypatch.delenv(name, raising=False)
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(VARIABLE, cluster.address)
    use_address("auto")
    check_cluster()
    assert os.environ[VARIABLE] == cluster.address
    with other_versions(cluster), refused("version", place=PLACE, value=cluster.address, n=1):
        check_cluster()
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with refused("unreachable", place=PLACE, value=cluster.address, n=1):
        check_cluster()


SET_VERSIONS = """
import json, sys
from ray._raylet import GcsClient
client = GcsClient(address=sys.argv[1])
before = json.loads(client.internal_kv_get(b"CLUSTER_METADATA", b"cluster"))
after = json.dumps({**before, **json.loads(sys.argv[2])})
client.internal_kv_put(b"CLUSTER_METADATA", after.encode(), True, b"cluster")
print(json.dumps(before))
"""


@contextlib.contextmanager
def other_versions(cluster: Cluster) -> Iterator[None]:
    """The cluster says that it runs an older Ray."""

    def put(values: dict[str, str]) -> dict[str, str]:
        line = [sys.executable, "-c", SET_VERSIONS, cluster.address, json.dumps(values)]
        return dict(json.loads(small.run(line, **cluster.environment).stdout.splitlines()[-1]))

    before = put({"ray_version": "2.54.0"})
    yield
    put(before)


def test_a_sweep_that_is_sent_survives_its_sender_its_services_and_a_stop_and_trains_every_epoch_once(
    cluster: Cluster,
    postgresql: PostgreSQL,
    mlflow_server: MLflowServer,
    tiny_store: Path,
    tmp_path: Path,
    repetition: int,
) -> None:
    results, rows = tmp_path / "results", {shape: {"mask.shape": shape} for shape in ("box", "bell")}
    sweep, epochs = f"sent_{repetition}", EPOCHS + repetition  # other trials than before on the same server
    line = small.command(small.own_script(tmp_path, sweep, rows), tiny_store, results)
    at = line.index("--tracking-uri")
    line = [*line[:at], *line[at + 2 :], "--submit", cluster.dashboard, "--set", f"training.epochs={epochs}"]
    variables = {**cluster.environment, "MLFLOW_TRACKING_URI": mlflow_server.uri, "MLFLOW_TRACKING_PASSWORD": SECRET}

    sent = small.run([*line, "--detach"], **variables)
    assert sent.returncode == 0, sent.stderr
    (job,) = jobs(cluster)
    assert job["submission_id"] in sent.stdout
    assert "MLFLOW_TRACKING_PASSWORD" in sent.stdout
    assert SECRET not in json.dumps(job)

    def both_train() -> bool:
        (job,) = jobs(cluster)
        assert job["status"] in ("PENDING", "RUNNING"), job["message"]
        return sum(bool(done) for done in small.epochs(results).values()) == 2

    small.wait_until(both_train, 240)
    assert sorted(map(session, running(results))) == sorted(cluster.workers), "both workers train"

    with small.started(line, tmp_path / "followed", **variables) as follower:  # the same sweep: nothing starts
        small.wait_until(lambda: "Running entrypoint" in (tmp_path / "followed").read_text(), 240)
        os.kill(follower.pid, signal.SIGINT)
        assert follower.wait(120) == 130
    assert len(jobs(cluster)) == 1
    other = small.run([*line, "--max-concurrent", "1"], **variables)
    assert (other.returncode, other.stderr.startswith("error: --submit: ")) == (2, True), other.stderr

    stopped = small.run([*MUCON_SWEEPS, "stop", sweep, "--cluster", cluster.dashboard], **variables)
    assert stopped.returncode == 0, stopped.stderr
    small.wait_until(lambda: jobs(cluster)[0]["status"] == "STOPPED", 120)
    small.wait_until(lambda: not any(map(session, running(results))), 60)
    before = {identity: len(done) for identity, done in small.epochs(results).items()}
    assert max(before.values()) < epochs, "the stop came before the end"

    with small.started(line, tmp_path / "again", **variables) as follower:
        small.wait_until(lambda: any(len(done) > before[of] for of, done in small.epochs(results).items()), 240)
        postgresql.stop()
        mlflow_server.stop()
        postgresql.start()
        mlflow_server.start()
        assert follower.wait(300) == 0, (tmp_path / "again").read_text()
    once = {identity: list(range(1, epochs + 1)) for identity in before}
    assert small.epochs(results) == once
    assert steps(postgresql.uri, results) == once
    assert (results / "sweeps" / sweep / f"{sweep}.html").exists()
    assert query(postgresql.uri, STATUSES, results, sweep=sweep) == [("FINISHED",)] * 3


MUCON_SWEEPS = [sys.executable, "-c", "from sweeps.service.cli import main; raise SystemExit(main())"]


def jobs(cluster: Cluster) -> list[dict[str, Any]]:
    """What everybody with the token can read about the jobs of the cluster, the last one first."""
    headers = {"Authorization": f"Bearer {cluster.environment['RAY_AUTH_TOKEN']}"}
    request = urllib.request.Request(f"{cluster.dashboard}/api/jobs/", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = [job for job in json.load(answer) if job["submission_id"]]
    return sorted(found, key=lambda job: job["start_time"], reverse=True)


def running(results: Path) -> list[int]:
    """The processes of the trials in their last attempts."""
    return [
        [record["pid"] for record in records if record["kind"] == "status" and "pid" in record][-1]
        for records in small.journals(results).values()
    ]


def query(uri: str, text: str, results: Path, **names: str) -> list[Any]:
    identities = ", ".join(f"'{identity}'" for identity in small.epochs(results))
    engine = sqlalchemy.create_engine(uri, poolclass=sqlalchemy.pool.NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sqlalchemy.text(text.format(identities=identities, **names)))]


def steps(uri: str, results: Path) -> dict[str, list[int]]:
    """Identity -> sorted steps of all values of one metric."""
    found: dict[str, list[int]] = {}
    for identity, step in sorted(query(uri, STEPS, results)):
        found.setdefault(identity, []).append(step)
    return found
