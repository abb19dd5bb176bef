"""Passes on what Tune's trials report, and ends Tune when they have stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ray import tune

from sweeps.service.run.worker import Outcome
from sweeps.service.trials.folder import State


class Relay(tune.Callback):  # type: ignore[misc]  # Ray has no types
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
        """The trial is running."""
        self._running.add(trial.trial_id)

    def on_trial_result(self, trial: Any, result: dict[str, Any], **_: Any) -> None:
        """Passes on the values of an epoch, or how a trial ended."""
        if "state" in result:
            if result["last"]:
                self._running.discard(trial.trial_id)
            self._ended(result["key"], Outcome(State(result["state"]), result["reason"]))
        elif "epoch" in result:
            self._epoch(result["key"], result)

    def on_trial_complete(self, trial: Any, **_: Any) -> None:
        """The trial is not running any more."""
        self._running.discard(trial.trial_id)

    def on_trial_error(self, trial: Any, **_: Any) -> None:
        """The trial's worker process died too often."""
        self._running.discard(trial.trial_id)
        self._died(trial.config, _last_error(trial))

    @property
    def stopped_and_idle(self) -> bool:
        """Whether a stop was requested and no trial is running."""
        return not self._running and self._stop.exists()

    def __getstate__(self) -> dict[str, Any]:
        return {}


class StopWhenIdle(tune.Stopper):  # type: ignore[misc]  # Ray has no types
    """Ends Tune when a stop was requested and every running trial has written its checkpoint."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def __call__(self, *_: Any) -> bool:
        """No trial is stopped by its values."""
        return False

    def stop_all(self) -> bool:
        """Whether Tune ends."""
        return self._relay.stopped_and_idle

    def __getstate__(self) -> dict[str, Any]:
        return {}


def _last_error(trial: Any) -> str:
    """Message of the last failure; Tune appends each one to a file, below a line with its number."""
    path = trial.error_file
    return Path(path).read_text().rpartition("Failure # ")[2].partition("\n")[2] if path else ""
