"""The function that Tune calls in a worker process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ray import tune
from ray.util import get_node_ip_address

from mucon.device import limit_gpu_memory
from mucon.training import EpochReport
from sweeps.service.run.budget.usage import Account
from sweeps.service.run.executor.cores import shared_cores
from sweeps.service.run.executor.workplace import Workplace
from sweeps.service.run.preflight import sees
from sweeps.service.run.worker import NO_SLOT, Outcome, run_trial
from sweeps.service.triage.causes import Cause, cause_of, storage_reason
from sweeps.service.trials.folder import State

STOP_POLL_SECONDS = 0.2
"""Seconds between two checks of a worker for the file that asks it to stop."""
REPORT_SECONDS = 0.5
"""Seconds between two live reports of a trial."""
MARK_SECONDS = 30.0
"""Time limit for the results folder to appear on a node, so that one that never sees it does not use up all trials."""


def train_trial(config: dict[str, Any]) -> None:
    """Called by Tune in a worker process: runs one training and all its evaluations.

    Args:
        config: `request` of the workplace, and `local`: the number of cores of this machine that the sweeps of a user
            share; 0 on a cluster.
    """
    workplace, trials = Workplace.of_request(config)
    os.environ.update(workplace.environment)
    stop = workplace.stop_file
    checked = [0.0, False]

    def should_stop() -> bool:
        now = time.monotonic()
        if now - checked[0] > STOP_POLL_SECONDS:
            checked[:] = [now, stop.exists()]
        return bool(checked[1])

    reported = [float("-inf")]
    scores: dict[str, float] = {}

    def report(epoch: EpochReport) -> None:
        now, metrics = time.monotonic(), epoch.metrics()
        scores.update({name: value for name, value in metrics.items() if name.startswith("progress.")})
        if now - reported[0] > REPORT_SECONDS or epoch.epoch == epoch.epochs:
            reported[0] = now
            epochs = {"epoch": epoch.epoch, "epochs": epoch.epochs}
            tune.report({"key": trials[0].key, **epochs, **metrics, **scores})

    refused = ""
    if workplace.mark is not None and not sees(workplace.mark, MARK_SECONDS):
        refused = f"node {get_node_ip_address()} does not see the results folder {workplace.results.path} of this sweep"
    share = tune.get_context().get_trial_resources().required_resources
    if workplace.device.startswith("cuda"):
        limit_gpu_memory(share.get("GPU", 1.0))
    cpus, gpus = share.get("CPU", 0.0), share.get("GPU", 0.0)
    account = None if workplace.sweep is None else Account(sweep=workplace.sweep, cpus=cpus, gpus=gpus)
    total = config.get("local", 0)
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
            stop_reason=workplace.stop_reason,
            account=account,
            slot=shared_cores(cpus, total, should_stop, waits) if total else NO_SLOT,
            keep_output=True,
        )
        outcome = Outcome(State.LOST, refused) if refused else _outcome(run, workplace.results.path)
        ended = {"key": trial.key, "state": str(outcome.state), "reason": outcome.reason, "cause": outcome.cause}
        tune.report({**ended, "last": trial is trials[-1]})


def _outcome(run: Callable[[], Outcome], results: Path) -> Outcome:
    """The outcome of a trial, also of one that cannot write into the results folder."""
    try:
        return run()
    except Exception as error:
        if cause_of(error, results) is not Cause.STORAGE:
            raise
        return Outcome(State.STOPPED, storage_reason(error, results), Cause.STORAGE)
