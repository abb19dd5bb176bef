"""A worker process learns that it has to leave its node: the node drains, or the process receives SIGTERM.

A cloud that takes a machine back gives notice of half a minute to two minutes. Ray then starts nothing new on the
node, but does not move what runs there: the trial writes a checkpoint and goes back to the driver, which queues it
again.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
import time
from collections.abc import Iterator

import ray

from sweeps.service.run.executor.ray_session import draining_nodes

POLL_SECONDS = 1.0
"""Seconds between two questions whether the node drains."""

_running = threading.Event()
_terminated = threading.Event()


def catch_sigterm() -> None:
    """Lets a first SIGTERM ask the running trial to leave; without one, and at the second, Ray ends the process."""
    before = signal.getsignal(signal.SIGTERM)

    def handle(number: int, frame: object) -> None:
        if _running.is_set() and not _terminated.is_set():
            _terminated.set()
        elif callable(before):
            before(number, frame)  # type: ignore[arg-type]  # typeshed wants a FrameType

    signal.signal(signal.SIGTERM, handle)


@contextlib.contextmanager
def running() -> Iterator[None]:
    """A trial is running, which SIGTERM asks to leave."""
    _running.set()
    try:
        yield
    finally:
        _running.clear()


class Here:
    """The node of this process in a Ray cluster."""

    def __init__(self) -> None:
        self.identity = str(ray.get_runtime_context().get_node_id())
        self.address = str(ray.util.get_node_ip_address())
        self._drains = threading.Event()
        threading.Thread(target=self._watch, name="draining", daemon=True).start()

    @property
    def reason(self) -> str:
        """Why this process has to leave; empty if it may stay."""
        if self._drains.is_set():
            return f"node {self.address} drains"
        return f"its process on node {self.address} received SIGTERM" if _terminated.is_set() else ""

    @property
    def is_terminated(self) -> bool:
        """Whether only this process has to leave, because of a signal."""
        return _terminated.is_set() and not self._drains.is_set()

    def _watch(self) -> None:
        while self.identity not in draining_nodes():
            time.sleep(POLL_SECONDS)
        self._drains.set()


@functools.cache
def here() -> Here:
    """The node of this process, which is asked for once."""
    return Here()
