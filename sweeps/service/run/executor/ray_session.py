"""Connects to a Ray cluster or starts a local Ray."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import ray


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a Ray cluster.

    Attributes:
        identity: Ray's identity of the node.
        offers: (CPUs, GPUs) that Ray gives to trials there.
    """

    identity: str
    offers: tuple[float, float]


def living_nodes() -> dict[str, Node]:
    """The living nodes of the connected cluster, by address; nodes of one address also have their identity there."""
    living = [node for node in ray.nodes() if node["Alive"]]
    addresses = [node["NodeManagerAddress"] for node in living]
    return {
        address if addresses.count(address) == 1 else f"{address} ({node['NodeID'][:8]})": Node(
            node["NodeID"], (node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0))
        )
        for node, address in zip(living, addresses, strict=True)
    }


@contextmanager
def ray_session(folder: str | None = None, cpus: int | None = None) -> Iterator[dict[str, tuple[float, float]]]:
    """Connects to the Ray of RAY_ADDRESS or starts a local one; yields (CPUs, GPUs) of each node.

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
        ray.init(
            address="local",
            _temp_dir=folder,
            num_cpus=cpus,
            object_store_memory=100 * 2**20,  # trials pass nothing through Ray's object store
            include_dashboard=False,
            **quiet,
        )
    try:
        yield {name: node.offers for name, node in living_nodes().items()}
    finally:
        ray.shutdown()
