"""Connects to a Ray cluster or starts a local Ray."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

import ray
from ray._private.node import Node as RayNode
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # not in its stub

from sweeps.service.run.executor.cluster.nodes import Node

ANSWER_SECONDS = 5.0
"""Time limit for an answer."""
UNUSED = ("start_api_server", "start_monitor", "start_log_monitor")
"""Methods of Ray's node that start the dashboard, the autoscaler and the reader of logs, which a sweep does not use."""


@cache
def _client(address: str) -> GcsClient:
    return GcsClient(address=address)


def gcs_client() -> GcsClient:
    """A client of the connected cluster's server, whose questions have a time limit."""
    return _client(ray.get_runtime_context().gcs_address)


def draining_nodes() -> set[str]:
    """Identities of the nodes of the connected cluster on which Ray starts nothing more, as they will be taken away."""
    with suppress(Exception):  # Ray does not respond; the next question may be answered
        return set(gcs_client().get_draining_nodes(timeout=ANSWER_SECONDS))
    return set()


def living_nodes() -> dict[str, Node]:
    """The nodes of the connected cluster that live and do not drain, by address; equal addresses with the identity."""
    draining = draining_nodes()
    living = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] not in draining]
    addresses = [node["NodeManagerAddress"] for node in living]
    return {
        address if addresses.count(address) == 1 else f"{address} ({node['NodeID'][:8]})": Node(
            node["NodeID"], (node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0))
        )
        for node, address in zip(living, addresses, strict=True)
    }


def _start_nothing(node: RayNode, **options: object) -> None:
    """Takes the place of `UNUSED`."""


@contextmanager
def ray_session(folder: str | None = None, cpus: int | None = None) -> Iterator[None]:
    """Connects to the Ray of RAY_ADDRESS or starts a local one.

    Args:
        folder: where a local Ray keeps its files; default: its own choice.
        cpus: cores of a local Ray.
    """
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    address = os.environ.get("RAY_ADDRESS")
    if address:
        ray.init(address=address, **quiet)
    else:
        # with the packages of ray[default], the agent of the dashboard would open two ports that nobody needs here
        sys.modules.setdefault("ray.dashboard.optional_deps", None)  # type: ignore[arg-type]
        for name in UNUSED:
            setattr(RayNode, name, _start_nothing)
        ray.init(
            address="local",
            _temp_dir=folder,
            num_cpus=cpus,
            object_store_memory=100 * 2**20,  # trials pass nothing through Ray's object store
            include_dashboard=False,
            **quiet,
        )
    try:
        yield
    finally:
        ray.shutdown()
