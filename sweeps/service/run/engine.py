"""Ray Tune as the executor of trials: it starts them and loses nothing when it dies, because it remembers nothing."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import ray
from ray import tune

from mucon.training import EpochReport
from sweeps.service.run.queue import TrialQueue
from sweeps.service.run.resources import Resources, cpu_count
from sweeps.service.run.worker import Outcome, mark_failed, run_trial
from sweeps.service.trials import lease
from sweeps.service.trials.folder import State
from sweeps.service.trials.trial import Trial

LOOK = 0.2
"""Seconds between a worker's looks for the file that asks it to stop."""
REPORTING = 0.5
"""Seconds between two live reports of a trial."""
RETRIES = 2
"""How often a trial goes on from its checkpoint after its worker process died (a failure of the trial is final)."""


class Listener(Protocol):
    """What is told how the trials are getting on."""

    def epoch(self, key: str, values: Mapping[str, Any]) -> None:
        """A trial has finished an epoch."""

    def ended(self, key: str, outcome: Outcome) -> None:
        """A trial has ended."""


def run_trials(
    trials: Sequence[Trial],
    *,
    results: Path,
    scratch: Path,
    device: str,
    each: Resources,
    listener: Listener,
    command: str = "",
) -> bool:
    """Runs trials until each has an outcome in its folder, or until it is interrupted.

    The first Ctrl-C or SIGTERM lets every running trial write a checkpoint and stop; the second ends them at once.

    Args:
        trials: what to run, in this order.
        results: the results folder.
        scratch: a folder of this sweep, in which a file `stop` reaches the workers; Tune's own files go there too,
            and are removed.
        device: for the workers.
        each: what a trial gets.
        listener: told of live values and ends.
        command: the command line for which they run, for their records.

    Returns:
        Whether it was interrupted.

    Raises:
        InputError: a trial fits on no machine.
        KeyboardInterrupt: at the second interruption.
    """
    stop = scratch / "stop"
    stop.unlink(missing_ok=True)
    storage = scratch / "tune"
    try:
        with _interruptions(stop) as install, _ray() as nodes:
            install()  # Ray has put a handler of its own in the place of ours
            slots = each.slots(nodes)
            os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(min(slots, 200))
            common = {"results": str(results.absolute()), "stop": str(stop), "device": device, "command": command}
            _fit(trials, common, storage, each, slots, listener)
        return stop.exists()
    finally:
        shutil.rmtree(storage, ignore_errors=True)
        stop.unlink(missing_ok=True)


def _fit(
    trials: Sequence[Trial],
    common: Mapping[str, str],
    storage: Path,
    each: Resources,
    slots: int,
    listener: Listener,
) -> None:
    results, stop = Path(common["results"]), Path(common["stop"])
    folders = results / "trials"
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.identity, []).append(trial)
    requests = [
        {"identity": identity, "request": json.dumps({**common, "trials": [trial.to_dict() for trial in group]})}
        for identity, group in groups.items()
    ]
    queue = TrialQueue(
        requests,
        at_most=4 * slots,
        is_held=lambda request: lease.holder(folders / request["identity"]) is not None,
        stopping=stop.exists,
    )
    relay = _Relay(listener, stop)
    grid = tune.Tuner(
        tune.with_resources(train_trial, {"cpu": each.cpus, "gpu": each.gpus}),
        tune_config=tune.TuneConfig(
            search_alg=queue,
            num_samples=len(requests),
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
    for result in grid:
        if result.error is not None and result.config is not None:
            reason = f"its worker process died {RETRIES + 1} times: {' '.join(str(result.error).split())[:300]}"
            for trial in groups[result.config["identity"]]:
                listener.ended(trial.key, mark_failed(trial, results, reason))


def train_trial(config: dict[str, Any]) -> None:
    """What Tune calls in a worker process: one training and all evaluations of it, from wherever its folder stands."""
    request = json.loads(config["request"])
    stop = Path(request["stop"])
    looked = [0.0, False]

    def should_stop() -> bool:
        now = time.monotonic()
        if now - looked[0] > LOOK:
            looked[:] = [now, stop.exists()]
        return bool(looked[1])

    trials = [Trial.from_dict(value) for value in request["trials"]]
    told = [float("-inf")]

    scored: dict[str, float] = {}

    def report(epoch: EpochReport) -> None:
        now, metrics = time.monotonic(), epoch.metrics()
        scored.update({name: value for name, value in metrics.items() if name.startswith("progress.")})
        if now - told[0] > REPORTING or epoch.epoch == epoch.epochs:
            told[0] = now
            epochs = {"epoch": epoch.epoch, "epochs": epoch.epochs}
            tune.report({"key": trials[0].key, **epochs, **metrics, **scored})

    for trial in trials:
        outcome = run_trial(
            trial,
            Path(request["results"]),
            device=request["device"],
            should_stop=should_stop,
            report=report,
            command=request["command"],
        )
        told_last = trial is trials[-1]
        tune.report({"key": trial.key, "state": str(outcome.state), "reason": outcome.reason, "last": told_last})


class _Relay(tune.Callback):  # type: ignore[misc]  # Ray has no types
    """Passes what trials report to the listener, and counts those that are running."""

    def __init__(self, listener: Listener, stop: Path) -> None:
        self._listener = listener
        self._stop = stop
        self._running: set[str] = set()

    def on_trial_start(self, trial: Any, **_: Any) -> None:
        self._running.add(trial.trial_id)

    def on_trial_result(self, trial: Any, result: dict[str, Any], **_: Any) -> None:
        if "state" in result:
            if result["last"]:
                self._running.discard(trial.trial_id)
            self._listener.ended(result["key"], Outcome(State(result["state"]), result["reason"]))
        elif "epoch" in result:
            self._listener.epoch(result["key"], result)

    def on_trial_complete(self, trial: Any, **_: Any) -> None:
        self._running.discard(trial.trial_id)

    def on_trial_error(self, trial: Any, **_: Any) -> None:
        self._running.discard(trial.trial_id)

    @property
    def stopped_and_idle(self) -> bool:
        """Whether a stop was asked for and no trial is running any more."""
        return not self._running and self._stop.exists()

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _StopWhenIdle(tune.Stopper):  # type: ignore[misc]  # Ray has no types
    """Ends Tune when a stop was asked for and every running trial has written its checkpoint."""

    def __init__(self, relay: _Relay) -> None:
        self._relay = relay

    def __call__(self, *_: Any) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._relay.stopped_and_idle

    def __getstate__(self) -> dict[str, Any]:
        return {}


def _trial_id(trial: Any) -> str:
    return str(trial.trial_id)


@contextmanager
def _ray() -> Iterator[dict[str, tuple[float, float]]]:
    """The Ray that RAY_ADDRESS names, or one of our own for as long as it takes; gives each node's (CPUs, GPUs).

    A Ray that this process is connected to already is used and left alone.
    """
    ours = not ray.is_initialized()
    if ours:
        logging.getLogger("ray").setLevel(logging.CRITICAL)
        quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        address = os.environ.get("RAY_ADDRESS")
        if address:
            ray.init(address=address, **quiet)
        else:
            store = 100 * 2**20  # trials pass nothing through Ray's object store
            ray.init(
                address="local",
                num_cpus=cpu_count(),
                object_store_memory=store,
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
        if ours:
            ray.shutdown()


@contextmanager
def _interruptions(stop: Path) -> Iterator[Callable[[], None]]:
    """The first SIGINT or SIGTERM makes the file `stop`, the second raises KeyboardInterrupt.

    Gives a function that installs the handlers again. Outside the main thread, which alone may have handlers, there
    are none.
    """

    def handle(*_: object) -> None:
        if stop.exists():
            raise KeyboardInterrupt
        stop.touch()
        os.write(2, b"stopping: running trials write a checkpoint; once more (Ctrl-C) stops at once\n")

    def install() -> None:
        for number in before:
            signal.signal(number, handle)

    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if main else {}
    install()
    try:
        yield install
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
