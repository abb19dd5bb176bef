"""The function that Tune calls in a worker process."""

from __future__ import annotations

import os
import time
from typing import Any

from ray import tune
from ray.util import get_node_ip_address

from mucon.device import limit_gpu_memory
from mucon.training import EpochReport
from sweeps.service.run.budget.usage import Account
from sweeps.service.run.executor.workplace import Workplace
from sweeps.service.run.preflight import sees
from sweeps.service.run.worker import Outcome, run_trial
from sweeps.service.trials.folder import State

STOP_POLL_SECONDS = 0.2
"""Seconds between two checks of a worker for the file that asks it to stop."""
REPORT_SECONDS = 0.5
"""Seconds between two live reports of a trial."""
MARK_SECONDS = 30.0
"""Time limit for the results folder to appear on a node, so that one that never sees it does not use up all trials."""


def train_trial(config: dict[str, Any]) -> None:
    """Called by Tune in a worker process: runs one training and all its evaluations."""
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
    for trial in trials:
        outcome = (
            Outcome(State.LOST, refused)
            if refused
            else run_trial(
                trial,
                workplace.results,
                device=workplace.device,
                should_stop=should_stop,
                report=report,
                checkpoint_seconds=workplace.checkpoint_seconds,
                command=workplace.command,
                stop_reason=workplace.stop_reason,
                account=account,
                keep_output=True,
            )
        )
        is_last = trial is trials[-1]
        tune.report({"key": trial.key, "state": str(outcome.state), "reason": outcome.reason, "last": is_last})
