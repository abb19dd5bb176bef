"""A trial's folder: the truth about a trial, whatever Ray, MLflow or a driver say.

```
trials/IDENTITY/
  trial.json                      what is trained (written once, first)
  journal.jsonl                   environment, states, epochs
  lease-00000001.json             who may write here
  run/                            the checkpoint
  source.patch                    what `git diff HEAD` said, where the packages lie in a working copy that was changed
  predictions/PREDICTION.json     segmentations of the test videos
  result.json                     scores; written last, so that it stands for a finished trial
  evaluations/EVALUATION/         result.json and predictions/ of other choices of evaluation
```
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from mucon.errors import InputError
from sweeps.service.trials import journal, lease

FORMAT_VERSION = 1


class State(StrEnum):
    """What has become of a trial."""

    MISSING = "missing"
    RUNNING = "running"
    LOST = "lost"
    """Its process ended or fell silent without a word; it goes on from its checkpoint."""
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    """Interrupted with a checkpoint."""
    DIVERGED = "diverged"
    """A loss became NaN or infinite: the same bits again would end the same way."""


TO_RUN = frozenset({State.MISSING, State.RUNNING, State.LOST, State.FAILED, State.STOPPED})
"""The states in which a sweep has something left to do or to wait for."""


@dataclass(frozen=True, slots=True)
class TrialFolder:
    """Reads and writes one trial's files.

    Args:
        path: `RESULTS/trials/IDENTITY`.
    """

    path: Path

    @property
    def identity(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def journal_path(self) -> Path:
        """The journal."""
        return self.path / "journal.jsonl"

    @property
    def run_path(self) -> Path:
        """Where training keeps its checkpoint."""
        return self.path / "run"

    def write_trial(self, trial: Mapping[str, Any]) -> None:
        """Writes trial.json unless it stands already."""
        path = self.path / "trial.json"
        if not path.exists():
            write_json(path, {"format_version": FORMAT_VERSION, **trial})

    def read_trial(self) -> dict[str, Any]:
        """What trial.json says.

        Raises:
            InputError: no such file, or one of another format version.
        """
        return _read_versioned(self.path / "trial.json")

    def evaluation_path(self, evaluation: str) -> Path:
        """Where an evaluation's result and predictions stand: the folder itself for the one made with the training."""
        first = self._first_evaluation()
        return self.path if first in (None, evaluation) else self.path / "evaluations" / evaluation

    def write_result(self, evaluation: str, result: Mapping[str, Any]) -> None:
        """Writes an evaluation's result.json, atomically."""
        path = self.evaluation_path(evaluation) / "result.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        value = {"format_version": FORMAT_VERSION, "identity": self.identity, "evaluation": evaluation, **result}
        write_json(path, value)

    def result(self, evaluation: str) -> dict[str, Any] | None:
        """An evaluation's result, or None where it was not made.

        Raises:
            InputError: it has another format version.
        """
        for path in (self.path, self.path / "evaluations" / evaluation):
            if (path / "result.json").exists():
                result = _read_versioned(path / "result.json")
                if result["evaluation"] == evaluation:
                    return result
        return None

    def other_evaluations(self) -> list[str]:
        """Identities of the evaluations that were made beside the first one."""
        return sorted(path.parent.name for path in self.path.glob("evaluations/*/result.json"))

    def other_results(self) -> dict[str, dict[str, Any]]:
        """Their results, by identity.

        Raises:
            InputError: one of another format version, or a damaged one.
        """
        return {
            name: _read_versioned(self.path / "evaluations" / name / "result.json") for name in self.other_evaluations()
        }

    def trained(self) -> bool:
        """Whether training has finished, under whatever evaluation."""
        return (self.path / "result.json").exists()

    def state(self, evaluation: str) -> tuple[State, str | None]:
        """The trial's state with regard to an evaluation, and the reason for it, where it has one.

        Raises:
            InputError: the folder has another format version.
        """
        return (State.FINISHED, None) if self.result(evaluation) is not None else self.unfinished_state()

    def unfinished_state(self) -> tuple[State, str | None]:
        """The state and its reason, when it is known that the result is not there."""
        if lease.holder(self.path) is not None:
            return State.RUNNING, None
        status = journal.last_status(journal.read(self.journal_path)[0])
        if status is None:
            return State.MISSING, None
        state = State(status["status"])
        if state is State.RUNNING:
            return State.LOST, f"process {status['pid']} on {status['host']} ended without a word"
        if state is State.FINISHED:
            return State.MISSING, None
        return state, status["reason"]

    def _first_evaluation(self) -> str | None:
        path = self.path / "result.json"
        return str(_read_versioned(path)["evaluation"]) if path.exists() else None


def write_json(path: Path, value: object) -> None:
    """Writes a file whole or not at all, durable when the call returns."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(value, file, allow_nan=False, ensure_ascii=False, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _read_versioned(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"a trial's folder has {path.name}, {path.parent} has none: name another folder") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is damaged ({error}): delete that trial's folder, it is trained again") from None
    if value.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"this program reads trial folders of format version {FORMAT_VERSION}, {path} has "
            f"{value.get('format_version')!r}: use the program that wrote it, or another --results folder"
        )
    return value
