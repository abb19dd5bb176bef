"""The process of a Ray session, which can be killed at any moment without harm to the driver."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from mucon.device import usable_cpus
from sweeps.service.run.executor.ray_environment import is_cluster, new_ray_folder, ray_folders
from sweeps.service.run.executor.sessions import living, session_members
from sweeps.service.run.reasons import reason_in
from sweeps.service.upkeep.leftovers import claim, remove_leftovers

SERVERS = ("raylet", "gcs_server")
"""Processes of a local Ray without which it is dead."""
KILL_SECONDS = 10.0
"""Seconds after which processes that do not even die of SIGKILL are given up."""
TUNE = "mucon-tune-"
"""First part of the name of Tune's temporary folder."""
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from sweeps.service.imports import quick_imports
with quick_imports():
    from sweeps.service.run.executor.tuning import main
main()
"""


class RayProcess:
    """Runs Ray Tune in a process of its own, which leads a session of the operating system.

    Ray may hang, or end the process it runs in; neither reaches the driver. Events and answers are lines of JSON on the
    process's standard output and input. If the driver dies, the process ends itself and the local Ray.
    """

    def __init__(self) -> None:
        remove_leftovers((*ray_folders(), *Path(tempfile.gettempdir()).glob(f"{TUNE}*")))
        self._ray_folder = None if is_cluster() else new_ray_folder()
        self._storage = Path(tempfile.mkdtemp(prefix=TUNE))
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._servers: dict[int, str] = {}
        folders = [self._ray_folder, str(self._storage)]
        self._claims: list[int] = []
        with contextlib.suppress(OSError):  # without locks, a folder that a kill leaves stays
            self._claims.extend(claim(Path(folder)) for folder in folders if folder is not None)
        with (self._storage / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), json.dumps([*folders, usable_cpus()])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                pass_fds=self._claims,
            )
        threading.Thread(target=self._read, name="events of Ray", daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):  # the last line of a killed process
                self._events.put(json.loads(line))

    def event(self, seconds: float) -> dict[str, Any] | None:
        """The next event, or None if there is none within some seconds."""
        try:
            return self._events.get(timeout=seconds)
        except queue.Empty:
            return None

    def answer(self, value: object) -> None:
        """Answers an event, see `tuning`."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the process has died, which `death` reports
            self._process.stdin.write(json.dumps(value).encode() + b"\n")
            self._process.stdin.flush()

    def watch(self) -> None:
        """Remembers the servers of the local Ray, which has started; does nothing on a cluster or without /proc."""
        self._servers = {pid: name for pid, name in session_members(self._process.pid) if name in SERVERS}

    def death(self) -> str | None:
        """Why this Ray is dead; None while its processes live."""
        gone = [name for pid, name in self._servers.items() if living(pid)[0] != name]
        if gone:
            return f"its {' and '.join(gone)} ended"
        if self._process.poll() is not None:
            last = reason_in((self._storage / "log").read_text(errors="replace"))
            return f"its process ended with status {self._process.returncode}{f': {last}' if last else ''}"
        return None

    def end_worker(self, pid: int) -> bool:
        """Ends a process if it belongs to this local Ray; returns whether it does."""
        if living(pid)[1] != self._process.pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def kill(self) -> None:
        """Ends the process, its local Ray and the workers of that, and removes their temporary files."""
        deadline = time.monotonic() + KILL_SECONDS
        while (members := [pid for pid, _ in session_members(self._process.pid)]) and time.monotonic() < deadline:
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):  # on systems without /proc
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for folder in (self._storage, self._ray_folder):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        while self._claims:
            os.close(self._claims.pop())
