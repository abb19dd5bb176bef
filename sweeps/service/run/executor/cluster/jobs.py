"""Ray Jobs: the sweeps that run on a cluster by themselves. A client over HTTP; this machine needs no Ray cluster."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mucon.errors import InputError, Problem
from sweeps.service.run.executor.cluster.address import CONNECT_SECONDS, HINTS
from sweeps.service.run.executor.cluster.submission import Submission
from sweeps.service.text import printable

NEEDED = ("aiohttp", "pydantic", "requests")
"""Packages of Ray's client."""
LOGGERS = ("dashboard.modules.dashboard_sdk", "dashboard.modules.job.sdk", "_private.runtime_env.packaging")
"""Modules of Ray that log what the client does."""
ANSWER_SECONDS = 60.0
"""Seconds within which the cluster answers a request."""
LOST_SECONDS = 60.0
"""Seconds without an answer after which the output of a job is not followed any more."""
LOOK_SECONDS = 1.0
"""Seconds between two questions for the state of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A sweep on a cluster.

    Attributes:
        identity: name of the job.
        state: `PENDING`, `RUNNING`, `STOPPED`, `SUCCEEDED` or `FAILED`.
        sweep: name of the sweep.
        results: the results folder on the cluster.
        command: digest of what was sent.
        entrypoint: the command on the cluster.
        started: seconds since 1970; None if it has not started.
        exit_status: of the command; None if it has not ended, or was ended by a signal.
        message: what Ray says about it.
    """

    identity: str
    state: str
    sweep: str
    results: str
    command: str
    entrypoint: str
    started: float | None
    exit_status: int | None
    message: str

    @property
    def is_over(self) -> bool:
        """Whether it does not run any more."""
        return self.state in ("STOPPED", "SUCCEEDED", "FAILED")


class LostError(Exception):
    """The cluster does not answer any more; the job may go on."""


class Jobs:
    """The jobs of the cluster whose dashboard has an address, such as http://head:8265.

    Args:
        address: of the dashboard.
        place: the option that has given it, for errors.

    Raises:
        InputError: no Ray dashboard answers there, it refuses the token, or a package is missing here.
    """

    def __init__(self, address: str, place: str) -> None:
        self._place, self.address = place, address.rstrip("/")
        if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
            message, hint = f"needs {', '.join(missing)}", "install the extra: pip install 'mucon[cluster]'"
            raise InputError(Problem(rule="missing", place=place, value=missing[0], message=message, hint=hint))
        self._connect()
        os.environ["RAY_API_SERVER_ADDRESS"] = self.address  # else RAY_ADDRESS wins over the argument
        if {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
            os.environ.setdefault("RAY_AUTH_MODE", "token")
        from ray.job_submission import JobSubmissionClient

        for name in LOGGERS:
            logging.getLogger(f"ray.{name}").setLevel(logging.CRITICAL)

        class Client(JobSubmissionClient):  # type: ignore[misc]  # Ray has no types
            """Waits for no answer for ever."""

            def _do_request(self, *request: Any, **options: Any) -> Any:
                return super()._do_request(*request, timeout=ANSWER_SECONDS, **options)

        with self._answers():
            self._client = Client(self.address)

    @property
    def ray_versions(self) -> tuple[str, str]:
        """The version of Ray on the cluster, and here."""
        import ray

        return str(self._client._server_ray_version), str(ray.__version__)

    def all(self) -> list[Job]:
        """The sweeps that were sent to the cluster, the last one first."""
        with self._answers():
            found = [_job(details) for details in self._client.list_jobs() if details.submission_id]
        return sorted((job for job in found if job.sweep), key=lambda job: job.started or time.time(), reverse=True)

    def named(self, name: str) -> Job:
        """The job of a name, or the last one of a sweep.

        Raises:
            InputError: there is none.
        """
        found = self.all()
        for job in (*(job for job in found if job.identity == name), *(job for job in found if job.sweep == name)):
            return job
        known = ", ".join(job.identity for job in found[:5]) or "none"
        message = f"no sweep {name!r} was sent to {self.address} (the last ones: {known})"
        raise InputError(Problem(rule="unknown", place=self._place, value=name, message=message))

    def submit(self, sent: Submission, variables: dict[str, str]) -> str:
        """Sends a sweep; returns the name of its job.

        Args:
            sent: the sweep.
            variables: further environment variables.
        """
        with tempfile.TemporaryDirectory() as folder, self._answers():
            environment: dict[str, Any] = {"env_vars": {**sent.variables, **variables}}
            if sent.file is not None:
                shutil.copy(sent.file, folder)
                environment["working_dir"] = folder
            identity: str = self._client.submit_job(
                entrypoint=sent.entrypoint,
                submission_id=sent.new_identity(),
                runtime_env=environment,
                metadata=sent.metadata,
            )
            return identity

    def stop(self, job: Job) -> None:
        """Asks a job to stop; Ray ends it after RAY_JOB_STOP_WAIT_TIME_S of the head."""
        with self._answers():
            self._client.stop_job(job.identity)

    def output(self, job: Job) -> str:
        """What a job has printed."""
        with self._answers():
            return printable(self._client.get_job_logs(job.identity))

    def follow(self, identity: str) -> Job:
        """Prints what a job prints until it is over; reconnects if the connection breaks.

        Raises:
            LostError: the cluster does not answer any more.
        """
        printed, lost_at = 0, time.monotonic() + LOST_SECONDS
        while True:
            before = printed
            with contextlib.suppress(*_broken()):
                for_tail = _Tail(self._client, identity, printed)
                try:
                    asyncio.run(for_tail.run())
                finally:
                    printed = for_tail.printed
            try:
                job = _job(self._client.get_job_info(identity))
                if job.is_over:
                    return job
                lost_at = time.monotonic() + LOST_SECONDS
            except _broken() as error:
                if printed > before:
                    lost_at = time.monotonic() + LOST_SECONDS
                if time.monotonic() > lost_at:
                    raise LostError(_line(error)) from error
            time.sleep(LOOK_SECONDS)

    def _connect(self) -> None:
        try:
            parts = urlsplit(self.address)
            port = parts.port or {"http": 80, "https": 443}[parts.scheme]
            where = str(parts.hostname), port
        except (KeyError, ValueError):
            raise InputError(
                Problem(rule="range", place=self._place, value=self.address, expected="http://HEAD:8265")
            ) from None
        try:
            socket.create_connection(where, CONNECT_SECONDS).close()
        except OSError as error:
            raise self._unreachable(f"no Ray dashboard at {self.address} ({error})") from error

    @contextlib.contextmanager
    def _answers(self) -> Iterator[None]:
        """Turns what the client raises into problems."""
        from ray.exceptions import AuthenticationError

        try:
            yield
        except AuthenticationError as error:
            message = f"the Ray cluster at {self.address} refuses the token"
            raise InputError(
                Problem(rule="unreachable", place=self._place, value=self.address, message=message, hint=HINTS["token"])
            ) from error
        except _broken() as error:
            raise self._unreachable(f"the Ray dashboard at {self.address} refuses ({_line(error)})") from error

    def _unreachable(self, message: str) -> InputError:
        hint = "the head needs --include-dashboard=true, and a port of its own for --dashboard-agent-listen-port"
        problem = Problem(rule="unreachable", place=self._place, value=self.address, message=message, hint=hint)
        return InputError(problem)


class _Tail:
    """The output of a job, printed from some character on."""

    def __init__(self, client: Any, identity: str, printed: int) -> None:
        self._client, self._identity, self.printed = client, identity, printed

    async def run(self) -> None:
        """Prints until the job is over or the connection breaks."""
        seen = 0
        async for text in self._client.tail_job_logs(self._identity):
            new = text[max(self.printed - seen, 0) :]
            seen += len(text)
            if new:
                sys.stdout.write(printable(new))
                sys.stdout.flush()
            self.printed = max(self.printed, seen)


def _broken() -> tuple[type[Exception], ...]:
    """What the client raises if the cluster does not answer, or answers with an error."""
    import aiohttp

    return (RuntimeError, OSError, ValueError, aiohttp.ClientError)


def _line(error: Exception) -> str:
    """The last line of an error, in which Ray repeats what happened on the cluster."""
    lines = [line for line in str(error).splitlines() if line.strip(" .'\"")]
    return lines[-1].strip(" .") if lines else type(error).__name__


def _job(details: Any) -> Job:
    metadata = details.metadata or {}
    return Job(
        identity=details.submission_id,
        state=str(details.status.value),
        sweep=metadata.get("mucon_sweep", ""),
        results=metadata.get("mucon_results", ""),
        command=metadata.get("mucon_command", ""),
        entrypoint=details.entrypoint,
        started=None if details.start_time is None else details.start_time / 1000,
        exit_status=details.driver_exit_code,
        message=details.message or "",
    )
