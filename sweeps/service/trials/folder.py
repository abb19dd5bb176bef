"""The trial directory: the single source of truth, regardless of what Ray, MLflow or a driver report.

```
trials/IDENTITY/
  trial.json                               configuration and data (written first)
  journal.jsonl                            environment, states, epochs
  lease-00000001.json                      the process that may write here
  lease-00000001-TOKEN/                    its unfinished files
  run/                                     the checkpoint
  traceback.txt                            of the last attempt, if it failed
  worker.log                               last part of what its worker processes printed
  source.patch                             output of `git diff HEAD`, if the packages are in a modified working copy
  training.json                            seconds and sha256 of the weights; written when training has finished
  evaluations/EVALUATION/predictions/      PREDICTION.json: segmentations of the test videos
  evaluations/EVALUATION/result.json       scores; written last, so that it marks a finished evaluation
```

Format 1 stored the first evaluation in the directory itself; `upgrade` converts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from mucon.errors import InputError, Problem
from storage import failpoints
from storage.fencing import ALONE, Writer
from sweeps.service.trials import lease
from sweeps.service.trials.identity import is_identity
from sweeps.service.trials.json_files import ANY_KEY, NUMBER, SCORE, damaged, misfit, read_json, set_aside, write_json

FORMAT_VERSION = 2
READABLE_VERSIONS = (1, 2)
"""Format versions of trial.json and result.json that are read; their content is the same."""
HINT = "run the sweep again: it renames the file and makes it again"
TRIAL_SHAPE: dict[str, Any] = {"config": {}}
WHOLE_TRIAL_SHAPE = {
    **{"identity": str, "split": (str, int), "seed": int, "config": {}, "store": str, "data_fingerprint": str},
    **{"part": str, "numerics": object},
}
TRAINING_SHAPE = {"weights_sha256": str, "train_seconds": NUMBER}
RESULT_SHAPE = {
    **{"evaluation": str, "train_seconds": NUMBER},
    **{"scores": {ANY_KEY: {ANY_KEY: SCORE}}, "per_video": [{"id": str}]},
}
"""What tables and pages need of a result."""
OPTIONAL_SHAPE: dict[str, Any] = {"seconds": {ANY_KEY: NUMBER}, "undefined": {ANY_KEY: {ANY_KEY: int}}}
"""What a result may lack."""
DETAILS_SHAPE: dict[str, Any] = {
    **{"recall": {ANY_KEY: {ANY_KEY: SCORE}}, "confusion": {ANY_KEY: [[int]]}, "true_frames": {ANY_KEY: int}},
    **{"choices": {}, "task": str},
}
"""What a result of an earlier version may lack, besides `OPTIONAL_SHAPE`."""
WHOLE_RESULT_SHAPE = {**RESULT_SHAPE, **TRAINING_SHAPE}


class State(StrEnum):
    """State of a trial."""

    MISSING = "missing"
    RUNNING = "running"
    LOST = "lost"
    """Its process died or stopped renewing its lease; the trial resumes from its checkpoint."""
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    """Interrupted with a checkpoint."""
    DIVERGED = "diverged"
    """A loss became NaN or infinite; training again would give the same bits."""
    DAMAGED = "damaged"
    """A file of its directory is damaged; a run renames the file and makes it again."""


TO_RUN = frozenset({State.MISSING, State.RUNNING, State.LOST, State.FAILED, State.STOPPED, State.DAMAGED})
"""States of trials that a sweep runs or waits for."""


@dataclass(frozen=True, slots=True)
class TrialFolder:
    """Paths and writers of one trial's directory; `TrialReading` reads it.

    Args:
        path: `RESULTS/trials/IDENTITY`.
        writer: the right to write there under the trial's lease.

    Raises (every writer):
        SupersededError: another process has taken over the trial.
    """

    path: Path
    writer: Writer = field(default=ALONE, compare=False)

    @property
    def identity(self) -> str:
        """The directory's name."""
        return self.path.name

    @property
    def trial_path(self) -> Path:
        """The file with configuration and data."""
        return self.path / "trial.json"

    @property
    def journal_path(self) -> Path:
        """The journal."""
        return self.path / "journal.jsonl"

    @property
    def run_path(self) -> Path:
        """Directory in which training keeps its checkpoint."""
        return self.path / "run"

    @property
    def checkpoint_path(self) -> Path:
        """The checkpoint."""
        return self.run_path / "checkpoint"

    @property
    def training_path(self) -> Path:
        """Facts of the finished training."""
        return self.path / "training.json"

    @property
    def retention_path(self) -> Path:
        """Record of what was removed from the checkpoint of the finished training; see `upkeep.retention`."""
        return self.path / "retention.json"

    @property
    def traceback_path(self) -> Path:
        """Traceback of the last attempt, if it failed."""
        return self.path / "traceback.txt"

    @property
    def log_path(self) -> Path:
        """Last part of what its worker processes printed."""
        return self.path / "worker.log"

    @property
    def patch_path(self) -> Path:
        """Local changes of the source."""
        return self.path / "source.patch"

    def evaluation_path(self, evaluation: str) -> Path:
        """Directory of an evaluation's result and predictions."""
        return self.path / "evaluations" / evaluation

    def result_path(self, evaluation: str) -> Path:
        """The file that marks a finished evaluation."""
        return self.evaluation_path(evaluation) / "result.json"

    def predictions_path(self, evaluation: str) -> Path:
        """Directory of an evaluation's segmentations, one file per prediction."""
        return self.evaluation_path(evaluation) / "predictions"

    def write_trial(self, trial: Mapping[str, Any]) -> None:
        """Writes trial.json unless it exists; `data` is added to an existing file that lacks it."""
        if not self.trial_path.exists():
            write_json(self.trial_path, {"format_version": FORMAT_VERSION, **trial}, self.writer)
        elif "data" in trial and "data" not in (existing := read_versioned(self.trial_path, TRIAL_SHAPE)):
            write_json(self.trial_path, {**existing, "data": trial["data"]}, self.writer)

    def write_training(self, *, weights_sha256: str, train_seconds: float) -> None:
        """Marks the training as finished, atomically."""
        value = {"identity": self.identity, "weights_sha256": weights_sha256, "train_seconds": train_seconds}
        write_json(self.training_path, {"format_version": FORMAT_VERSION, **value}, self.writer)

    def write_result(self, evaluation: str, result: Mapping[str, Any]) -> None:
        """Writes an evaluation's result.json, atomically; the trial's first result has `first` set."""
        first = not any(map(_is_first, self.path.glob("evaluations/*/result.json")))
        path = self.result_path(evaluation)
        self.writer.confirm()
        path.parent.mkdir(parents=True, exist_ok=True)
        value = {"identity": self.identity, "evaluation": evaluation, "first": first, **result}
        write_json(path, {"format_version": FORMAT_VERSION, **value}, self.writer)

    def write_predictions(self, evaluation: str, prediction: str, videos: Mapping[str, Any]) -> None:
        """Writes the segmentations of a prediction, atomically.

        Args:
            evaluation: identity of the evaluation.
            prediction: name of the prediction.
            videos: video -> action names (`transcript`) and lengths in frames (`lengths`) of its segments.
        """
        path = self.predictions_path(evaluation) / f"{prediction}.json"
        self.writer.confirm()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"format_version": 1, "prediction": prediction, "videos": videos}, self.writer)

    def mend(self, evaluation: str) -> None:
        """Renames the damaged files that a run of an evaluation needs, so that the run makes them again.

        The journal mends itself. Only the holder of the trial's lease may call this.

        Raises:
            InputError: a file is of another format version.
        """
        first = self.path / "result.json"
        for parent in (self.path / "evaluations", self.evaluation_path(evaluation)):
            if parent.exists() and not parent.is_dir():
                set_aside(parent, self.writer)
        shapes = {self.trial_path: WHOLE_TRIAL_SHAPE, self.training_path: TRAINING_SHAPE}
        for path in (first, self.trial_path, self.training_path, self.result_path(evaluation)):
            try:
                if path.exists() and path in shapes:
                    read_versioned(path, shapes[path])
                elif path.exists():
                    check_details(path, read_result(path, WHOLE_RESULT_SHAPE))
            except InputError as error:
                if error.problems[0].rule != "damaged":
                    raise
                set_aside(path, self.writer)

    def upgrade(self) -> None:
        """Converts a directory of format 1: its first evaluation moves under `evaluations/`. Nothing is retrained.

        Does nothing to format 2, or while another process holds the trial. After a kill at any moment the next call
        completes the conversion.

        Raises:
            InputError: the directory is damaged, of an unknown format version, or cannot be written.
        """
        old = self.path / "result.json"
        if not old.exists():
            return
        try:
            if self.writer is not ALONE:
                self._move_first(old)
            elif (held := lease.acquire(self.path)) is not None:
                with held:
                    replace(self, writer=held.writer())._move_first(old)
        except OSError as error:
            raise InputError(
                Problem(
                    rule="version",
                    place=str(self.path),
                    value=1,
                    message=f"cannot convert this trial from format 1 ({error.strerror})",
                    hint="make the results folder writable once",
                )
            ) from error

    def _move_first(self, old: Path) -> None:
        """Moves the first evaluation; the old result is removed last, so that an interrupted move is repeated."""
        if not old.exists():  # converted meanwhile
            return
        result = read_versioned(old, WHOLE_RESULT_SHAPE)
        evaluation = str(result["evaluation"])
        if not is_identity(evaluation):
            raise damaged(old, f"evaluation {evaluation!r}", HINT)
        predictions = self.path / "predictions"
        self.evaluation_path(evaluation).mkdir(parents=True, exist_ok=True)
        failpoints.reach("sweeps.trials.upgrade")
        if predictions.exists() and not self.predictions_path(evaluation).exists():
            self.writer.confirm_for(predictions)
            predictions.rename(self.predictions_path(evaluation))
        failpoints.reach("sweeps.trials.upgrade")
        self.write_training(weights_sha256=result["weights_sha256"], train_seconds=result["train_seconds"])
        failpoints.reach("sweeps.trials.upgrade")
        write_json(
            self.result_path(evaluation), {**result, "format_version": FORMAT_VERSION, "first": True}, self.writer
        )
        failpoints.reach("sweeps.trials.upgrade")
        if self.trial_path.exists():
            trial = read_versioned(self.trial_path, TRIAL_SHAPE)
            write_json(self.trial_path, {**trial, "format_version": FORMAT_VERSION}, self.writer)
        failpoints.reach("sweeps.trials.upgrade")
        self.writer.confirm_for(old)
        old.unlink()


def _is_first(path: Path) -> bool:
    """Whether a file is the result of a trial's first evaluation."""
    try:
        return bool(read_versioned(path, RESULT_SHAPE).get("first", True))
    except InputError:
        return False


def check_details(path: Path, result: Mapping[str, Any]) -> None:
    """Checks the scores of each video and each action, which takes too long for every reading.

    Raises:
        InputError: the file is damaged.
    """
    wrong = misfit(result, {name: of for name, of in DETAILS_SHAPE.items() if name in result})
    if wrong:
        raise damaged(path, wrong, HINT)
    for row in result.get("per_video", ()):
        wrong = misfit(row, {prediction: {ANY_KEY: SCORE} for prediction in result["scores"] if prediction in row})
        if wrong:
            raise damaged(path, f"{row['id']}: {wrong}", HINT)


def read_result(path: Path, shape: Mapping[str, Any] = RESULT_SHAPE) -> dict[str, Any]:
    """A result of the evaluation whose directory contains it, or of a trial of format 1.

    Raises:
        InputError: as `read_versioned`, or the result is of another evaluation.
    """
    result = read_versioned(path, shape)
    if wrong := misfit(result, {name: of for name, of in OPTIONAL_SHAPE.items() if name in result}):
        raise damaged(path, wrong, HINT)
    if path.parent.parent.name == "evaluations" and result["evaluation"] != path.parent.name:
        raise damaged(path, f"result of the evaluation {result['evaluation']!r}", HINT)
    return result


def read_versioned(path: Path, shape: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's JSON file.

    Raises:
        InputError: the file is missing, damaged, of another format version or of another shape.
    """
    return read_json(path, versions=READABLE_VERSIONS, hint=HINT, shape=shape)
