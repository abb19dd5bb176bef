"""Runs trials with Ray Tune. Keeps no state besides the trials' directories, so that nothing is lost if it dies."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import ray
from ray import tune
from ray.tune.search import Searcher

from mucon.device import usable_cpus
from mucon.errors import InputError, Problem
from mucon.training import EpochReport
from sweeps.service.run.interruption import interruptions
from sweeps.service.run.ray_environment import new_ray_folder
from sweeps.service.run.reasons import reason_in
from sweeps.service.run.resources import Resources
from sweeps.service.run.source import Exhausted, Training, TrialSource
from sweeps.service.run.worker import Outcome, mark_failed, run_trial
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import STOP_FILE, ResultsFolder
from sweeps.service.trials.trial import Trial

STOP_POLL_SECONDS = 0.2
"""Seconds between two checks of a worker for the file that asks it to stop."""
REPORT_SECONDS = 0.5
"""Seconds between two live reports of a trial."""
RETRIES = 2
"""Number of times a trial resumes after its worker process died; a failure of the trial itself is final."""
GPU_VARIABLES = ("CUBLAS_WORKSPACE_CONFIG",)
"""Environment variables that change the bits of a GPU."""


class Listener(Protocol):
    """Receives the progress of trials."""

    def epoch(self, key: str, values: Mapping[str, Any]) -> None:
        """A trial has finished an epoch."""

    def ended(self, key: str, outcome: Outcome) -> None:
        """A trial has ended, in any state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What all workers of a sweep share.

    Attributes:
        results: the results folder.
        scratch: a directory of this sweep; a `STOP_FILE` in it asks the workers to stop, and Tune's own files are
            written there and removed.
        device: where trials compute.
        command: the command line to record.
        environment: the `GPU_VARIABLES` that are set where the sweep is started; the workers set them too.
    """

    results: ResultsFolder
    scratch: Path
    device: str
    command: str = ""
    environment: Mapping[str, str] = field(
        default_factory=lambda: {name: os.environ[name] for name in GPU_VARIABLES if name in os.environ}
    )

    @property
    def stop_file(self) -> Path:
        """Asks the workers to write a checkpoint and stop."""
        return self.scratch / STOP_FILE

    def request(self, training: Training) -> dict[str, str]:
        """The config of a Tune trial: everything that a worker process needs, as text."""
        value = {
            "results": str(self.results.path),
            "scratch": str(self.scratch),
            "device": self.device,
            "command": self.command,
            "environment": self.environment,
            "trials": [trial.to_dict() for trial in training],
        }
        return {"request": json.dumps(value)}

    @classmethod
    def of_request(cls, config: Mapping[str, str]) -> tuple[Workplace, Training]:
        """The inverse of `request`."""
        value = json.loads(config["request"])
        trials = tuple(Trial.from_dict(trial) for trial in value.pop("trials"))
        results, scratch = ResultsFolder(Path(value.pop("results"))), Path(value.pop("scratch"))
        return cls(results=results, scratch=scratch, **value), trials


def run_trials(source: TrialSource, workplace: Workplace, each: Resources, listener: Listener) -> bool:
    """Runs trials until the source is exhausted and each has an outcome, or until it is interrupted.

    The first Ctrl-C or SIGTERM lets every running trial write a checkpoint and stop; the second ends them at once.

    Args:
        source: supplies the trainings; it receives each outcome while other trials run.
        workplace: what the workers share.
        each: cores and GPUs of a trial.
        listener: receives live values and outcomes.

    Returns:
        Whether it was interrupted.

    Raises:
        InputError: no node can run a trial.
        KeyboardInterrupt: at the second interruption.
    """
    stop, storage = workplace.stop_file, workplace.scratch / "tune"
    stop.unlink(missing_ok=True)
    try:
        with interruptions(stop) as install, _ray() as nodes:
            install()  # Ray has replaced the handlers
            slots = each.slots(nodes)
            os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(min(slots, 200))
            _fit(source, workplace, storage, each, slots, listener)
        return stop.exists()
    finally:
        shutil.rmtree(storage, ignore_errors=True)
        stop.unlink(missing_ok=True)


def _fit(
    source: TrialSource, workplace: Workplace, storage: Path, each: Resources, slots: int, listener: Listener
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
            source.ended(trial, outcome)
            listener.ended(key, outcome)

    def died(config: Mapping[str, str], error: str) -> None:
        reason = f"its worker process died {RETRIES + 1} times: {reason_in(error)}"
        for trial in Workplace.of_request(config)[1]:
            if trial.key in pending:
                ended(trial.key, mark_failed(trial, workplace.results, reason))

    stop = workplace.stop_file
    relay = _Relay(listener.epoch, ended, died, stop)
    tune.Tuner(
        tune.with_resources(train_trial, {"cpu": each.cpus, "gpu": each.gpus}),
        tune_config=tune.TuneConfig(
            search_alg=TrialQueue(next_request, at_most=4 * slots, stopping=stop.exists),
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
            stop=_StopWhenIdle(relay),
            failure_config=tune.FailureConfig(max_failures=RETRIES),
        ),
    ).fit()


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

    for trial in trials:
        outcome = run_trial(
            trial,
            workplace.results,
            device=workplace.device,
            should_stop=should_stop,
            report=report,
            command=workplace.command,
        )
        is_last = trial is trials[-1]
        tune.report({"key": trial.key, "state": str(outcome.state), "reason": outcome.reason, "last": is_last})


class _Relay(tune.Callback):  # type: ignore[misc]  # Ray has no types
    """Passes on what trials report, and keeps track of the running ones.

    Args:
        epoch: receives a trial's key and the values of an epoch.
        ended: receives a trial's key and its outcome.
        died: receives the request and the error message of trials whose worker process died too often.
        stop: the file that asks the workers to stop.
    """

    def __init__(
        self,
        epoch: Callable[[str, Mapping[str, Any]], None],
        ended: Callable[[str, Outcome], None],
        died: Callable[[Mapping[str, str], str], None],
        stop: Path,
    ) -> None:
        self._epoch = epoch
        self._ended = ended
        self._died = died
        self._stop = stop
        self._running: set[str] = set()

    def on_trial_start(self, trial: Any, **_: Any) -> None:
        self._running.add(trial.trial_id)

    def on_trial_result(self, trial: Any, result: dict[str, Any], **_: Any) -> None:
        if "state" in result:
            if result["last"]:
                self._running.discard(trial.trial_id)
            self._ended(result["key"], Outcome(State(result["state"]), result["reason"]))
        elif "epoch" in result:
            self._epoch(result["key"], result)

    def on_trial_complete(self, trial: Any, **_: Any) -> None:
        self._running.discard(trial.trial_id)

    def on_trial_error(self, trial: Any, **_: Any) -> None:
        self._running.discard(trial.trial_id)
        self._died(trial.config, _last_error(trial))

    @property
    def stopped_and_idle(self) -> bool:
        """Whether a stop was requested and no trial is running."""
        return not self._running and self._stop.exists()

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _StopWhenIdle(tune.Stopper):  # type: ignore[misc]  # Ray has no types
    """Ends Tune when a stop was requested and every running trial has written its checkpoint."""

    def __init__(self, relay: _Relay) -> None:
        self._relay = relay

    def __call__(self, *_: Any) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._relay.stopped_and_idle

    def __getstate__(self) -> dict[str, Any]:
        return {}


def _last_error(trial: Any) -> str:
    """Message of the last failure; Tune appends each one to a file, below a line with its number."""
    path = trial.error_file
    return Path(path).read_text().rpartition("Failure # ")[2].partition("\n")[2] if path else ""


def _trial_id(trial: Any) -> str:
    return str(trial.trial_id)


@contextmanager
def _ray() -> Iterator[dict[str, tuple[float, float]]]:
    """Connects to the Ray of RAY_ADDRESS or starts a local one; yields (CPUs, GPUs) of each node.

    A Ray that this process is already connected to is used and not shut down.
    """
    starts_here = not ray.is_initialized()
    folder = None
    if starts_here:
        logging.getLogger("ray").setLevel(logging.CRITICAL)
        quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        address = os.environ.get("RAY_ADDRESS")
        if address:
            ray.init(address=address, **quiet)
        else:
            folder = new_ray_folder()
            ray.init(
                address="local",
                _temp_dir=folder,
                num_cpus=usable_cpus(),
                object_store_memory=100 * 2**20,  # trials pass nothing through Ray's object store
                include_dashboard=False,
                **quiet,
            )
    try:
        yield {
            node["NodeManagerAddress"]: (node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0))
            for node in ray.nodes()
            if node["Alive"]
        }
    finally:
        if starts_here:
            ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def cluster_nodes() -> dict[str, tuple[float, float]]:
    """Asks the cluster at RAY_ADDRESS for the (CPUs, GPUs) of each node.

    Raises:
        InputError: no cluster answers there.
    """
    try:
        with _ray() as nodes:
            return nodes
    except (ConnectionError, ValueError) as error:
        address = os.environ["RAY_ADDRESS"]
        message = f"no Ray cluster at {address} ({str(error).splitlines()[0]})"
        raise InputError(Problem(rule="unreachable", place="RAY_ADDRESS", value=address, message=message)) from error


class TrialQueue(Searcher):  # type: ignore[misc]  # Ray has no types
    """Passes requests on to Tune, a bounded number at a time.

    Args:
        next_request: returns the config of Tune's next trial, or None if there is none at the moment; raises
            `Exhausted` if there will be no further one.
        at_most: number of requests inside Tune at a time.
        stopping: once it returns true, no further request is passed on.
    """

    def __init__(
        self,
        next_request: Callable[[], Mapping[str, Any] | None],
        *,
        at_most: int,
        stopping: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._next_request = next_request
        self._inside: set[str] = set()
        self._at_most = at_most
        self._stopping = stopping

    def suggest(self, trial_id: str) -> Any:
        """The next request, None while there is none or enough are inside Tune, or the end."""
        if self._stopping():
            return Searcher.FINISHED
        if len(self._inside) >= self._at_most:
            return None
        try:
            request = self._next_request()
        except Exhausted:
            return Searcher.FINISHED
        if request is None:
            return None
        self._inside.add(trial_id)
        return dict(request)

    def on_trial_complete(self, trial_id: str, **_: Any) -> None:
        """Makes room for the next."""
        self._inside.discard(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Writes an empty file, which Tune requires; a sweep resumes from its trials' directories instead."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Refuses.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a sweep resumes from its trials' directories: run the same command again")

    def __getstate__(self) -> dict[str, Any]:
        return {}
