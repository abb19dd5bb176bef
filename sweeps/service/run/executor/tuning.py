"""The program of a Ray session's process: connects to Ray and runs Tune, which takes its trials from the driver.

It writes events to standard output, one JSON object per line: `ready` (nodes; the driver answers on standard input how
many trials to prepare and whether workers are reused), `ask` (it answers with the config of a trial or null), `beat`
(whether any node lives, and the nodes that do not drain), and `started`, `report`, `left` and `died` of a job. When
standard input ends, the driver has died: the process ends itself, its local Ray and the workers of that.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.search import Searcher

from sweeps.service.run.executor.entry import Training
from sweeps.service.run.executor.ray_session import living_nodes, ray_session
from sweeps.service.run.executor.sessions import session_members

BEAT_SECONDS = 1.0
"""Seconds between two questions for the living nodes."""


class Channel:
    """The lines to and from the driver; prints of other code go to the log, which standard error is."""

    def __init__(self) -> None:
        self._to_driver = os.fdopen(os.dup(1), "w", encoding="utf-8")
        self._from_driver = os.fdopen(os.dup(0), "r", encoding="utf-8")
        os.dup2(2, 1)
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), 0)
        self._lock = threading.Lock()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def send(self, event: str, **values: Any) -> None:
        """Sends an event."""
        with self._lock:
            self._to_driver.write(json.dumps({"event": event, **values}) + "\n")
            self._to_driver.flush()

    def ask(self, event: str, **values: Any) -> Any:
        """Sends an event that the driver answers, and returns the answer."""
        self.send(event, **values)
        return self._answers.get()

    def listen(self, folders: Sequence[str | None]) -> None:
        """Receives answers until the driver dies; then ends this session and removes its folders."""
        for line in self._from_driver:
            self._answers.put(json.loads(line))
        for pid, _ in session_members(os.getpid()):
            if pid != os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for folder in filter(None, folders):
            shutil.rmtree(folder, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)


class Asking(Searcher):  # type: ignore[misc]  # Ray has no types
    """Tune's source of trials: the driver."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """The config of the next trial; None while there is none."""
        config: dict[str, Any] | None = self._channel.ask("ask")
        return config

    def on_trial_complete(self, trial_id: str, **_: Any) -> None:
        """Does nothing; the driver receives events."""

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


class Relay(tune.Callback):  # type: ignore[misc]  # Ray has no types
    """Sends what happens to Tune's trials to the driver."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def on_trial_start(self, trial: Any, **_: Any) -> None:
        """The trial is running."""
        self._channel.send("started", job=trial.config["job"])

    def on_trial_result(self, trial: Any, result: dict[str, Any], **_: Any) -> None:
        """The trial has reported; Tune adds results of its own."""
        if "key" in result:
            self._channel.send("report", job=trial.config["job"], **{k: v for k, v in result.items() if k != "config"})

    def on_trial_complete(self, trial: Any, **_: Any) -> None:
        """The trial is not running any more."""
        self._channel.send("left", job=trial.config["job"])

    def on_trial_error(self, trial: Any, **_: Any) -> None:
        """The trial's worker process has died."""
        path = trial.error_file
        error = Path(path).read_text() if path and Path(path).exists() else ""
        self._channel.send("died", job=trial.config["job"], error=error.partition("\n")[2])

    def on_step_end(self, trials: list[Any], **_: Any) -> None:
        """Forgets the trials that have ended, which Tune would keep with their metrics and look at in each step."""
        for trial in [trial for trial in trials if trial.is_finished()]:
            metadata = trial.run_metadata
            for kept in (trial.config, trial.evaluated_params, metadata.metric_analysis, metadata.metric_n_steps):
                kept.clear()
            trials.remove(trial)

    def __getstate__(self) -> dict[str, Any]:
        return {}


def _nodes() -> dict[str, tuple[str, float, float]]:
    """Name -> identity, cores and GPUs of each node that lives and does not drain."""
    return {name: (node.identity, *node.offers) for name, node in living_nodes().items()}


def _beat(channel: Channel) -> None:
    while True:
        channel.send("beat", lives=any(node["Alive"] for node in ray.nodes()), nodes=_nodes())
        time.sleep(BEAT_SECONDS)


def _trial_id(trial: Any) -> str:
    return str(trial.trial_id)


def main() -> None:
    """Runs until it is killed; the first argument contains Ray's folder, Tune's folder and the number of cores."""
    ray_folder, storage, cpus = json.loads(sys.argv[1])
    channel = Channel()
    threading.Thread(target=channel.listen, args=((ray_folder, storage),), daemon=True).start()
    with ray_session(ray_folder, cpus):
        # `ray job stop` sends it to the driver, too, which lets the trials write their checkpoints before it ends this
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=_beat, args=(channel,), daemon=True).start()
        pending, reuse_actors = channel.ask("ready", nodes=_nodes())
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(pending)
        tune.Tuner(
            Training,
            tune_config=tune.TuneConfig(
                search_alg=Asking(channel),
                num_samples=-1,
                reuse_actors=reuse_actors,
                trial_name_creator=_trial_id,
                trial_dirname_creator=_trial_id,
            ),
            run_config=tune.RunConfig(name="trials", storage_path=storage, verbose=0, callbacks=[Relay(channel)]),
        ).fit()
