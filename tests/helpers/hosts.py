"""Hosts that are reached by ssh, all on this machine and without a way out of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.helpers.services import need, wait_until

RAY = str(Path(sys.executable).with_name("ray"))
SCRIPT = Path(__file__).with_name("hosts.sh")
STARTS = 3
"""How often a node is started at most: Ray gives it 30 seconds, which a busy machine exceeds."""
NEW = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--propagation", "private")


class Hosts:
    """Hosts 10.77.0.1, 10.77.0.2, ... and an operator with a key for them; each has its own processes, home and /tmp.

    Attributes:
        shared: a folder that operator and hosts see at `/mnt`.
    """

    def __init__(self, shared: Path, number: int) -> None:
        need(os.geteuid() == 0, "root")
        for program in ("unshare", "nsenter", "ip", "ssh", "/usr/sbin/sshd", "rsync"):
            need(shutil.which(program), program)
        self.shared, self.number = shared, number
        self._started = subprocess.Popen(
            [*NEW, "bash", str(SCRIPT), str(shared), str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._started.stdout is not None
        if self._started.stdout.readline() != b"ready\n":
            self.end()
            raise RuntimeError("the hosts do not start")
        pid = self._started.pid
        (self._operator,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for host in range(1, number + 1):
            wait_until(lambda host=host: self.ssh(host, "true").returncode == 0, 60, "the start of sshd")

    def operator(self, *words: str) -> list[str]:
        """The command line that runs a command line of the operator."""
        return ["nsenter", f"--target={self._operator}", "--net", "--pid", "--mount", "--wdns=/mnt", *words]

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs a command line of the operator; its output and errors are in `stdout`."""
        return subprocess.run(
            self.operator(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env=environment(more),
            timeout=300,
        )

    def succeed(self, *words: str, attempts: int = 1, **more: str) -> str:
        """Runs a command line of the operator until it succeeds; returns its output."""
        for _ in range(attempts):
            done = self.run(*words, **more)
            if done.returncode == 0:
                return done.stdout
        raise AssertionError(done.stdout)

    def exec(self, command: str) -> subprocess.CompletedProcess[str]:
        """Runs a shell command on the head of the cluster of `cluster.yaml`."""
        return self.run(RAY, "exec", "cluster.yaml", command)

    @contextlib.contextmanager
    def started(self, *words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a command line of the operator beside the test."""
        with log.open("wb") as file:
            process = subprocess.Popen(
                self.operator(*words), stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment({})
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def ssh(self, host: int, command: str) -> subprocess.CompletedProcess[str]:
        """Runs a shell command on a host."""
        quiet = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        return self.run("ssh", *quiet, f"root@10.77.0.{host}", command)

    def end(self) -> None:
        """Ends operator and hosts with all their processes."""
        self._started.stdin.close()  # type: ignore[union-attr]
        try:
            self._started.wait(30)
        except subprocess.TimeoutExpired:
            self._started.send_signal(signal.SIGKILL)
            self._started.wait(30)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a login without settings of Ray."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8", **more}
