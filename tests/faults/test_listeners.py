"""What a sweep opens on its machine: sockets that listen, and folders."""

from __future__ import annotations

import contextlib
import ipaddress
from pathlib import Path

import pytest

from tests.sweeps import small

pytestmark = pytest.mark.service

SERVERS = {"gcs_server", "python", "ray::RuntimeEnv", "raylet"}
"""Names of the listening processes; Python runs the session."""


def descendants(process: int) -> set[int]:
    """A process with its children and theirs."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {process}
    while new := {child for child, parent in parents.items() if parent in found} - found:
        found |= new
    return found


def listeners(process: int) -> list[str]:
    """The addresses at which TCP sockets of a process listen."""
    sockets = set()
    for file in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(str(file.readlink()))
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                digits = bytes.fromhex(words[1].partition(":")[0])
                parts = [digits[i : i + 4][::-1] for i in range(0, len(digits), 4)]  # words of this machine's order
                addresses.append(str(ipaddress.ip_address(b"".join(parts))))
    return addresses


def is_loopback(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback


def test_every_socket_of_a_sweep_listens_on_loopback_and_no_argument_contains_the_token(
    tiny_store: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    script = small.own_script(tmp_path, "listening", {"box": {"loss.smoothing": 0.31}})
    line = small.command(script, tiny_store, results)
    with small.started(line, tmp_path / "log", MUCON_FAILPOINT="training.step:8:hang") as driver:
        small.wait_until(lambda: any(small.epochs(results).values()))
        opened, arguments, secrets = {}, b"", set()
        for process in descendants(driver.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                name = Path(f"/proc/{process}/comm").read_text().strip()
                opened[f"{name} {process}"] = listeners(process)
                arguments += Path(f"/proc/{process}/cmdline").read_bytes()
                for variable in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                    if variable.startswith(b"RAY_AUTH_TOKEN="):
                        secrets.add(variable.partition(b"=")[2])
    names = [name.split()[0] for name in opened]
    assert sum(name in ("gcs_server", "raylet") for name in names) == 2
    assert names.count("python") == 2, "driver and session; Ray's dashboard, autoscaler and reader of logs are others"
    assert "ray::IDLE" not in names, "Ray starts no worker in advance"
    assert {address for addresses in opened.values() for address in addresses if not is_loopback(address)} == set()
    assert any("Dashboard" in name for name in opened), "Ray starts the agent, which does not listen"
    listening = {name.split()[0] for name, addresses in opened.items() if addresses}
    assert {name for name in listening if not name.startswith("ray::Training")} == SERVERS, "besides the trial's worker"
    assert len(secrets) == 1
    assert secrets.pop() not in arguments
