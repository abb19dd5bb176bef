"""Real services for tests, on free loopback ports and in separate process groups, which are ended together."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

SERVER_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # saves eight processes for jobs that tests do not start
}


def need(condition: object, what: str) -> None:
    """Skips the test if a requirement is missing; fails in CI, where nothing may be missing."""
    if condition:
        return
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{what} is missing, and this is CI", pytrace=False)
    pytest.skip(f"{what} is missing")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until(condition: Callable[[], bool], seconds: float, what: str, pause: float = 0.1) -> None:
    """Polls a condition with a pause in between; raises TimeoutError after a number of seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {seconds} s")
        time.sleep(pause)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def end_group(process: subprocess.Popen[bytes], first: signal.Signals = signal.SIGTERM, patience: float = 10.0) -> None:
    """Ends a process and all descendants in its group."""
    for which in (first, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, which)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not group_lives(process.pid), patience, "the end of a process group")
            return


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


class PostgreSQL:
    """A server in a temporary folder with the database `mlflow`; can be stopped and started again."""

    def __init__(self) -> None:
        self.binaries = find_postgresql()
        need(self.binaries, "PostgreSQL (initdb)")
        pytest.importorskip("psycopg2")
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="mucon-postgresql-"))
        self.user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
        if self.user:
            shutil.chown(self.folder, self.user, self.user)
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self._run(
                "initdb", "-D", str(self.folder / "data"), "-U", "sweep", "--auth=trust", "--no-sync", "-E", "UTF8"
            )
            self.start()
            self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "sweep", "mlflow")
        except BaseException:
            self.remove()
            raise

    @property
    def uri(self) -> str:
        return f"postgresql+psycopg2://sweep@127.0.0.1:{self.port}/mlflow"

    def start(self) -> None:
        settings = ["listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}", "fsync=off"]
        command = ["postgres", "-D", str(self.folder / "data"), "-p", str(self.port)]
        self.process = self._start(command + [part for setting in settings for part in ("-c", setting)])
        ready = [str(self.binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, 30, "PostgreSQL's start")

    def stop(self) -> None:
        """Ends all sessions and the server (a fast shutdown)."""
        if self.process is not None:
            end_group(self.process, signal.SIGINT)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, *command: str) -> None:
        status = self._start(list(command)).wait(120)
        if status:
            raise RuntimeError(f"{command[0]} ends with {status}: {(self.folder / 'log').read_text()[-500:]}")

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self.binaries / command[0]), *command[1:]],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                user=self.user,
                group=self.user,
                extra_groups=[] if self.user else None,
            )


def find_postgresql() -> Path | None:
    """The folder of PostgreSQL's programs: Debian's newest, that of pg_config, or one on the search path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    configured = []
    if shutil.which("pg_config"):
        ran = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
        configured = [Path(ran.stdout.strip())]
    for folder in (*debian, *configured, *map(Path, os.get_exec_path())):
        if all((folder / program).exists() for program in ("initdb", "postgres", "createdb", "pg_isready")):
            return folder
    return None


class MLflowServer:
    """`mlflow server` on a database; ready when the constructor returns; can be stopped and started again."""

    def __init__(self, store: str, folder: Path, seconds: float = 240.0) -> None:
        self.folder, self._seconds, port = folder, seconds, free_port()
        self.uri = f"http://127.0.0.1:{port}"
        self._command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
        self._command += ["--workers", "1", "--backend-store-uri", store]
        self._command += ["--artifacts-destination", str(folder / "artifacts")]
        self.start()

    def start(self) -> None:
        environment = {**os.environ, **SERVER_ENVIRONMENT}
        log = self.folder / "mlflow.log"
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                self._command, stdout=file, stderr=file, cwd=self.folder, env=environment, start_new_session=True
            )
        try:
            wait_until(lambda: answers(f"{self.uri}/health"), self._seconds, f"the start of mlflow server ({log})")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        end_group(self.process, patience=3.0)


class Gate:
    """Forwards a loopback port to another one; while shut, connections break and new ones are refused."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, free_port()
        self._pairs: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.open()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        ends, self._pairs = [self._listener, *self._pairs], []
        self._listener = None
        for end in ends:
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self._pairs += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=_copy, args=(source, sink), daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
