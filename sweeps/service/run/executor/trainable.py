"""The function that Tune calls in a worker process."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ray import tune

from mucon.device import limit_gpu_memory
from mucon.training import EpochReport
from sweeps.service.run.budget.system import SystemUse
from sweeps.service.run.budget.usage import Account
from sweeps.service.run.executor.cores import shared_cores
from sweeps.service.run.executor.leaving import Here, here, running
from sweeps.service.run.executor.workplace import Workplace
from sweeps.service.run.preflight import Question, refusal, sees
from sweeps.service.run.worker import NO_SLOT, Outcome, run_trial
from sweeps.service.triage.causes import Cause, cause_of, storage_reason
from sweeps.service.trials.folder import State
from sweeps.service.trials.trial import Trial

STOP_POLL_SECONDS = 0.2
"""Seconds between two checks of a worker for the file that asks it to stop."""
REPORT_SECONDS = 0.5
"""Seconds between two live reports of a trial."""
MARK_SECONDS = 30.0
"""Time limit for the results folder to appear on a node."""
REFUSED_SECONDS = 5.0
"""Seconds between two looks of a node that cannot run trials whether it can by now."""

_passed: set[str] = set()
"""Sweeps whose trials this process has found to run here, as the marks of their results folders."""


def train_trial(config: dict[str, Any]) -> None:
    """Called by Tune in a worker process: runs one training and all its evaluations.

    On a node of a cluster that cannot run the sweep's trials, it says so and keeps its share of the node until the node
    can, so that the training runs elsewhere. Where the process has to leave its node, it ends after the checkpoint.

    Args:
        config: `request` of the workplace, and `local`: the number of cores of this machine that the sweeps of a user
            share; 0 on a cluster.
    """
    workplace, trials = Workplace.of_request(config)
    os.environ.update(workplace.environment)
    node = here()
    key = trials[0].key
    share = tune.get_context().get_trial_resources().required_resources
    cpus, gpus = share.get("CPU", 0.0), share.get("GPU", 0.0)
    if workplace.mark is not None and (reason := _refusal(workplace, trials[0], node, share, MARK_SECONDS)):
        tune.report({"key": key, "refused": reason, "node": node.identity})
        while not node.reason and _refusal(workplace, trials[0], node, share, 0.0):
            time.sleep(REFUSED_SECONDS)
        tune.report({"key": key, "accepted": True, "node": node.identity})
        return
    if workplace.device.startswith("cuda"):
        limit_gpu_memory(gpus or 1.0)
    stop = workplace.stop_file
    checked = [0.0, False]

    def should_stop() -> bool:
        now = time.monotonic()
        if now - checked[0] > STOP_POLL_SECONDS:
            checked[:] = [now, bool(node.reason) or stop.exists()]
        return bool(checked[1])

    system = SystemUse() if workplace.system_metrics else dict
    account = None if workplace.sweep is None else Account(sweep=workplace.sweep, cpus=cpus, gpus=gpus, system=system)
    total = config.get("local", 0)
    report = _Reports(key)
    with running():
        for trial in trials:
            waits = partial(tune.report, {"key": trial.key, "waits": True})
            run = partial(
                run_trial,
                trial,
                workplace.results,
                device=workplace.device,
                should_stop=should_stop,
                report=report,
                checkpoint_seconds=workplace.checkpoint_seconds,
                command=workplace.command,
                stop_reason=lambda: workplace.stop_reason() if stop.exists() else node.reason,
                account=account,
                slot=shared_cores(cpus, total, should_stop, waits) if total else NO_SLOT,
                keep_output=True,
            )
            outcome = _outcome(run, workplace.results.path)
            if outcome.state is State.STOPPED and node.reason and not stop.exists() and outcome.cause is None:
                tune.report({"key": trial.key, "leaves": node.reason, "terminated": node.is_terminated})
                os._exit(1)  # Tune would give this process the next trial
            ended = {"key": trial.key, "state": str(outcome.state), "reason": outcome.reason, "cause": outcome.cause}
            tune.report({**ended, "last": trial is trials[-1]})


def _refusal(workplace: Workplace, trial: Trial, node: Here, share: Mapping[str, float], seconds: float) -> str:
    """Why this node cannot run trials of the sweep; empty if it can. Looks closely once for a process and sweep.

    Args:
        workplace: with a mark.
        trial: a trial of the sweep.
        node: the node.
        share: CPU and GPU that Ray gives to the trial.
        seconds: how long to wait for the mark.
    """
    mark = str(workplace.mark)
    if mark in _passed and sees(Path(mark), seconds):
        return ""
    question = Question(results=str(workplace.results.path), mark=mark, store=trial.store)
    offers = share.get("CPU", 0.0), math.ceil(share.get("GPU", 0.0))
    reason = refusal(question, workplace.facts, node.address, offers, seconds, on_gpus=workplace.device == "cuda")
    if not reason:
        _passed.add(mark)
    return reason


class _Reports:
    """Passes epochs of a training on to Tune, not too often."""

    def __init__(self, key: str) -> None:
        self._key, self._scores = key, dict[str, float]()
        self._reported = float("-inf")

    def __call__(self, epoch: EpochReport) -> None:
        now, metrics = time.monotonic(), epoch.metrics()
        self._scores |= {name: value for name, value in metrics.items() if name.startswith("progress.")}
        if now - self._reported > REPORT_SECONDS or epoch.epoch == epoch.epochs:
            self._reported = now
            epochs = {"epoch": epoch.epoch, "epochs": epoch.epochs}
            tune.report({"key": self._key, **epochs, **metrics, **self._scores})


def _outcome(run: Callable[[], Outcome], results: Path) -> Outcome:
    """The outcome of a trial, also of one that cannot write into the results folder."""
    try:
        return run()
    except Exception as error:
        if cause_of(error, results) is not Cause.STORAGE:
            raise
        return Outcome(State.STOPPED, storage_reason(error, results), Cause.STORAGE)
