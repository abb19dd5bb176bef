"""Connects to a Ray cluster or starts a local Ray."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from mucon.device import usable_cpus
from mucon.errors import InputError, Problem
from sweeps.service.run.executor.ray_environment import new_ray_folder


@contextmanager
def ray_session() -> Iterator[dict[str, tuple[float, float]]]:
    """Connects to the Ray of RAY_ADDRESS or starts a local one; yields (CPUs, GPUs) of each node.

    A Ray that this process is already connected to is used and not shut down.
    """
    starts_here = not ray.is_initialized()
    folder = None
    if starts_here:
        logging.getLogger("ray").setLevel(logging.CRITICAL)
        quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        address = os.environ.get("RAY_ADDRESS")
        if address:
            ray.init(address=address, **quiet)
        else:
            folder = new_ray_folder()
            ray.init(
                address="local",
                _temp_dir=folder,
                num_cpus=usable_cpus(),
                object_store_memory=100 * 2**20,  # trials pass nothing through Ray's object store
                include_dashboard=False,
                **quiet,
            )
    try:
        yield {
            node["NodeManagerAddress"]: (node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0))
            for node in ray.nodes()
            if node["Alive"]
        }
    finally:
        if starts_here:
            ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def cluster_nodes() -> dict[str, tuple[float, float]]:
    """Asks the cluster at RAY_ADDRESS for the (CPUs, GPUs) of each node.

    Raises:
        InputError: no cluster answers there.
    """
    try:
        with ray_session() as nodes:
            return nodes
    except (ConnectionError, ValueError) as error:
        address = os.environ["RAY_ADDRESS"]
        message = f"no Ray cluster at {address} ({str(error).splitlines()[0]})"
        raise InputError(Problem(rule="unreachable", place="RAY_ADDRESS", value=address, message=message)) from error
