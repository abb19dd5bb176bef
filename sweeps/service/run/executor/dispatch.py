"""Decides what runs next, and what runs again: the driver's side of a Ray session, without Ray."""

from __future__ import annotations

import contextlib
import re
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from sweeps.service.run.executor.cluster.nodes import Node
from sweeps.service.run.executor.verdicts import mark_failed, recorded
from sweeps.service.run.executor.workplace import Workplace
from sweeps.service.run.listeners import Listener
from sweeps.service.run.reasons import reason_in
from sweeps.service.run.resources import Resources
from sweeps.service.run.source import Exhausted, Training, TrialSource
from sweeps.service.run.worker import Outcome
from sweeps.service.triage.causes import Cause
from sweeps.service.trials import lease
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import SLOTS_FILE
from sweeps.service.trials.trial import Trial

RETRIES = {"died": 2, "lost": 3, "memory": 1, "terminated": 20}
"""Number of times a trial resumes after its worker process died, lost its lease (as a frozen one does), ran out of
memory, or received SIGTERM; a failure of the trial itself is final. Nodes that are lost or drain are not counted."""
NODE_DIED = "its node has died"
"""How Ray says that a worker process ended with its node."""


@dataclass(slots=True)
class _Job:
    """A training inside Tune."""

    each: Resources
    pending: dict[str, Trial]
    running: bool = False


class Dispatch:
    """Hands out trainings as configs of Tune trials, and receives what happens to them.

    Trainings whose worker died or lost its lease run again, a bounded number of times; one that ran out of memory runs
    once more with a larger share of a machine.

    Args:
        source: supplies the trainings; it receives each outcome while other trials run.
        workplace: what the workers share.
        each: cores and GPUs of a trial.
        listener: receives live values and outcomes.
        local: number of cores of this machine that local Rays share; 0 on a cluster.
    """

    def __init__(
        self, source: TrialSource, workplace: Workplace, each: Resources, listener: Listener, local: int = 0
    ) -> None:
        self._source, self._workplace, self._each, self._listener = source, workplace, each, listener
        self._local = local
        self._exhausted = False
        self._jobs: dict[int, _Job] = {}
        self._numbers = count()
        self._again: deque[tuple[Training, Resources]] = deque()
        self._retries: Counter[tuple[str, str]] = Counter()
        self.nodes: Mapping[str, Node] = {}
        """The living nodes that do not drain by name, once Ray has started."""
        self._refused: dict[str, str] = {}
        self.obstacle = ""
        """Why no trial can write its results; empty if none has failed to."""

    @property
    def is_over(self) -> bool:
        """Whether every training has its outcome and there will be no further one."""
        return self._exhausted and not self._jobs and not self._again

    @property
    def n_inside(self) -> int:
        """Number of trainings inside Tune."""
        return len(self._jobs)

    @property
    def n_running(self) -> int:
        """Number of trainings that a worker process runs."""
        return sum(job.running for job in self._jobs.values())

    @property
    def usable(self) -> dict[str, tuple[float, float]]:
        """(CPUs, GPUs) of each node that has not refused to run trials."""
        return {name: node.offers for name, node in self.nodes.items() if node.identity not in self._refused}

    @property
    def refusals(self) -> str:
        """Why no node runs trials, although there are nodes: each of them has refused to; empty otherwise."""
        able = [node.identity for node in self.nodes.values() if self._each.slots_of(*node.offers)]
        reasons = [self._refused.get(identity, "") for identity in able]
        return "; ".join(reasons) if all(reasons) and not self.n_running else ""

    @property
    def is_superseded(self) -> bool:
        """Whether another driver has taken over the sweep, as happens while this one is frozen: it removed the mark."""
        mark = self._workplace.mark
        with contextlib.suppress(OSError):  # a disk that does not respond
            return mark is not None and not mark.exists()
        return False

    def frozen(self) -> set[int]:
        """Numbers of the processes of this machine that run a training and do not renew its lease."""
        identities = {trial.identity for job in self._jobs.values() if job.running for trial in job.pending.values()}
        folders = [self._workplace.results.trial(identity).path for identity in identities]
        return {pid for folder in folders if (pid := lease.frozen(folder)) is not None}

    def record_slots(self, at_a_time: int) -> None:
        """Records how many trials run at a time."""
        with contextlib.suppress(OSError):  # only `status` reads it
            (self._workplace.scratch / SLOTS_FILE).write_text(str(at_a_time), encoding="utf-8")

    def next_config(self) -> dict[str, Any] | None:
        """The config of Tune's next trial; None if there is none at the moment."""
        if self._again:
            training, each = self._again.popleft()
        else:
            try:
                supplied = None if self._exhausted else self._source.next_training()
            except Exhausted:
                self._exhausted = True
                return None
            if supplied is None:
                return None
            training, each = supplied, self._each
        number = next(self._numbers)
        self._jobs[number] = _Job(each, {trial.key: trial for trial in training})
        facts = {"job": number, "cpus": each.cpus, "gpus": each.gpus, "local": self._local}
        return self._workplace.request(training) | facts

    def started(self, number: int) -> None:
        """A worker process runs the training."""
        self._jobs[number].running = True

    def report(self, number: int, report: Mapping[str, Any]) -> None:
        """A worker reports an epoch, the end of a trial, that it waits, or that it does not run the training here."""
        if "accepted" in report:
            self._refused.pop(report["node"], None)
            return
        job, key = self._jobs[number], report["key"]
        if "refused" in report:
            if report["node"] not in self._refused:
                self._listener.note(f"{report['refused']}; its trials run on other nodes")
            self._refused[report["node"]] = report["refused"]
            self._hand_back(number)
        elif "leaves" in report:
            self._listener.note(f"{report['leaves']}; resumes elsewhere from its checkpoint", key)
            if not report["terminated"]:
                self._hand_back(number)
            elif self._resumes(tuple(job.pending.values()), "terminated", job.each):
                del self._jobs[number]
            else:
                reason = f"its worker process received SIGTERM {RETRIES['terminated'] + 1} times"
                self._fail(tuple(self._jobs.pop(number).pending.values()), reason)
        elif "waits" in report:
            self._listener.note("waits for cores that another sweep uses", key)
        elif "epoch" in report:
            self._listener.epoch(key, report)
        elif trial := job.pending.pop(key, None):
            job.running = not report["last"]
            outcome = Outcome(State(report["state"]), report["reason"])
            cause = report["cause"]
            if cause == Cause.STORAGE:
                self.obstacle = str(outcome.reason)
            if outcome.state is State.LOST and self._resumes((trial,), "lost", job.each):
                return
            if cause == Cause.MEMORY:
                self._starved((trial,), job.each, str(outcome.reason))
            else:
                self._ended(trial, outcome)

    def left(self, number: int) -> None:
        """A worker has run the training to its end, or is ready for another one after it handed it back."""
        self._jobs.pop(number, None)

    def died(self, number: int, error: str, *, of_memory: bool) -> None:
        """The worker process of a training has died."""
        job = self._jobs.pop(number, None)
        trials = tuple(job.pending.values()) if job else ()
        if job is None or not trials:  # it had handed the training back, or reported all outcomes
            return
        if NODE_DIED in error:
            self._listener.note(f"{_lost_node(error)} is lost; resumes elsewhere from its checkpoint", trials[0].key)
            self._again.appendleft((trials, job.each))
        elif of_memory or "OutOfMemoryError" in error:
            self._starved(trials, job.each, "out of memory: its worker process was killed")
        elif not self._resumes(trials, "died", job.each):
            self._fail(trials, f"its worker process died {RETRIES['died'] + 1} times: {reason_in(error)}")

    def ray_died(self) -> None:
        """All worker processes have died with Ray; their trainings resume first, and it counts as no failure."""
        for job in reversed(self._jobs.values()):
            if job.pending:
                self._again.appendleft((tuple(job.pending.values()), job.each))
        self._jobs.clear()

    def _hand_back(self, number: int) -> None:
        """Queues a training first that its worker does not run; it counts as no failure."""
        job = self._jobs.pop(number)
        self._again.appendleft((tuple(job.pending.values()), job.each))

    def _resumes(self, trials: Training, why: str, each: Resources) -> bool:
        """Queues trials of a training again, unless that has happened too often."""
        retries = (why, trials[0].key)
        if self._retries[retries] >= RETRIES[why]:
            return False
        self._retries[retries] += 1
        self._again.append((trials, each))
        return True

    def _starved(self, trials: Training, each: Resources, reason: str) -> None:
        """Queues trials again with a larger share of a machine; they fail if that has happened before."""
        larger = self._each.larger(self.usable)
        if self._resumes(trials, "memory", larger):
            self._listener.note(f"{reason}; runs once more with {larger.share}", trials[0].key)
        else:
            self._fail(
                trials, f"{reason}, also with {each.share}; try {larger.option} for all trials, or a smaller model"
            )

    def _fail(self, trials: Training, reason: str) -> None:
        for trial in trials:
            self._ended(trial, mark_failed(trial, self._workplace.results, reason))

    def _ended(self, trial: Trial, outcome: Outcome) -> None:
        outcome = recorded(trial, self._workplace.results, outcome)
        self._source.ended(trial, outcome)
        self._listener.ended(trial.key, outcome)


def _lost_node(error: str) -> str:
    """The node in an error of Ray."""
    found = re.search(r"^\s*ip: (\S+)", error, re.MULTILINE)
    return f"node {found[1]}" if found else "its node"
