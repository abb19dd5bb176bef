"""Kills, freezes and starves real sweeps: they end in bounded time, nothing is lost, and the bits are equal."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.disks import disk
from tests.helpers.services import need
from tests.sweeps import small

pytestmark = [pytest.mark.service, pytest.mark.xdist_group("engine")]  # one process trains what nothing disturbs

SHAPES = ("box", "bell", "trapezoid")
EPOCHS = 30
ONE = ("--max-concurrent", "1")
"""One trial at a time, where a second worker process would show nothing more."""


@pytest.fixture(scope="module")
def undisturbed(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Identity -> weights of trials that are trained by themselves."""
    from sweeps.service.run.worker import run_trial
    from sweeps.service.trials.results_folder import ResultsFolder

    folder = tmp_path_factory.mktemp("undisturbed")
    for shape in SHAPES:
        trial = small.make_trial(tiny_store, mask__shape=shape, training__epochs=EPOCHS)
        run_trial(trial, ResultsFolder(folder), device="cpu")
    return small.weights(folder)


def line_of(name: str, store: Path, folder: Path, results: Path, *more: str) -> list[str]:
    script = small.own_script(folder, name, {shape: {"mask.shape": shape} for shape in SHAPES})
    return small.command(script, store, results, "--set", f"training.epochs={EPOCHS}", *more)


def processes_below(pid: int) -> dict[str, int]:
    """Title of each living descendant of a process, such as `gcs_server` or `ray::DashboardAgent` -> its number."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
    found, new = {}, {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new}
        for child in new:
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode().split()
                found[Path(words[0]).name if words else ""] = child
    return found


def kill(driver: int, title: str) -> None:
    """Kills the descendant of a driver with a title, which Ray's agents have some time after their start."""
    small.wait_until(lambda: title in processes_below(driver))
    os.kill(processes_below(driver)[title], signal.SIGKILL)


def worker_of(results: Path) -> int:
    """Number of a process that runs a trial."""
    newest = (records[-1] | {"all": records} for records in small.journals(results).values() if records)
    running = [one["all"] for one in newest if one.get("status", "running") == "running"]
    started = [record for records in running for record in records if record.get("status") == "running"]
    return int(started[-1]["pid"])


def trained(results: Path) -> int:
    """Number of finished epochs of all trials."""
    return sum(map(len, small.epochs(results).values()))


def check_whole(results: Path, undisturbed: dict[str, str]) -> None:
    """All trials are finished, with each epoch once and the weights of an undisturbed run."""
    assert small.weights(results) == undisturbed
    assert list(small.epochs(results).values()) == [list(range(1, EPOCHS + 1))] * len(SHAPES)


@pytest.mark.repeated(ci=1, soak=20)
def test_a_sweep_survives_the_death_of_a_worker_and_one_of_ray_and_after_the_next_the_same_command_is_whole(
    tiny_store: Path, tmp_path: Path, undisturbed: dict[str, str], repetition: int
) -> None:
    results, log = tmp_path / "results", tmp_path / "log"
    line = small.untracked(line_of("mortal", tiny_store, tmp_path, results))
    servers = ["ray::DashboardAgent", "gcs_server", "raylet", "ray::RuntimeEnvAgent"]
    random.Random(repetition).shuffle(servers)
    print("order", servers)
    with small.started(line, log) as driver:
        small.wait_until(lambda: trained(results) >= 2 + repetition % 5)
        os.kill(worker_of(results), signal.SIGKILL)
        for server in servers[:2]:
            before = trained(results)
            small.wait_until(lambda before=before: trained(results) > before + repetition % 3)
            kill(driver.pid, server)
        assert driver.wait(120) == 3
    output = log.read_text()
    assert output.count("Ray died") == 2
    assert "Traceback" not in output
    with small.started([*line, *ONE], tmp_path / "log again") as driver:
        before = trained(results)
        small.wait_until(lambda: trained(results) > before)
        kill(driver.pid, servers[2])
        assert driver.wait(180) == 0
    check_whole(results, undisturbed)


@pytest.mark.repeated(ci=1, soak=20)
def test_a_closed_terminal_ends_a_sweep_whose_worker_hangs_within_a_minute(tiny_store: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    line = line_of("hanging", tiny_store, tmp_path, results)
    terminal, inside = os.openpty()
    driver = subprocess.Popen(
        ["env", "--default-signal=HUP", *line],  # the tests may run under nohup
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=small.environment(MUCON_FAILPOINT="training.step:8:hang"),
        cwd=small.ROOT,
        start_new_session=True,
    )
    os.close(inside)
    try:
        small.wait_until(lambda: trained(results) >= 2)
        left = set(processes_below(driver.pid).values())
        os.close(terminal)
        for _ in range(2):  # of the shell and of the kernel
            driver.send_signal(signal.SIGHUP)
            time.sleep(0.5)
        assert driver.wait(90) == 130
    finally:
        driver.kill()
    small.wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))  # the last of Ray end just now


@contextlib.contextmanager
def no_memory() -> Iterator[Path]:
    """A control group in which every page is one too many: the kernel kills a process that is moved there."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    root, limit = (v1, "memory.limit_in_bytes") if v1.is_dir() else (v2, "memory.max")
    group = root / f"mucon-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text("0")
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group with a limit of memory can be made ({error})")
    try:
        yield group / "cgroup.procs"
    finally:
        small.wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


@pytest.mark.repeated(ci=1, soak=20)
def test_a_worker_that_the_kernel_kills_for_its_memory_runs_once_more_with_more_and_then_fails_with_advice(
    tiny_store: Path, tmp_path: Path
) -> None:
    results, log = tmp_path / "results", tmp_path / "log"
    script = small.own_script(tmp_path, "starved", {"box": {"mask.shape": "box"}})
    line = small.untracked(small.command(script, tiny_store, results, "--cpus-per-trial", "1"))
    with no_memory() as group, small.started([*line, "--set", "training.epochs=500"], log) as driver:
        killed = []
        for _ in range(2):
            small.wait_until(lambda: trained(results) > 0 and worker_of(results) not in killed)
            killed.append(worker_of(results))
            before = trained(results)
            small.wait_until(lambda before=before: trained(results) > before)
            group.write_text(str(killed[-1]))
            small.wait_until(lambda: not Path(f"/proc/{killed[-1]}").exists())
        assert driver.wait(120) == 3
    again, failed, *_ = (said for said in log.read_text().splitlines() if "seed 1" in said and "out of memory" in said)
    assert "2 CPU" in again
    assert "--cpus-per-trial 2" in failed
    assert [said[-1] for said in small.statuses(results).values()] == ["failed"]


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 100 MB in memory."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(folder)], check=False)
    need(mounted.returncode == 0, "the right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.repeated(ci=1, soak=20)
def test_a_full_results_folder_ends_a_sweep_with_its_reason_and_with_space_the_same_command_is_whole(
    tiny_store: Path, tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    with small_disk(tmp_path / "disk") as folder:
        results, log = folder / "results", tmp_path / "log"
        line = line_of("full", tiny_store, tmp_path, results, "--tracking-uri", f"sqlite:///{results}/mlflow.db")
        with small.started(line, log) as driver:
            small.wait_until(lambda: trained(results) >= 2)
            with (folder / "other").open("wb", buffering=0) as other, contextlib.suppress(OSError):
                while True:
                    other.write(bytes(2**16))
            assert driver.wait(60) == 3
        output = log.read_text()
        assert "Traceback" not in output
        (reason,) = (line for line in output.splitlines() if line.startswith("not finished: "))
        assert str(results) in reason
        assert "full" in reason
        assert not [said for said in small.statuses(results).values() if "failed" in said]
        (folder / "other").unlink()
        assert small.run([*line, *ONE]).returncode == 0
        check_whole(results, undisturbed)


@pytest.mark.repeated(ci=0, soak=20)
def test_a_disk_that_fails_ends_a_sweep_with_its_reason_and_mended_the_same_command_is_whole(
    tiny_store: Path, tmp_path: Path, undisturbed: dict[str, str], repetition: int
) -> None:
    with disk(tmp_path / "disk") as broken:
        results, log = broken.path / "results", tmp_path / "log"
        line = line_of("broken", tiny_store, tmp_path, results, "--tracking-uri", f"sqlite:///{results}/mlflow.db")
        with small.started(line, log) as driver:
            small.wait_until(lambda: trained(results) >= 2)
            (broken.make_read_only, broken.fail)[repetition % 2]()
            assert driver.wait(60) == 3
        output = log.read_text()
        assert "Traceback" not in output
        (reason,) = (line for line in output.splitlines() if line.startswith("not finished: "))
        assert str(results) in reason
        # the kernel may report an error of the disk until it has mounted it read-only
        assert any(word in reason for word in ("read-only", "input/output")[repetition % 2 :])
        broken.mend()
        assert not [said for said in small.statuses(results).values() if "failed" in said]
        assert small.run(line).returncode == 0
        check_whole(results, undisturbed)


@pytest.mark.repeated(ci=1, soak=20)
def test_a_frozen_worker_is_ended_once_its_lease_has_expired_and_its_trial_resumes_in_the_same_sweep(
    tiny_store: Path, tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    results, log = tmp_path / "results", tmp_path / "log"
    line = small.untracked(line_of("frozen", tiny_store, tmp_path, results, *ONE))
    with small.started(line, log) as driver:
        small.wait_until(lambda: trained(results) >= 2)
        frozen = worker_of(results)
        os.kill(frozen, signal.SIGSTOP)
        for path in results.glob("trials/*/lease-*.json"):
            if json.loads(path.read_text())["pid"] == frozen:
                os.utime(path, (0, 0))  # as after the duration of the lease
        assert driver.wait(180) == 0
    assert "frozen" in log.read_text()
    check_whole(results, undisturbed)
