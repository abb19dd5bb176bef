"""State and scores of one cell, as needed by the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mucon.errors import InputError
from sweeps.service.trials import provenance
from sweeps.service.trials.folder import TO_RUN, State
from sweeps.service.trials.json_files import UNREADABLE
from sweeps.service.trials.reading import TrialReading, values_of

LOSS = "loss.mutual_consistency"
"""The metric of an epoch that a table can show."""


class Attempt(NamedTuple):
    """What a trial's journal says about its progress.

    Attributes:
        epoch: finished epochs.
        since: start of the newest attempt, seconds since 1970; None before the first.
        ended: end of the newest attempt; None if it is running or has not ended by itself.
    """

    epoch: int = 0
    since: float | None = None
    ended: float | None = None

    @classmethod
    def of(cls, reading: TrialReading) -> Attempt:
        """The newest attempt of a trial whose journal is whole."""
        records = [record for record in reading.records if record["kind"] == "status"]
        starts = [record["timestamp"] / 1000 for record in records if record["status"] == State.RUNNING]
        has_ended = bool(records) and records[-1]["status"] != State.RUNNING
        ended = records[-1]["timestamp"] / 1000 if has_ended else None
        return cls(reading.n_epochs, starts[-1] if starts else None, ended)


@dataclass(frozen=True, slots=True)
class CellResult:
    """State and scores of one cell, as needed by the tables.

    Attributes:
        state: state of its trial.
        reason: reason for that state, if there is one.
        scores: prediction -> metric -> value, see `table_values`; empty unless the cell is finished.
        undefined: prediction -> metric -> number of test videos that do not define it.
        n_videos: number of test videos; 0 unless the cell is finished.
        failed_code: the code with which the trial itself failed; None for other states and failures.
        stamp: of the files at the reading, see `known_results.stamp_of`; empty if unknown.
        attempt: the newest attempt; empty if a file other than the result is damaged.
    """

    state: State
    reason: str | None = None
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    undefined: Mapping[str, Mapping[str, int]] = field(default_factory=dict, compare=False)
    n_videos: int = field(default=0, compare=False)
    failed_code: str | None = None
    stamp: str = field(default="", compare=False)
    attempt: Attempt = field(default=Attempt(), compare=False)

    @property
    def is_finished(self) -> bool:
        """Whether the cell has scores."""
        return self.state is State.FINISHED

    def value(self, prediction: str, metric: str) -> float | None:
        """A score; None if the cell is not finished or the score is undefined."""
        return self.scores.get(prediction, {}).get(metric)

    def n_undefined(self, prediction: str, metric: str) -> tuple[int, int]:
        """The number of test videos that do not define a metric, and of all test videos."""
        return self.undefined.get(prediction, {}).get(metric, 0), self.n_videos

    def lacks(self, prediction: str, metric: str) -> bool:
        """Whether its version of the software did not compute a metric of recordings, which then counts none."""
        known = self.undefined.get(prediction, {})
        return bool(known) and metric not in known and self.value(prediction, metric) is None

    @property
    def training_seconds(self) -> float | None:
        """Seconds of the training; None if the cell is not finished."""
        return next(iter(self.scores.values()), {}).get("training_seconds")


def keys_to_run(results: Mapping[str, CellResult]) -> list[str]:
    """The keys of the cells that a run trains or evaluates, or waits for.

    A trial that failed by itself would fail again with the same code and is left to `retry`.
    """
    return [
        key
        for key, result in results.items()
        if result.state in TO_RUN and (result.failed_code is None or result.failed_code != provenance.code())
    ]


def table_values(result: Mapping[str, Any], loss: float | None) -> dict[str, dict[str, float]]:
    """The values of a result by prediction and metric: scores, times and `mutual_consistency`.

    Args:
        result: content of the file of the evaluation.
        loss: L_mu of the last epoch; None if the method has another loss.
    """
    of_training = {"training_seconds": result["train_seconds"]}
    if loss is not None:
        of_training["mutual_consistency"] = loss
    return {prediction: {**values, **of_training} for prediction, values in values_of(result).items()}


def read_result(reading: TrialReading, evaluation: str, stamp: str = "") -> CellResult:
    """State and scores of an evaluation of a trial; a damaged file is a state with its name as the reason.

    Args:
        reading: the trial's directory.
        evaluation: identity of the evaluation.
        stamp: of the files, taken before.

    Raises:
        InputError: a file is of another format version.
    """
    if reading.damage is not None:
        return CellResult(State.DAMAGED, reading.damage)
    attempt = Attempt.of(reading)
    try:
        result = reading.result(evaluation)
    except InputError as error:
        if error.problems[0].rule not in UNREADABLE:
            raise
        return CellResult(State.DAMAGED, error.line, attempt=attempt)
    if result is None:
        return CellResult(*reading.state(evaluation), failed_code=reading.failed_code(evaluation), attempt=attempt)
    losses = reading.curve(LOSS)
    values, n_videos = table_values(result, losses[-1][1] if losses else None), len(result["per_video"])
    undefined = result.get("undefined", {})
    return CellResult(State.FINISHED, None, values, undefined, n_videos, stamp=stamp, attempt=attempt)
