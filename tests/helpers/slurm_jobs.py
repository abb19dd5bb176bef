"""Jobs of a stand-in for SLURM, whose nodes are network namespaces of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.services import wait_until
from tests.sweeps import small

SCRIPT = small.ROOT / "sweeps" / "clusters" / "slurm.sbatch"
STAND_INS = Path(__file__).with_name("slurm")
MACHINE = ("unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Starts a command as the first process of a machine without a network; if it is killed, all its processes are."""


def can_run() -> bool:
    """Whether this machine can make such machines with several nodes."""
    tried = [*MACHINE, "ip", "link", "add", "switch", "type", "bridge"]
    try:
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@dataclass
class Job:
    """A job of `slurm.sbatch`.

    Attributes:
        folder: where it was submitted; `log` has its output, and `state` is the folder of the stand-in.
        words: the command of the sweep.
        n_nodes: number of nodes, of one core each.
        restarts: how often it was started again.
        requeues: how often it has requeued itself.
    """

    folder: Path
    words: list[str]
    n_nodes: int = 1
    restarts: int = -1
    requeues: int = 0

    def __post_init__(self) -> None:
        (self.folder / "state").mkdir(parents=True)
        self._temporary = tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp", ignore_cleanup_errors=True)

    @property
    def log(self) -> str:
        """The output of all starts."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def files(self) -> Path:
        """The folder of the script's files."""
        return self.folder / ".slurm-17"

    def start(self) -> None:
        """Starts the job, or starts it again."""
        (self.folder / "state" / "notice").unlink(missing_ok=True)
        self.restarts += 1
        variables = {
            "PATH": f"{STAND_INS}:{os.environ['PATH']}",
            "SLURM_STATE": str(self.folder / "state"),
            "SLURM_JOB_ID": "17",
            "SLURM_JOB_NUM_NODES": str(self.n_nodes),
            "SLURM_JOB_NODELIST": f"10.77.0.[1-{self.n_nodes}]",
            "SLURM_CPUS_ON_NODE": "1",
            "SLURM_RESTART_COUNT": str(self.restarts),
            "MUCON_VENV": sys.prefix,
            "PYTHONPATH": str(small.ROOT),
            "OMP_NUM_THREADS": "1",
            "RAY_TMPDIR": self._temporary.name,
        }
        line = [*MACHINE, str(STAND_INS / "slurmd"), str(SCRIPT), *self.words]
        with (self.folder / "log").open("ab") as file:
            self._machine = subprocess.Popen(
                line, stdout=file, stderr=file, env=small.environment(**variables), cwd=self.folder
            )

    @property
    def has_ended(self) -> bool:
        """Whether its last start has ended."""
        return self._machine.poll() is not None

    def warn(self) -> None:
        """Sends the signal before the time limit, after which the job is requeued unless its sweep is finished."""
        (self.folder / "state" / "notice").touch()
        assert self.wait() in (None, 0), self.log

    def kill(self) -> None:
        """Ends all processes of the job without notice."""
        self._machine.send_signal(signal.SIGKILL)
        self._machine.wait()

    def close(self) -> None:
        """Ends the job and removes the temporary files that killed processes have left."""
        self.kill()
        self._temporary.cleanup()

    def wait(self) -> int | None:
        """Waits for the end of the job; returns its exit status, or None if it is requeued."""
        wait_until(lambda: self.has_ended, 600, f"the end of the job:\n{self.log}")
        requeue = self.folder / "state" / "requeue"
        if requeue.exists():
            requeue.unlink()
            self.requeues += 1
            return None
        return self._machine.returncode
