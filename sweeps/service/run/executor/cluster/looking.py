"""The program that asks a Ray cluster for its versions; it prints its address, or a problem, as one line of JSON."""

from __future__ import annotations

import json
import sys

import ray
from ray._private import services, utils
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # compiled
from ray.exceptions import AuthenticationError, RayError

LOCAL = "127.0.0.1:"
"""Beginning of the addresses of the local Rays of sweeps; `ray start` replaces this host by the machine's address."""


def main() -> None:
    """Looks at the cluster that the argument names; `auto`: that of this machine, as Ray finds it."""
    address = sys.argv[1]
    try:
        problem, message = "", ""
        if address == "auto":
            problem, message, address = _find()
        if not problem:
            problem, message = _ask(address)
    except AuthenticationError:
        problem, message = "token", f"the Ray cluster at {address} refuses the token"
    except (RayError, OSError, ValueError) as error:
        problem, message = "unreachable", f"no Ray cluster at {address} ({str(error).splitlines()[0]})"
    print(json.dumps({"problem": problem, "message": message, "address": address}))


def _find() -> tuple[str, str, str]:
    """A problem, its message, and the address of this machine's cluster; of several, that of the last `ray start`."""
    running = sorted(address for address in services.find_gcs_addresses() if not address.startswith(LOCAL))
    latest = utils.read_ray_address()
    if latest in running or len(running) == 1:
        return "", "", latest if latest in running else running[0]
    if running:
        return "duplicate", f"several Ray clusters on this machine: {', '.join(running)}", ""
    return "missing", "no Ray cluster on this machine", ""


def _ask(address: str) -> tuple[str, str]:
    """A problem of the cluster at an address, and its message; empty if there is none."""
    answer = GcsClient(address=address).internal_kv_get(b"CLUSTER_METADATA", b"cluster", timeout=10)
    if answer is None:
        return "unreachable", f"the Ray cluster at {address} does not say its version"
    cluster = json.loads(answer)
    try:
        utils.check_version_info(cluster, "this process")
    except RuntimeError:
        own = ".".join(map(str, sys.version_info[:3]))
        there = f"Ray {cluster['ray_version']} and Python {cluster['python_version']}"
        return "version", f"the cluster at {address} runs {there}, this process Ray {ray.__version__} and Python {own}"
    return "", ""
