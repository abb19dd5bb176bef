"""The lease: at most one holder, also when processes die or hang."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.service.trials import lease
from sweeps.service.trials.lease import LeaseLostError

HOLDER = """
    import pathlib, sys, time
    from sweeps.service.trials import lease
    held = lease.acquire(pathlib.Path(sys.argv[1]), duration=float(sys.argv[2]))
    print("held" if held else "refused", flush=True)
    time.sleep(60)
"""


def start(folder: Path, duration: float = 30.0) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(folder), str(duration)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def output_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_free(folder: Path) -> None:
    held = lease.acquire(folder)
    assert held is not None
    held.release()


def test_a_second_process_is_refused_until_the_first_releases(tmp_path: Path) -> None:
    held = lease.acquire(tmp_path)
    assert held is not None
    assert lease.acquire(tmp_path) is None
    holder = lease.holder(tmp_path)
    assert holder is not None
    assert str(holder) == f"process {os.getpid()} on {socket.gethostname()}"
    held.release()
    assert lease.holder(tmp_path) is None
    with lease.acquire(tmp_path) or pytest.fail("a released lease is free"):
        assert lease.holder(tmp_path) is not None


def test_exactly_one_of_many_processes_that_start_together_gets_the_lease(tmp_path: Path) -> None:
    for round in range(2):  # in a new folder, and after its holder was killed
        processes = [start(tmp_path) for _ in range(5)]
        try:
            assert sorted(output_of(process) for process in processes) == ["held", *["refused"] * 4], round
        finally:
            for process in processes:
                process.kill()
                process.wait()


def test_the_lease_of_a_killed_process_on_this_machine_is_free_immediately(tmp_path: Path) -> None:
    process = start(tmp_path, duration=3600)
    assert output_of(process) == "held"
    assert lease.acquire(tmp_path) is None
    process.kill()
    process.wait()
    assert_free(tmp_path)


def test_a_lease_is_renewed_as_long_as_its_process_lives(tmp_path: Path) -> None:
    with lease.acquire(tmp_path, duration=3) or pytest.fail("free") as held:
        time.sleep(4)
        held.check()
        assert lease.acquire(tmp_path) is None


def test_a_holder_that_slept_until_its_lease_expired_stops_and_changes_nothing(tmp_path: Path) -> None:
    process = start(tmp_path, duration=0.5)
    assert output_of(process) == "held"
    os.kill(process.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: lease.holder(tmp_path) is None)
        with lease.acquire(tmp_path) or pytest.fail("an expired lease is free"):
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(0.5)
            holder = lease.holder(tmp_path)
            assert holder is not None
            assert holder.pid == os.getpid()
    finally:
        process.kill()
        process.wait()


def test_a_lease_with_a_successor_is_lost(tmp_path: Path) -> None:
    first = lease.acquire(tmp_path, duration=2)
    assert first is not None
    first.check()
    mine = next(tmp_path.glob("lease-*.json"))
    successor = mine.with_name("lease-00000002.json")
    successor.write_text(mine.read_text().replace(str(os.getpid()), "1"))

    def lost() -> bool:
        try:
            first.check()
        except LeaseLostError as error:
            return str(tmp_path) in str(error)
        return False

    wait_until(lost)
    before = successor.read_text()
    first.release()
    assert successor.read_text() == before


def test_the_lease_of_a_removed_folder_does_not_end_the_one_of_its_successor(tmp_path: Path) -> None:
    folder = tmp_path / "trial"
    with lease.acquire(folder) or pytest.fail("free"):
        folder.rename(tmp_path / "trash")
        successor = lease.acquire(folder)
        assert successor is not None
    assert lease.holder(folder) is not None
    successor.confirm()
    successor.release()


def test_a_lease_file_without_content_belongs_to_another_process(tmp_path: Path) -> None:
    (tmp_path / "lease-00000001.json").touch()
    assert lease.acquire(tmp_path) is None
    os.utime(tmp_path / "lease-00000001.json", (0, 0))
    assert_free(tmp_path)


def test_a_living_lease_of_another_container_with_this_host_name_is_not_taken(tmp_path: Path) -> None:
    """The process numbers of a container are its own: that the number is free here says nothing."""
    process = start(tmp_path)
    assert output_of(process) == "held"
    process.kill()
    process.wait()
    path = tmp_path / "lease-00000001.json"
    here = json.loads(path.read_text())
    path.write_text(json.dumps({**here, "machine": f"{here['machine']}0"}))
    assert lease.acquire(tmp_path) is None
    holder = lease.holder(tmp_path)
    assert holder is not None
    assert (holder.host, holder.pid) == (socket.gethostname(), process.pid)
    os.utime(path, (0, 0))
    assert_free(tmp_path)


def test_the_lease_of_an_earlier_version_is_judged_by_its_host_name(tmp_path: Path) -> None:
    process = start(tmp_path, duration=3600)
    assert output_of(process) == "held"
    path = tmp_path / "lease-00000001.json"
    written = json.loads(path.read_text())
    del written["machine"], written["duration"]
    path.write_text(json.dumps(written))
    assert lease.acquire(tmp_path) is None
    process.kill()
    process.wait()
    assert_free(tmp_path)


def test_a_disk_that_is_full_leaves_no_lease(tmp_path: Path) -> None:
    """The file is created, but its content does not fit."""
    code = """
        import pathlib, resource, signal, sys
        from sweeps.service.trials import lease
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))
        try:
            lease.acquire(pathlib.Path(sys.argv[1]))
        except OSError:
            print("refused")
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "refused"
    assert list(tmp_path.iterdir()) == []


def test_leases_leave_few_files(tmp_path: Path) -> None:
    for _ in range(5):
        assert_free(tmp_path)
    assert len(list(tmp_path.iterdir())) <= 2
