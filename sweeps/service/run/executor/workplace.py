"""What the driver of a sweep and its workers share, as the text that travels between them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mucon.training_config import CHECKPOINT_SECONDS
from sweeps.service.run.source import Training
from sweeps.service.run.worker import INTERRUPTED
from sweeps.service.trials.results_folder import STOP_FILE, ResultsFolder
from sweeps.service.trials.trial import Trial

GPU_VARIABLES = ("CUBLAS_WORKSPACE_CONFIG",)
"""Environment variables that change the bits of a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What all workers of a sweep share.

    Attributes:
        results: the results folder.
        scratch: a directory of this sweep; a `STOP_FILE` in it asks the workers to stop, and Tune's own files are
            written there and removed.
        device: where trials compute.
        checkpoint_seconds: seconds between two checkpoints of a trial; 0: one after every epoch.
        command: the command line to record.
        sweep: directory of the sweep, in which trials record what they use; None if they do not.
        system_metrics: whether trials record what they use of their machine with each epoch.
        mark: a file that only the results folder of this sweep contains; None if workers do not look for it.
        facts: the driver's `preflight.own_facts`, with which a worker compares what it sees if there is a mark.
        environment: the `GPU_VARIABLES` that are set where the sweep is started; the workers set them too.
    """

    results: ResultsFolder
    scratch: Path
    device: str
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    command: str = ""
    sweep: Path | None = None
    system_metrics: bool = False
    mark: Path | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(
        default_factory=lambda: {name: os.environ[name] for name in GPU_VARIABLES if name in os.environ}
    )

    @property
    def stop_file(self) -> Path:
        """Asks the workers to write a checkpoint and stop."""
        return self.scratch / STOP_FILE

    def stop_reason(self) -> str:
        """Why the workers are asked to stop: the text of the stop file, which Ctrl-C leaves empty."""
        with contextlib.suppress(OSError):
            return self.stop_file.read_text(encoding="utf-8").strip() or INTERRUPTED
        return INTERRUPTED

    def request(self, training: Training) -> dict[str, str]:
        """The config of a Tune trial: everything that a worker process needs, as text."""
        value = {
            "results": str(self.results.path),
            "scratch": str(self.scratch),
            "device": self.device,
            "checkpoint_seconds": self.checkpoint_seconds,
            "command": self.command,
            "sweep": self.sweep and str(self.sweep),
            "system_metrics": self.system_metrics,
            "mark": self.mark and str(self.mark),
            "facts": self.facts,
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
        sweep, mark = (path and Path(path) for path in (value.pop("sweep"), value.pop("mark")))
        return cls(results=results, scratch=scratch, sweep=sweep, mark=mark, **value), trials
