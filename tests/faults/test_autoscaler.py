"""Ray's autoscaler for real: the cluster file of a cloud, with Ray's stand-in for the cloud that starts nodes here."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID, FAKE_HEAD_NODE_TYPE

from tests.helpers.hosts import RAY, STARTS, Hosts
from tests.helpers.services import wait_until
from tests.sweeps import small

pytestmark = pytest.mark.service

FILE = small.ROOT / "sweeps" / "clusters" / "aws.yaml"
ADDRESS = "10.77.0.254:6379"
EPOCHS = 10
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_autoscaler_v2": "1",
    "RAY_FAKE_CLUSTER": "1",
    "RAY_CLOUD_INSTANCE_ID": FAKE_HEAD_NODE_ID,
    "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID,
    "AUTOSCALER_UPDATE_INTERVAL_S": "1",
}
LACKING = {
    "cluster_name": "fake_multinode",
    "max_workers": 8,
    "provider": {"type": "fake_multinode"},
    "head_node_type": FAKE_HEAD_NODE_TYPE,
    "docker": {},
    "cluster_synced_files": [],
    "file_mounts_sync_continuously": False,
    "rsync_filter": [],
    "initialization_commands": [],
    "worker_setup_commands": [],
    "upscaling_speed": 1.0,
    "available_node_types": {},
}
"""The defaults of the stand-in: a file that Ray's wheel lacks."""


def on_this_machine(config: dict[str, Any]) -> dict[str, Any]:
    """A cloud's cluster file whose nodes are processes here, which need no installation and leave after 12 seconds."""
    types = config["available_node_types"]
    types[FAKE_HEAD_NODE_TYPE] = types.pop(config["head_node_type"])
    for node in types.values():
        node["node_config"] = {}
    types["gpu"] |= {"resources": {"CPU": 1, "object_store_memory": 100 * 2**20}, "max_workers": 2}
    provider = {"type": "fake_multinode", "launch_multiple": True, "head_node_id": FAKE_HEAD_NODE_ID}
    return {
        **LACKING,
        **config,
        "provider": {**provider, "gcs_address": ADDRESS},
        "auth": {"ssh_user": "root", "ssh_private_key": "/etc/hostname"},
        "head_node_type": FAKE_HEAD_NODE_TYPE,
        "idle_timeout_minutes": 0.2,
        "file_mounts": {},
        **{key: [] for key in config if key.endswith("_commands")},
    }


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """A place of its own with the head of a cluster without workers."""
    shared = tmp_path_factory.mktemp("autoscaler")
    (shared / "lacking").mkdir()
    (shared / "lacking" / "example.yaml").write_text(yaml.safe_dump(LACKING))
    (shared / "cluster.yaml").write_text(yaml.safe_dump(on_this_machine(yaml.safe_load(FILE.read_text()))))
    spec = importlib.util.find_spec("ray.autoscaler._private.fake_multi_node")
    assert spec is not None
    (package,) = spec.submodule_search_locations or []
    hosts = Hosts(shared, 0)
    try:
        hosts.succeed("mount", "-t", "overlay", "-o", f"lowerdir=/mnt/lacking:{package}", "none", package)
        hosts.succeed(RAY, "get-auth-token", "--generate")
        options = ("--head", "--num-cpus=0", "--autoscaling-config=cluster.yaml", "--include-dashboard=false")
        hosts.succeed(RAY, "start", *options, attempts=STARTS, **ENVIRONMENT)
        yield hosts
    finally:
        hosts.end()


def workers(head: Hosts) -> int:
    """Number of living workers."""
    status = head.run(RAY, "status", RAY_AUTH_MODE="token").stdout
    living = status.partition("\nPending:")[0]  # active and idle ones
    return sum(map(int, re.findall(r"^ (\d+) gpu$", living, re.MULTILINE)))


def test_workers_appear_for_the_queue_of_a_sweep_and_go_when_it_is_done(head: Hosts) -> None:
    results, log = head.shared / "results", head.shared / "log"
    small.make_store(head.shared / "store")
    rows = {shape: {"mask.shape": shape} for shape in ("box", "bell", "trapezoid")}
    script = small.own_script(head.shared, "queue", rows)
    line = small.command(script, Path("/mnt/store"), Path("/mnt/results"), "--set", f"training.epochs={EPOCHS}")
    line = small.untracked(line)
    line[1] = f"/mnt/{script.name}"
    assert workers(head) == 0
    with head.started("env", "RAY_AUTH_MODE=token", *line, "--address", "auto", log=log) as driver:
        started = "the start of two workers"
        wait_until(lambda: workers(head) == 2 or driver.poll() is not None, 300, started, pause=2)
        assert driver.wait(300) == 0, log.read_text()
    assert list(small.epochs(results).values()) == [list(range(1, EPOCHS + 1))] * len(rows)
    wait_until(lambda: workers(head) == 0, 240, "the end of the workers", pause=2)
