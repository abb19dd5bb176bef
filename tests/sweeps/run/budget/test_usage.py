"""What trials have used: the heartbeat, attempts that are killed, and damaged records."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from storage.fencing import SupersededError
from sweeps.service.run.budget.usage import Account, Usage, read_all_usage, read_usage, usage_path
from tests.helpers.refusals import refused
from tests.sweeps import small

IDENTITY = "a" * 16


def nothing() -> None:
    pass


def test_attempts_add_up_with_their_shares(tmp_path: Path) -> None:
    for cpus, gpus in ((1.0, 0.0), (2.0, 0.25)):
        with Account(sweep=tmp_path, cpus=cpus, gpus=gpus).metered(IDENTITY, nothing):
            time.sleep(0.01)
    first, second = (
        attempt["seconds"] for attempt in json.loads(usage_path(tmp_path, IDENTITY).read_text())["attempts"]
    )
    assert min(first, second) > 0
    used = read_usage(tmp_path, IDENTITY)
    assert used == Usage(first + second, first + 2 * second, second / 4)
    assert read_all_usage(tmp_path) == {IDENTITY: used}
    assert read_usage(tmp_path, "b" * 16) == Usage()


def test_a_killed_process_has_recorded_what_it_used_and_not_the_time_since(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, threading; from sweeps.service.run.budget.usage import Account\n"
        "with Account(sweep=pathlib.Path(sys.argv[1]), cpus=2.0, gpus=0.5).metered('a' * 16, lambda: None, 0.05):\n"
        "    threading.Event().wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=small.ROOT)
    small.wait_until(lambda: read_usage(tmp_path, IDENTITY).seconds > 0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    used = read_usage(tmp_path, IDENTITY)
    assert used.seconds > 0.2
    assert (used.cpu_seconds, used.gpu_seconds) == (2 * used.seconds, used.seconds / 2)
    time.sleep(0.1)
    assert read_usage(tmp_path, IDENTITY) == used
    with Account(sweep=tmp_path, cpus=2.0, gpus=0.5).metered(IDENTITY, nothing):
        pass
    assert read_usage(tmp_path, IDENTITY).seconds >= used.seconds


def test_a_process_that_has_lost_the_trial_records_nothing_more(tmp_path: Path) -> None:
    account, lost = Account(sweep=tmp_path, cpus=1.0, gpus=0.0), [False]

    def check() -> None:
        if lost[0]:
            raise SupersededError

    with account.metered(IDENTITY, check, 0.01):
        small.wait_until(lambda: read_usage(tmp_path, IDENTITY).seconds > 0)
        lost[0] = True
        with account.metered(IDENTITY, nothing):  # its successor
            pass
        successors = usage_path(tmp_path, IDENTITY).read_bytes()
        time.sleep(0.05)
    assert usage_path(tmp_path, IDENTITY).read_bytes() == successors


@pytest.mark.parametrize("content", ["", "{", '{"format_version": 1, "attempts": [{"seconds": "x"}]}'])
def test_a_damaged_record_is_refused_by_a_budget_and_kept_by_the_next_attempt(tmp_path: Path, content: str) -> None:
    path = usage_path(tmp_path, IDENTITY)
    path.parent.mkdir()
    path.write_text(content)
    with refused("damaged", place=str(path), n=1):
        read_all_usage(tmp_path)
    with Account(sweep=tmp_path, cpus=1.0, gpus=0.0).metered(IDENTITY, nothing):
        pass
    assert read_usage(tmp_path, IDENTITY).seconds >= 0
    assert path.with_name(f"{path.name}.damaged-1").read_text() == content


def test_a_disk_that_cannot_be_written_costs_the_record_alone(tmp_path: Path) -> None:
    (tmp_path / "usage").write_text("no folder")
    with Account(sweep=tmp_path, cpus=1.0, gpus=0.0).metered(IDENTITY, nothing):
        ran = True
    assert ran
