"""A source of trials that ends after a number of identical failures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sweeps.service.run.source import Exhausted, Training, TrialSource
from sweeps.service.run.worker import Outcome
from sweeps.service.triage.failures import FAILURES, Failed, Failure, FailureGroup, group_failures
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ask_to_stop
from sweeps.service.trials.trial import Trial


class StopAfterFailures:
    """Passes the trainings of another source on until K trainings have failed with one cause.

    Attributes:
        group: the failures that ended the source; None while it has not ended for them.

    Args:
        source: supplies the trainings.
        most: K, at least 1; None: failures never end the source.
        read: returns the directory of a trial, in whose journal the failure is.
        stop_file: is created to ask the running trials to write a checkpoint and stop.
    """

    def __init__(
        self, source: TrialSource, most: int | None, read: Callable[[str], TrialReading], stop_file: Path
    ) -> None:
        self.group: FailureGroup | None = None
        self._source, self._most, self._read, self._stop_file = source, most, read, stop_file
        self._failed: dict[tuple[object, ...], dict[str, Failed]] = {}

    def next_training(self) -> Training | None:
        """The next training of the other source.

        Raises:
            Exhausted: the other source is, or enough trainings have failed.
        """
        if self.group is not None:
            raise Exhausted
        return self._source.next_training()

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        """Passes on how a trial ended, and counts it if it failed; several evaluations of a training count once."""
        self._source.ended(trial, outcome)
        if self._most is None or outcome.state not in FAILURES or self.group is not None:
            return
        reading = self._read(trial.identity)
        failed = Failed(
            identity=trial.identity,
            name=f"split {trial.split}, seed {trial.config.seed}",
            state=outcome.state,
            reason=outcome.reason,
            failure=None if reading.damage else Failure.recorded(reading.last_status),
        )
        same = self._failed.setdefault(failed.key, {})
        same[failed.identity] = failed
        if len(same) >= self._most:
            (self.group,) = group_failures(same.values())
            ask_to_stop(self._stop_file, f"stopped after {len(same)} identical failures")
