"""Runs trials with Ray Tune. Keeps no state besides the trials' directories, so that nothing is lost if it dies."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mucon.device import usable_cpus
from mucon.errors import InputError
from sweeps.service.run.executor.cluster.address import check_cluster
from sweeps.service.run.executor.cluster.nodes import Node
from sweeps.service.run.executor.dispatch import Dispatch
from sweeps.service.run.executor.interruption import interruptions
from sweeps.service.run.executor.memory_kills import MemoryKills
from sweeps.service.run.executor.process import RayProcess
from sweeps.service.run.executor.ray_environment import is_cluster
from sweeps.service.run.executor.workplace import Workplace
from sweeps.service.run.listeners import Listener
from sweeps.service.run.resources import Resources
from sweeps.service.run.source import TrialSource
from sweeps.service.triage.causes import UnwritableError

STARTS = 2
"""Number of times that Ray is started for a sweep: once more after it has died."""
START_SECONDS = 180.0
"""Seconds within which Ray starts."""
SILENCE_SECONDS = 30.0
"""Seconds without a sign of life after which Ray is dead; it gives one each second."""
LOOK_SECONDS = 0.5
"""Seconds between two looks at Ray's processes."""
FROZEN_SECONDS = 5.0
"""Seconds between two looks at the leases of running trials; a worker that is frozen at two of them is ended."""
PAUSE_SECONDS = 5.0
"""Seconds between two looks after which this process itself was frozen."""
WAITING = 16
"""Number of trials that Tune holds at least on a cluster: their demand is what an autoscaler sees."""
STOP_SECONDS = 30.0
"""Seconds that running trials have to write a checkpoint and stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run of trials ended.

    Attributes:
        asked: when it was asked to stop, on the monotonic clock; None if it was not.
        reason: why it could not go on; empty if it could.
    """

    asked: float | None = None
    reason: str = ""


class _RayDied(Exception):
    """Ray is dead."""


def run_trials(
    source: TrialSource, workplace: Workplace, each: Resources, listener: Listener, most: int | None = None
) -> Ending:
    """Runs trials until the source is exhausted and each has an outcome, or until they cannot go on.

    The first Ctrl-C, SIGTERM or SIGHUP lets every running trial write a checkpoint and stop, and ends those that do
    not; the second ends them at once. A Ray that dies is started once more.

    Args:
        source: supplies the trainings; it receives each outcome while other trials run.
        workplace: what the workers share.
        each: cores and GPUs of a trial.
        listener: receives live values and outcomes.
        most: largest number of trials at a time, whatever the resources; None without a limit.

    Returns:
        How it ended.

    Raises:
        InputError: no node can run a trial.
        UnwritableError: the results folder cannot be written.
        KeyboardInterrupt: at the second interruption.
    """
    stop = workplace.stop_file
    dispatch = Dispatch(source, workplace, each, listener, local=0 if is_cluster() else usable_cpus())
    reason = ""
    try:
        with interruptions(stop) as asked_to_stop:
            for start in range(STARTS):
                process = RayProcess()
                try:
                    return _Session(process, dispatch, each, most, listener, asked_to_stop).run()
                except _RayDied as death:
                    reason = f"Ray died: {death}"
                    dispatch.ray_died()
                finally:
                    process.kill()
                if start + 1 < STARTS:
                    listener.note(f"{reason}; starting it again, and the running trials resume from their checkpoints")
                    if unreachable := _cluster_problem():
                        return Ending(reason=f"{reason}; {unreachable}")
        return Ending(reason=f"{reason}, {STARTS} times; run the same command again to resume")
    finally:
        with contextlib.suppress(OSError):
            stop.unlink(missing_ok=True)


class _Session:
    """Trials on one Ray, from its start to its end."""

    def __init__(
        self,
        process: RayProcess,
        dispatch: Dispatch,
        each: Resources,
        most: int | None,
        listener: Listener,
        asked_to_stop: Callable[[], bool],
    ) -> None:
        self._process, self._dispatch, self._each, self._listener = process, dispatch, each, listener
        self._asked_to_stop = asked_to_stop
        self._most, self._at_most = most, 0
        self._slots: int | None = None
        self._looked = time.monotonic()
        self._silent_from = self._looked + START_SECONDS
        self._asked: float | None = None
        self._frozen: set[int] = set()
        self._looked_at_leases = self._looked
        self._memory_kills = MemoryKills()

    def run(self) -> Ending:
        """Passes on events until there is nothing left to do.

        Raises:
            _RayDied: this Ray cannot go on.
            UnwritableError: the results folder cannot be written.
        """
        while not self._dispatch.is_over:
            event = self._process.event(0.2)
            if event is not None:
                self._receive(event)
            if ending := self._stopped() or self._check_alive(is_idle=event is None):
                return ending
        return Ending()

    def _receive(self, event: dict[str, Any]) -> None:
        kind, job = event.pop("event"), event.pop("job", -1)
        dispatch = self._dispatch
        if kind == "ask":
            may_start = self._asked is None and dispatch.n_inside < self._at_most
            self._process.answer(dispatch.next_config() if may_start else None)
        elif kind == "started":
            dispatch.started(job)
        elif kind == "report":
            dispatch.report(job, event)
        elif kind == "left":
            dispatch.left(job)
        elif kind == "died":
            dispatch.died(job, event["error"], of_memory=self._memory_kills.take())
        elif kind == "ready":
            self._see(event["nodes"])
            if not is_cluster():
                self._each.slots(dispatch.usable)
            self._process.watch()
            waiting = min(max(self._slots or 0, WAITING if is_cluster() else 1), 200)
            self._process.answer([waiting, not self._each.gpus])
        elif not event["lives"]:
            raise _RayDied("no node is left")
        else:
            self._see(event["nodes"])
        if kind in ("ready", "beat"):
            self._silent_from = time.monotonic() + SILENCE_SECONDS

    def _see(self, nodes: dict[str, tuple[str, float, float]]) -> None:
        """Adapts the number of trials to the living nodes, and says so if it has changed.

        Args:
            nodes: name -> identity, cores and GPUs.
        """
        dispatch, before = self._dispatch, self._slots
        dispatch.nodes = {name: Node(identity, (cpus, gpus)) for name, (identity, cpus, gpus) in nodes.items()}
        self._slots = slots = self._each.fitting(dispatch.usable)
        inside = max(4 * slots, WAITING if is_cluster() else 0)
        self._at_most = min(inside, self._most or inside)
        if slots == before:
            return
        at_a_time = min(slots, self._most or slots)
        dispatch.record_slots(at_a_time)
        if not slots:
            self._listener.note("no node can run a trial now; waiting for one")
        elif before is not None:
            self._listener.note(f"now {at_a_time} at a time, as nodes have joined or left")

    def _stopped(self) -> Ending | None:
        """How this ended if it was asked to stop; None while it goes on or trials are still stopping.

        Raises:
            UnwritableError: the results folder cannot be written.
        """
        if self._dispatch.obstacle:
            raise UnwritableError(self._dispatch.obstacle)
        now = time.monotonic()
        if self._asked is None:
            if not self._asked_to_stop():
                return None
            self._asked = now
        if self._dispatch.n_running and now < self._asked + STOP_SECONDS:
            return None
        if self._dispatch.n_running:
            self._listener.note(f"trials that did not stop within {STOP_SECONDS:g} s are ended")
        return Ending(asked=self._asked)

    def _check_alive(self, *, is_idle: bool) -> Ending | None:
        """Looks at Ray's processes, its signs of life, the workers, and whether this is still the sweep's driver."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return None
        if now - self._looked > PAUSE_SECONDS:  # frozen: signs of life have yet to be read
            self._silent_from += now - self._looked
        self._looked = now
        self._memory_kills.look()
        if death := self._process.death():
            raise _RayDied(death)
        if is_idle and now > self._silent_from:
            raise _RayDied("it does not respond")
        if now - self._looked_at_leases > FROZEN_SECONDS:
            if self._dispatch.is_superseded:
                return Ending(reason="another process has taken over this sweep")
            if refusals := self._dispatch.refusals:
                return Ending(reason=refusals)
            self._looked_at_leases, before = now, self._frozen
            self._frozen = self._dispatch.frozen()
            for pid in self._frozen & before:
                if self._process.end_worker(pid):
                    self._listener.note(f"worker process {pid} is frozen and is ended; its trial resumes")
        return None


def _cluster_problem() -> str:
    """Why the cluster at RAY_ADDRESS does not answer; empty if it does, or if Ray runs on this machine."""
    if is_cluster():
        try:
            check_cluster()
        except InputError as error:
            return error.line
    return ""
