"""The only reader of a trial's directory, for tables, page, tracker, estimate and reproduction."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from mucon.errors import InputError
from sweeps.service.text import redacted
from sweeps.service.trials import journal, lease
from sweeps.service.trials.folder import (
    HINT,
    TRAINING_SHAPE,
    TRIAL_SHAPE,
    State,
    TrialFolder,
    read_result,
    read_versioned,
)
from sweeps.service.trials.journal import Record
from sweeps.service.trials.json_files import ANY_KEY, UNREADABLE, damaged, read_json

LOSS = "loss.total"
ACCURACY = "progress.full.mof"
"""Names of the two metrics of an epoch that progress lines, pages and figures show."""
FRAME_ACCURACY = "progress.frames.mof"
"""The accuracy of a method that predicts frames only."""


def accuracy_of(metrics: Mapping[str, Any]) -> float | None:
    """MoF on training videos of the prediction `full`, or of `frames` for a method without it; None if not scored.

    >>> accuracy_of({"progress.frames.mof": 0.5}), accuracy_of({"loss.total": 1.0})
    (0.5, None)
    """
    value: float | None = metrics.get(ACCURACY, metrics.get(FRAME_ACCURACY))
    return value


class TrialReading:
    """The current content of a trial's directory; each file is read once, at its first use.

    Raises (every property and method):
        InputError: a file is damaged or of another format version.

    Args:
        folder: the trial's directory; a directory of format 1 is converted, unless it is damaged.
    """

    def __init__(self, folder: TrialFolder) -> None:
        self.folder = folder
        self._damage: InputError | None = None
        try:
            folder.upgrade()
        except InputError as error:
            if error.problems[0].rule != "damaged":
                raise
            self._damage = error

    @property
    def exists(self) -> bool:
        """Whether the trial has started."""
        return self.folder.trial_path.exists()

    @cached_property
    def trial(self) -> dict[str, Any]:
        """trial.json."""
        return read_versioned(self.folder.trial_path, TRIAL_SHAPE)

    @cached_property
    def records(self) -> list[Record]:
        """The journal."""
        records, wrong = journal.read(self.folder.journal_path)
        if wrong is not None:
            raise damaged(self.folder.journal_path, wrong, "run the sweep again: it keeps the whole lines")
        return records

    @cached_property
    def training(self) -> dict[str, Any] | None:
        """training.json; None while the training has not finished."""
        path = self.folder.training_path
        return read_versioned(path, TRAINING_SHAPE) if path.exists() else None

    @property
    def is_trained(self) -> bool:
        """Whether the training has finished, evaluated or not."""
        return self.folder.training_path.exists()

    @cached_property
    def results(self) -> dict[str, dict[str, Any]]:
        """Results by identity of the evaluation: the first one, then the others sorted by identity."""
        paths = sorted(self.folder.path.glob("evaluations/*/result.json"))
        results, problems = {}, []
        for path in paths:
            try:
                results[path.parent.name] = read_result(path)
            except InputError as error:  # a damaged result does not hide the others
                if error.problems[0].rule not in UNREADABLE:
                    raise
                problems.append(error)
        if problems and not results:
            raise problems[0]
        return dict(sorted(results.items(), key=lambda item: (not item[1].get("first", False), item[0])))

    @property
    def n_results(self) -> int:
        """Number of finished evaluations."""
        return len(list(self.folder.path.glob("evaluations/*/result.json")))

    @property
    def first_result(self) -> dict[str, Any] | None:
        """The result of the first evaluation; None if there is none yet."""
        return next(iter(self.results.values()), None)

    def result(self, evaluation: str) -> dict[str, Any] | None:
        """The result of an evaluation; None if there is none yet."""
        path = self.folder.result_path(evaluation)
        return read_result(path) if path.exists() else None

    def segments(self, evaluation: str, prediction: str) -> dict[str, dict[str, Any]] | None:
        """Video -> action names (`transcript`) and `lengths` in frames of its segments; None before the evaluation."""
        path = self.folder.predictions_path(evaluation) / f"{prediction}.json"
        if not path.exists():
            return None
        shape = {"videos": {ANY_KEY: {"transcript": [str], "lengths": [int]}}}
        hint = "delete the trial's evaluation and run the sweep again"
        videos: dict[str, dict[str, Any]] = read_json(path, hint=hint, shape=shape)["videos"]
        for id, of in videos.items():
            if len(of["transcript"]) != len(of["lengths"]) or min(of["lengths"], default=0) < 0:
                raise damaged(path, f"{id}: lengths of the segments", hint)
        return videos

    def check(self) -> None:
        """Reads all files besides the results, so that a damaged one is an error here and not at its first use."""
        if self._damage is not None:
            raise self._damage
        if self.exists:
            _ = self.trial
        _ = self.training, self.records, self.state()

    @cached_property
    def damage(self) -> str | None:
        """The damaged file and what is wrong with it, as one line; None if `check` finds none."""
        try:
            self.check()
        except InputError as error:
            if any(problem.rule not in UNREADABLE for problem in error.problems):
                raise
            return error.line
        return None

    def state(self, evaluation: str | None = None) -> tuple[State, str | None]:
        """The state and, if there is one, its reason.

        Args:
            evaluation: identity of an evaluation; None: any evaluation.
        """
        path = self.folder.path
        finished = self.folder.result_path(evaluation).exists() if evaluation else bool(self.n_results)
        if finished:
            return State.FINISHED, None
        if lease.holder(path) is not None:
            return State.RUNNING, None
        status = self._status_of(evaluation)
        if status is None:
            return State.MISSING, None
        if status["status"] not in list(State):
            raise damaged(self.folder.journal_path, f"state {status['status']!r}", HINT)
        state = State(status["status"])
        if state is State.RUNNING:
            return State.LOST, f"process {status['pid']} on {status['host']} died without a final status"
        reason = status["reason"] and redacted(status["reason"])
        return (State.MISSING, None) if state is State.FINISHED else (state, reason)

    @property
    def last_status(self) -> Record | None:
        """The newest status record of the journal."""
        return journal.last_status(self.records)

    def has_begun(self, holder: lease.Holder) -> bool:
        """Whether the process that holds the trial trains or evaluates it, and does not wait for cores to do so."""
        last = self.last_status
        if last is None or last["status"] != State.RUNNING:
            return False
        return (last["host"], last["pid"]) == (holder.host, holder.pid)

    def failed_code(self, evaluation: str | None = None) -> str | None:
        """The code with which the trial itself failed, see `provenance.code`; None if its surroundings failed."""
        status = self._status_of(evaluation)
        return None if status is None or status["status"] != State.FAILED else status.get("code")

    def _status_of(self, evaluation: str | None) -> Record | None:
        """The newest status that concerns an evaluation: once trained, not those of other evaluations."""
        if evaluation is None or not self.is_trained:
            return self.last_status
        return journal.last_status([r for r in self.records if r.get("evaluation", evaluation) == evaluation])

    @cached_property
    def epochs(self) -> list[Record]:
        """The first record of each epoch, in the order of epochs."""
        first: dict[int, Record] = {}
        for record in self.records:
            if record["kind"] == "epoch":
                first.setdefault(int(record["step"]), record)
        return [first[step] for step in sorted(first)]

    @property
    def n_epochs(self) -> int:
        """The last finished epoch; 0 before the first."""
        return int(self.epochs[-1]["step"]) if self.epochs else 0

    def curve(self, metric: str) -> tuple[tuple[int, float], ...]:
        """(epoch, value) of each epoch that has the metric; `ACCURACY` is that of `accuracy_of`."""
        values = (
            (record["step"], accuracy_of(record["metrics"]) if metric == ACCURACY else record["metrics"].get(metric))
            for record in self.epochs
        )
        return tuple((epoch, value) for epoch, value in values if value is not None)

    @property
    def environment(self) -> dict[str, Any]:
        """The newest environment record without its kind and time; empty before the trial has started."""
        return _facts(next((record for record in reversed(self.records) if record["kind"] == "environment"), {}))

    @property
    def training_environment(self) -> dict[str, Any]:
        """The environment in which the newest epoch was trained; empty without epochs."""
        current: Mapping[str, Any] = {}
        environment: Mapping[str, Any] = {}
        for record in self.records:
            if record["kind"] == "environment":
                current = record
            elif record["kind"] == "epoch":
                environment = current
        return _facts(environment)


def values_of(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The values of a result by prediction and metric: its scores and, where measured, `inference_seconds` per video.

    >>> values_of({"scores": {"full": {"mof": 0.5}}, "seconds": {"full": 0.1}})
    {'full': {'mof': 0.5, 'inference_seconds': 0.1}}
    """
    seconds = result.get("seconds", {})
    return {
        prediction: {**scores, **({"inference_seconds": seconds[prediction]} if prediction in seconds else {})}
        for prediction, scores in result["scores"].items()
    }


def _facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an environment record; an older one may contain a password in its command."""
    facts = {name: value for name, value in record.items() if name not in ("kind", "timestamp")}
    return facts | ({"command": redacted(str(facts["command"]))} if "command" in facts else {})
