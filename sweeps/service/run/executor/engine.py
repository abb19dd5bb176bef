"""Runs trials with Ray Tune. Keeps no state besides the trials' directories, so that nothing is lost if it dies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import tune

from sweeps.service.run.executor.interruption import interruptions
from sweeps.service.run.executor.queue import TrialQueue
from sweeps.service.run.executor.ray_session import ray_session
from sweeps.service.run.executor.relay import Relay, StopWhenIdle
from sweeps.service.run.executor.trainable import train_trial
from sweeps.service.run.executor.workplace import Workplace
from sweeps.service.run.listeners import Listener
from sweeps.service.run.reasons import reason_in
from sweeps.service.run.resources import Resources
from sweeps.service.run.source import TrialSource
from sweeps.service.run.worker import Outcome, mark_failed, recorded
from sweeps.service.trials.trial import Trial

RETRIES = 2
"""Number of times a trial resumes after its worker process died; a failure of the trial itself is final."""


def run_trials(
    source: TrialSource, workplace: Workplace, each: Resources, listener: Listener, most: int | None = None
) -> bool:
    """Runs trials until the source is exhausted and each has an outcome, or until it is interrupted.

    The first Ctrl-C or SIGTERM lets every running trial write a checkpoint and stop; the second ends them at once.

    Args:
        source: supplies the trainings; it receives each outcome while other trials run.
        workplace: what the workers share.
        each: cores and GPUs of a trial.
        listener: receives live values and outcomes.
        most: largest number of trials at a time, whatever the resources; None without a limit.

    Returns:
        Whether it was interrupted.

    Raises:
        InputError: no node can run a trial.
        KeyboardInterrupt: at the second interruption.
    """
    stop, storage = workplace.stop_file, workplace.scratch / "tune"
    stop.unlink(missing_ok=True)
    try:
        with interruptions(stop) as install, ray_session() as nodes:
            install()  # Ray has replaced the handlers
            slots = each.slots(nodes)
            os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(min(slots, 200))
            _fit(source, workplace, storage, each, min(4 * slots, most or 4 * slots), listener)
        return stop.exists()
    finally:
        shutil.rmtree(storage, ignore_errors=True)
        stop.unlink(missing_ok=True)


def _fit(
    source: TrialSource, workplace: Workplace, storage: Path, each: Resources, at_most: int, listener: Listener
) -> None:
    pending: dict[str, Trial] = {}

    def next_request() -> dict[str, str] | None:
        training = source.next_training()
        if training is None:
            return None
        pending.update({trial.key: trial for trial in training})
        return workplace.request(training)

    def ended(key: str, outcome: Outcome) -> None:
        trial = pending.pop(key, None)
        if trial is not None:  # a restarted worker repeats what it reported before it died
            outcome = recorded(trial, workplace.results, outcome)
            source.ended(trial, outcome)
            listener.ended(key, outcome)

    def died(config: Mapping[str, str], error: str) -> None:
        reason = f"its worker process died {RETRIES + 1} times: {reason_in(error)}"
        for trial in Workplace.of_request(config)[1]:
            if trial.key in pending:
                ended(trial.key, mark_failed(trial, workplace.results, reason))

    stop = workplace.stop_file
    relay = Relay(listener.epoch, ended, died, stop)
    tune.Tuner(
        tune.with_resources(train_trial, {"cpu": each.cpus, "gpu": each.gpus}),
        tune_config=tune.TuneConfig(
            search_alg=TrialQueue(next_request, at_most=at_most, stopping=stop.exists),
            num_samples=-1,
            reuse_actors=not each.gpus,
            trial_name_creator=_trial_id,
            trial_dirname_creator=_trial_id,
        ),
        run_config=tune.RunConfig(
            name="trials",
            storage_path=str(storage),
            verbose=0,
            callbacks=[relay],
            stop=StopWhenIdle(relay),
            failure_config=tune.FailureConfig(max_failures=RETRIES),
        ),
    ).fit()


def _trial_id(trial: Any) -> str:
    return str(trial.trial_id)
