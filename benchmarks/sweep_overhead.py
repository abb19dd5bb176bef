"""What a sweep costs besides its trainings: seconds per trial, seconds to the answer if all is known, and memory.

- `no work to result`: trainings of one step on one recording; seconds from the first result to the last, per trial. The
  reference is the same trials in this process, one after the other without Ray, divided by the slots.
- `no work to MLflow`: the whole command, with the start of Ray and until every run is FINISHED, per trial.
- `working`: trainings of some seconds; from the first start to the last result. The reference is the sum of the seconds
  of all trials, as recorded by themselves, divided by the slots.
- `memory`: resident bytes of the driver, with Tune's process, when the sweep has its first and its last result.
- `queued`: resident bytes of the driver, with Tune's process, when most trials of a large sweep are still queued. It is
  stopped after some results.
- `known`, `dry run`: a new process for a sweep whose trials are all finished and shipped (planted), or all missing. The
  reference is a new Python that imports torch. CPU seconds are given, too: they hardly depend on other work.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import planting
from harness import record, seconds

from mucon.device import usable_cpus
from sweeps.service.run.worker import run_trial
from sweeps.service.trials.results_folder import ResultsFolder

NAME = "sweep_overhead"
SERVERS = ("raylet", "gcs_server")
ROOT = Path(__file__).parents[1]


class Command:
    """A sweep's command line as a process, with its CPU seconds."""

    def __init__(self, script: Path, options: Sequence[str], log: Path) -> None:
        self.log = log
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
        words = [sys.executable, "-m", "sweeps", "run", str(script), *options]
        self.started = time.time()
        with log.open("wb") as file:
            self.process = subprocess.Popen(words, stdout=file, stderr=file, env=environment, cwd=ROOT)

    def wait(self) -> tuple[float, float]:
        """Wall and CPU seconds of the driver."""
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode:
            raise SystemExit(f"status {self.process.returncode}:\n{self.log.read_text()[-2000:]}")
        return time.time() - self.started, usage.ru_utime + usage.ru_stime

    def memory(self) -> int:
        """Resident bytes of the driver and its children besides Ray's servers; 0 if it has ended."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return _resident(str(pid)) + sum(_resident(child) for child in children)


def _resident(pid: str) -> int:
    try:
        if Path(f"/proc/{pid}/comm").read_text().strip() in SERVERS:
            return 0
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def moments(results: Path) -> list[tuple[float, float]]:
    """Start and end of the finished trials in seconds since 1970, by end."""
    found = []
    for path in results.glob("trials/*/journal.jsonl"):
        records: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
        states = [record for record in records if record["kind"] == "status"]
        if states and states[-1]["status"] == "finished":
            found.append((states[0]["timestamp"] / 1000, states[-1]["timestamp"] / 1000))
    return sorted(found, key=lambda moment: moment[1])


def no_work(folder: Path, n: int) -> None:
    folder = folder / f"{n}_trials"
    folder.mkdir()
    store = planting.make_store(folder / "store_of_one", n_train=1, n_test=1)
    script, results = planting.write_script(folder, "no_work", n), folder / "results"
    command = Command(script, planting.options(store, results, n, epochs=1), folder / "log")
    counted: list[tuple[int, int]] = []
    while (
        command.process.returncode is None
        and os.waitid(os.P_PID, command.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    ):
        time.sleep(1.0)
        done = sum(1 for _ in results.glob("trials/*/training.json"))
        if done and (resident := command.memory()):
            counted.append((done, resident))
    wall, _ = command.wait()
    ends = [end for _, end in moments(results)]
    assert len(ends) == n, f"{len(ends)} of {n}"
    alone = _alone(folder, store, min(n, 20)) / usable_cpus()
    fifth = max(1, (n - 1) // 5)
    fifths = [round((ends[min(i + fifth, n - 1)] - ends[i]) / fifth, 4) for i in range(0, n - fifth, fifth)]
    of = f"the trials in one process without Ray, divided by {usable_cpus()} slots"
    pair = ((ends[-1] - ends[0]) / (n - 1), alone)
    record(NAME, f"no work to result, {n} trials", [pair], of=of, by_fifths=fifths)
    record(NAME, f"no work to MLflow, {n} trials", [(wall / n, alone)], of=of)
    if counted:
        moments_of = {
            "first": counted[0],
            "from_200": next((each for each in counted if each[0] >= 200), counted[-1]),
            "largest": max(counted, key=lambda each: each[1]),
            "last": counted[-1],
        }
        sizes = {name: {"results": done, "MB": size >> 20} for name, (done, size) in moments_of.items()}
        print(json.dumps({"benchmark": NAME, "case": f"memory, {n} trials", "unit": "MB", **sizes}), flush=True)


def _alone(folder: Path, store: Path, n: int) -> float:
    """Seconds per trial in this process."""
    script = planting.write_script(folder, f"alone_{n}", n)
    results = ResultsFolder.at(folder / f"alone_{n}")
    _, trials = planting.planned(script, store, results, n, epochs=1)
    first, *others = trials.values()
    run_trial(first, results, device="cpu")
    return seconds(lambda: [run_trial(trial, results, device="cpu") for trial in others]) / max(1, len(others))


def working(folder: Path, n: int, epochs: int) -> None:
    store = planting.make_store(folder / "store_of_six", n_train=6, n_test=3)
    script, results = planting.write_script(folder, f"working_{n}", n), folder / f"working_{n}"
    Command(script, planting.options(store, results, n, epochs=epochs), folder / "log").wait()
    found = moments(results)
    work = sum(end - start for start, end in found) / usable_cpus()
    wall = max(end for _, end in found) - min(start for start, _ in found)
    each = round(work * usable_cpus() / len(found), 2)
    record(NAME, f"working, {n} trials of {each} s", [(wall, work)], of=f"sum of the trials' seconds / {usable_cpus()}")


def queued(folder: Path, n: int, results_at_the_end: int) -> None:
    store = planting.make_store(folder / "store_of_queue", n_train=1, n_test=1)
    script, results = planting.write_script(folder, f"queued_{n}", n), folder / f"queued_{n}"
    command, largest, done = Command(script, planting.options(store, results, n, epochs=1), folder / "log"), 0, 0
    while done < results_at_the_end:
        if command.process.poll() is not None:
            raise SystemExit(command.log.read_text()[-2000:])
        time.sleep(1.0)
        largest = max(largest, command.memory())
        done = sum(1 for _ in results.glob("trials/*/training.json"))
    seconds_to_here = round(time.time() - command.started, 1)
    command.process.send_signal(signal.SIGINT)
    command.process.wait()
    sizes = {"results": done, "MB": largest >> 20, "seconds": seconds_to_here}
    print(json.dumps({"benchmark": NAME, "case": f"queued, {n} trials", "unit": "MB", **sizes}), flush=True)


def known(folder: Path, n: int, repeat: int) -> None:
    store = folder / "store_of_forty"
    if not store.exists():
        planting.make_store(store, n_train=6, n_test=40)
    script = planting.plant(folder, store, n)
    options = planting.options(store, folder / f"results_{n}", n)
    first, _ = Command(script, options, folder / "log").wait()  # reads every file, and draws the figures
    _compare(f"known {n}", script, options, folder, repeat, first=round(first, 2))


def dry_run(folder: Path, n: int, repeat: int) -> None:
    store = planting.make_store(folder / "store_of_dry_run", n_train=6, n_test=3)
    script = planting.write_script(folder, f"dry_{n}", n)
    options = [*planting.options(store, folder / "dry", n), "--dry-run"]
    _compare(f"dry run {n}", script, options, folder, repeat)


def _compare(case: str, script: Path, options: Sequence[str], folder: Path, repeat: int, **extra: object) -> None:
    python = [sys.executable, "-c", "import torch"]
    pairs, processor = [], []
    for _ in range(repeat):
        wall, cpu = Command(script, options, folder / "log").wait()
        pairs.append((wall, seconds(lambda: subprocess.run(python, check=True))))
        processor.append(round(cpu, 2))
    record(NAME, case, pairs, of="a new Python that imports torch", cpu_seconds=min(processor), **extra)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measures what a sweep costs besides its trainings.")
    parser.add_argument("--small", action="store_true", help="sizes that take a minute")
    parser.add_argument(
        "--only", nargs="+", choices=("no_work", "queued", "working", "known", "dry_run"), help="some cases"
    )
    options = parser.parse_args(words)
    small: bool = options.small
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases: Mapping[str, Any] = {
            "no_work": lambda: [no_work(folder, n) for n in ((20,) if small else (200, 1000, 2000))],
            "queued": lambda: queued(folder, 100 if small else 10000, 5 if small else 600),
            "working": lambda: working(folder, 10, epochs=20 if small else 400),
            "known": lambda: [known(folder, n, repeat=1 if small else 3) for n in ((100,) if small else (2000, 10000))],
            "dry_run": lambda: dry_run(folder, 100 if small else 2000, repeat=1 if small else 3),
        }
        for case, measure in cases.items():
            if options.only is None or case in options.only:
                measure()


if __name__ == "__main__":
    main()
